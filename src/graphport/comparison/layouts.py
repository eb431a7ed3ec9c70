"""Values of two graphs with different layouts: Transposes convert those of the second graph."""

from __future__ import annotations

from contextlib import suppress
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.comparison.stream import Stream, Unanswered, has_floats, is_array
from graphport.core.diagnostics import DiagnosticError
from graphport.core.facts import TensorFact
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph

_MOST_AXES = 6


def bring_into_order(
    a: Graph,
    b: Graph,
    pairs: dict[Value, Value],
    given_a: Mapping[str, Any],
    given_b: Mapping[str, Any],
    backends: tuple[str, str] = ("auto", "auto"),
) -> frozenset[Node]:
    """Convert values of `b` to the layout of their partners in `a`; return the inserted nodes.

    Before  v = Relu(x);  y = Conv(v)                    v [N, H, W, C], its partner [N, C, H, W]
    After   w = Relu(x);  v = Transpose(w);  y = Conv(Transpose(v))

    `pairs` still maps `v` to its partner. The permutation is the one with the smallest difference in a run of both
    graphs. If all partners have equal shapes, the layouts are assumed to be equal.
    """
    candidates = {v: partner for v, partner in pairs.items() if _is_candidate(v, partner)}
    if not any(_shape(v) != _shape(partner) for v, partner in candidates.items()):
        return frozenset()
    orders: dict[Value, tuple[int, ...]] = {}
    stream = Stream(a, b, candidates, given_a, given_b, backend_a=backends[0], backend_b=backends[1])
    # Behind a node that does not run, which the search finds, orders are not needed.
    with suppress(DiagnosticError):
        for step in stream:
            for pair in () if isinstance(step, Unanswered) else step:
                order = _order(pair.x, pair.y)
                if order is not None:
                    orders[pair.b] = order
    added: set[Node] = set()
    for value, order in orders.items():
        added |= _insert_transpose_pair(b, value, order, pairs)
    return frozenset(added)


def _shape(value: Value) -> tuple[int, ...] | None:
    fact = value.fact
    shape = fact.shape if isinstance(fact, TensorFact) else None
    known = tuple(n for n in shape or () if isinstance(n, int))
    return known if shape is not None and len(known) == len(shape) else None


def _is_candidate(value: Value, partner: Value) -> bool:
    """Whether the axes of two values may be equal after a permutation."""
    x, y = _shape(value), _shape(partner)
    if value.producer is None or value.is_output or x is None or y is None or len(x) > _MOST_AXES:
        return False
    return sorted(x) == sorted(y) and (x != y or len({n for n in x if n > 1}) < sum(n > 1 for n in x))


def _order(x: Any, y: Any) -> tuple[int, ...] | None:
    """Return the permutation of the axes of `y` with the least difference to `x`; `None` for the identity."""
    if (
        not is_array(x)
        or not is_array(y)
        or not has_floats(x)
        or not has_floats(y)
        or sorted(x.shape) != sorted(y.shape)
    ):
        return None
    own = tuple(range(x.ndim))
    if x.shape == y.shape and _difference(x, y) <= _NEAR:
        return None
    fitting = [each for each in permutations(own) if tuple(y.shape[axis] for axis in each) == x.shape]
    # Permutations that move axes of size 1 are equivalent: the first one, closest to the identity, is taken.
    best = min(fitting, key=lambda each: _difference(x, y.transpose(each)))
    return None if best == own else best


_NEAR = 1e-3


def _difference(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> float:
    """Return the difference relative to the size of `x`; NaN and infinity count as 0."""
    with np.errstate(all="ignore"):
        error = np.nansum(np.abs(x.astype(np.float64) - y.astype(np.float64)))
        return float(error / max(np.nansum(np.abs(x.astype(np.float64))), 1e-30))


def _insert_transpose_pair(graph: Graph, value: Value, order: tuple[int, ...], pairs: dict[Value, Value]) -> set[Node]:
    node, fact = value.producer, value.fact
    if node is None or not isinstance(fact, TensorFact):
        return set()
    name = value.name
    graph.rename(value, graph.fresh(f"{name}_as_it_is"))
    transposed = Value(name, fact.with_shape([fact.dims[axis] for axis in order]))
    back = Value(graph.fresh(f"{name}_again"), fact)
    value.replace_uses(back)
    first = Node("Transpose", [value], [transposed], {"perm": order}, origin=node.unasked_origin)
    inverse = tuple(int(axis) for axis in np.argsort(order))
    second = Node("Transpose", [transposed], [back], {"perm": inverse}, origin=node.unasked_origin)
    graph.insert_after(node, first)
    graph.insert_after(first, second)
    pairs[transposed] = pairs.pop(value)
    return {first, second}
