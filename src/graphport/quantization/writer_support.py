"""Find quantized layers that the writer of the target rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.conversion.export import unsupported_results
from graphport.ops.registry import op_defs

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

_ROUNDINGS = ("QuantizeLinear", "DequantizeLinear")


def rejected_layers(graph: Graph, dialect: str) -> dict[str, str]:
    """Return the first results of layers of a quantized graph whose integers `dialect` does not express, with reasons.

    These are the layers that read a QuantizeLinear or DequantizeLinear without an export rule.
    """
    reasons = unsupported_results(graph, dialect)
    values = {value.name: value for value in graph.values()}
    found: dict[str, str] = {}
    pending = [values[name] for name in reasons if name in values]
    pending = [value for value in pending if value.producer is not None and value.producer.op in _ROUNDINGS]
    while pending:
        value = pending.pop()
        for user in value.users:
            op_def = None if user.dialect else op_defs().get(user.op_type)
            if user.op in _ROUNDINGS:
                pending.append(user.output)
            elif op_def is not None and op_def.role == "weighted":
                found[user.output.name] = f"the writer of {dialect} has no integer form for its operands"
    return found
