"""Memory of activations: live ranges of values in the order of the nodes."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

from graphport.core.dims import Symbolic, evaluate
from graphport.core.facts import TensorFact
from graphport.ir import subgraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value


def live_bytes(graph: Graph, sizes: Mapping[str, int]) -> dict[Node, int]:
    """Return the bytes of the live activations while each node runs, also of the nodes in bodies.

    An input is live from the start, a result from the node that computes it; both until their last consumer, outputs to
    the end. Operands and results of the current node are live at once, and the largest body of a node adds its peak.
    Constants, values of unknown size, sequences and strings count 0; results that an allocator could store in the
    memory of an operand count fully.

    Args:
        graph: nodes in the order of execution.
        sizes: values of the symbols, as `Extents.evaluate_symbols` returns them.
    """
    found: dict[Node, int] = {}
    readings = {node: subgraph.reads(node) for node in graph}
    left = Counter(value for values in readings.values() for value in values)
    left.update(graph.outputs)
    live = {value: nbytes(value, sizes) for value in graph.inputs if left[value]}
    now = sum(live.values())
    for node, values in readings.items():
        for value in node.results:
            live[value] = nbytes(value, sizes)
            now += live[value]
        found[node] = now
        for body in node.bodies():
            inside = live_bytes(body, sizes)
            found |= inside
            found[node] = max(found[node], now + max(inside.values(), default=0))
        for value in values:
            left[value] -= 1
        for value in [*values, *node.results]:
            if not left[value]:
                now -= live.pop(value, 0)
    return found


def nbytes(value: Value, sizes: Mapping[str, int]) -> int:
    """Return the bytes of a tensor; 0 if they are unknown."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
        return 0
    try:
        return fact.dtype.size(prod(evaluate(dim, sizes) if isinstance(dim, Symbolic) else dim for dim in fact.shape))
    except (KeyError, TypeError, ZeroDivisionError):
        return 0


def activation_dims(graphs: Iterable[Graph]) -> list[Dim]:
    """Return the distinct dims of inputs and results."""
    values = [value for graph in graphs for value in [*graph.inputs, *(one for node in graph for one in node.results)]]
    facts = [value.fact for value in values if isinstance(value.fact, TensorFact)]
    return list(dict.fromkeys(dim for fact in facts for dim in fact.shape or ()))
