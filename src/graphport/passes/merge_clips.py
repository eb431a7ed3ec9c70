"""Merge consecutive Clip, Max, Min and Relu with constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.products import constant_elements, scalar_element, sole_consumer
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import insert_operator, same_dims, shape_of
from graphport.passes.substitution import add_constant, graph_of

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_CLIPPING = frozenset(("Clip", "Max", "Min", "Relu"))


class _Interval(NamedTuple):
    """The interval to which a node clips `source`; a bound is None if it is absent."""

    source: Value
    low: Any
    high: Any


def merge_clips(graph: Graph, journal: Journal) -> None:
    """Merge consecutive Clip nodes; Max and Min with a scalar constant, and Relu, count as Clip.

    Before  h = Clip(x, 0);  y = Clip(h, max=6)         or  h = Max(x, 0);  y = Min(h, 6)
    After   y = Clip(x, 0, 6)

    Does not apply to bounds that are computed or NaN, to disjoint intervals, or to an `h` with another consumer.
    Preserves values bit for bit.
    """
    apply(graph, journal, _merge, _CLIPPING)


def _merge(node: Node) -> str | None:
    outer = _interval(node)
    before = None if outer is None else outer.source.producer
    if outer is None or before is None or before.op not in _CLIPPING or sole_consumer(outer.source) is not node:
        return None
    inner = _interval(before)
    if inner is None:
        return None
    low = max((each for each in (inner.low, outer.low) if each is not None), default=None)
    high = min((each for each in (inner.high, outer.high) if each is not None), default=None)
    if low is not None and high is not None and low > high:
        return None
    if node.op == before.op == "Relu":
        return insert_operator(node, "Relu", [inner.source], {})
    graph = graph_of(node)
    bounds = [
        None if bound is None else add_constant(graph, np.asarray(bound), f"{node.output.name}.{name}")
        for name, bound in (("min", low), ("max", high))
    ]
    return insert_operator(node, "Clip", [inner.source, *bounds], {})


def _interval(node: Node) -> _Interval | None:
    match node.op:
        case "Relu":
            source = node.operand(0)
            dtype = None if source is None or not isinstance(source.fact, TensorFact) else source.fact.dtype
            return None if source is None or dtype is None else _Interval(source, dtype.numpy.type(0), None)
        case "Clip":
            source, low, high = (node.operand(place) for place in range(3))
            bounds = _bound(low), _bound(high)
            if source is None or any(v is not None and b is None for v, b in zip((low, high), bounds, strict=True)):
                return None
            return _Interval(source, *bounds)
        case _:
            return _of_extremum(node)


def _of_extremum(node: Node) -> _Interval | None:
    """Return the interval of a Max or Min with one scalar constant that does not enlarge the result."""
    if len(node.inputs) != 2:
        return None
    for source, other in (node.inputs, node.inputs[::-1]):
        bound, shape = _bound(other), shape_of(source)
        if source is None or bound is None or shape is None or source.is_constant:
            continue
        if same_dims(shape, shape_of(node.output) or ()):
            return _Interval(source, bound, None) if node.op == "Max" else _Interval(source, None, bound)
    return None


def _bound(value: Value | None) -> Any:
    """Return a scalar constant in its own type, or None for NaN and for other constants."""
    array = constant_elements(value)
    if array is None or scalar_element(value) is None:
        return None
    number = array.reshape(-1)[0]
    return None if number != number else number  # noqa: PLR0124  which NaN alone is not
