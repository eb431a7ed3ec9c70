"""Estimates of the time that a run takes, for runs that cannot be stopped inside an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import Symbolic, evaluate
from graphport.core.facts import UNKNOWN, Unknown
from graphport.ir.graph import walk
from graphport.ops import registry
from graphport.ops.constant_folding import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Node

MAX_ITERATIONS = 1 << 16
"""Iterations of a loop whose run is started although it cannot be stopped."""


def total_macs(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Return the multiply-accumulates of one run of `graph`, each body once; nodes of unknown shapes count 0."""
    return sum(_macs(node, sizes) for inner in walk(graph) for node in inner)


def largest_macs(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Return the multiply-accumulates of the node of `graph` with the most."""
    return max((_macs(node, sizes) for inner in walk(graph) for node in inner), default=0)


def _macs(node: Node, sizes: Mapping[str, int]) -> int:
    page = None if node.dialect else registry.op_defs().get(node.op)
    if page is None or page.macs is None:
        return 0
    first = node.outputs[0] if node.outputs else None
    operands = [None if value is None else value.fact for value in node.inputs]
    try:
        count = page.macs(UNKNOWN if first is None else first.fact, *operands, **node.attributes)
        return evaluate(count, sizes) if isinstance(count, Symbolic) else count
    except (Unknown, LookupError, TypeError, ValueError, ZeroDivisionError):
        return 0


def endless_loop(graph: Graph) -> str | None:
    """Return why a Loop may run too many iterations; `None` if all constant trip counts are small."""
    for inner in walk(graph):
        for node in inner:
            count = node.operand(0) if node.op == "Loop" else None
            known = None if count is None else folded(count)
            if node.op == "Loop" and (
                count is None or (known is not None and int(known.numpy().max(initial=0)) > MAX_ITERATIONS)
            ):
                return f"a loop may run more than {MAX_ITERATIONS} iterations"
    return None
