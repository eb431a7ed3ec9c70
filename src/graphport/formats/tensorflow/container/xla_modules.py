"""`XlaCallModule` of TensorFlow, which `jax2tf` writes: the StableHLO module is read and inlined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import DiagnosticError
from graphport.core.facts import UNKNOWN
from graphport.formats.stablehlo.reader import read_bytes
from graphport.formats.tensorflow.container.findings import EXPORT
from graphport.ir.graph import Value, walk
from graphport.ir.rewrite import copy_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.tensorflow.container.evaluator import Evaluator
    from graphport.formats.tensorflow.container.items import Frame
    from graphport.formats.tensorflow.container.records import Record
    from graphport.ir.graph import Graph

OP_TYPE = "XlaCallModule"


def evaluate(building: Evaluator, frame: Frame, record: Record, operands: Sequence[Any]) -> list[Value]:
    """The results of a StableHLO module.

    Raises:
        DiagnosticError: TF0206 the module cannot be read, TF0201 it has another number of arguments or results.
    """
    place = f"node {record.name}"
    attribute = record.attribute_messages.get("module")
    if attribute is None or not attribute.has("s"):
        building.refuse("TF0201", f"{OP_TYPE} has no module", place, "write the graph again: it is malformed")
    try:
        graph, _ = read_bytes(attribute.bytes("s"), record.name)
    except DiagnosticError as error:
        reason = error.diagnostics[0]
        building.refuse("TF0206", f"{OP_TYPE}: {reason.message} ({reason.code})", place, reason.help or EXPORT)
    count = max(record.count(building.findings), 1)
    for kind, needed, found in (
        ("arguments", len(graph.inputs), len(operands)),
        ("results", len(graph.outputs), count),
    ):
        if needed != found:
            text = f"the module of {OP_TYPE} has {needed} {kind}, but the node has {found}"
            building.refuse("TF0201", text, place, "export the function for one platform")
    return _inline(
        building, graph, [building.value(each, record) for each in operands], f"{frame.prefix}{record.name}/"
    )


def _inline(building: Evaluator, graph: Graph, operands: Sequence[Value], prefix: str) -> list[Value]:
    """Append the nodes of `graph` to the current graph; its dims are inferred again from the operands."""
    mapping = dict(zip(graph.inputs, operands, strict=True))
    for value in graph.constants:
        if value.storage is not None:
            mapping[value] = building.constant(value.storage, f"{prefix}{value.name}")
    for inner in walk(graph):
        if inner is not graph:
            _rename(building, inner, prefix)
    for node in list(graph):
        results = [None if each is None else _result(building, each, prefix) for each in node.outputs]
        building.graph.append(copy_node(node, mapping, results))
        mapping |= {
            old: new for old, new in zip(node.outputs, results, strict=True) if old is not None and new is not None
        }
    return [mapping[value] for value in graph.outputs]


def _result(building: Evaluator, value: Value, prefix: str) -> Value:
    return Value(building.graph.fresh(f"{prefix}{value.name}"), UNKNOWN)


def _rename(building: Evaluator, body: Graph, prefix: str) -> None:
    """Give the values of a body names that are unique in the current graph."""
    for value in list(body.values()):
        body.rename(value, building.graph.fresh(f"{prefix}{value.name}"))
        if value.storage is None:
            value.fact = UNKNOWN
