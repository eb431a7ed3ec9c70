"""Values of two graphs that correspond: by name, by the position of a result, and by the elements that a run gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.comparison.pairs import pairs
from graphport.comparison.stream import is_array, values_of
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbolic, evaluate
from graphport.core.facts import TensorFact
from graphport.proof.pieces.numbering import number_pair
from graphport.proof.side import paired

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphport.ir.graph import Graph, Value
    from graphport.proof.test_inputs import TestInput

MAX_BYTES = 1 << 28
"""Bytes that all values of both graphs may take together, to be compared by their elements."""
MAX_RELATIVE_NORM = 0.3
"""Norm of the difference of two values of one name, relative to the norm of the first, beyond which they differ in
more than a fault of the writer: the name is reused for another value."""
NEAR = 1e-4
"""The same for values that have no common name."""
MAX_AXES = 5


@dataclass(frozen=True, eq=False)
class Match:
    """A value of each graph which should be equal, and their elements in a run."""

    a: Value
    b: Value
    x: Any
    y: Any
    order: tuple[int, ...] | None = None
    """The order of axes in which `b` has the shape of `a`; `None` if both have one layout."""
    is_equal: bool = False
    """Whether both are computed in the same way from matched values: equal operators, attributes and constants."""

    def layout_of_b(self, x: Any) -> Any:
        """Elements of `a` as `b` arranges them."""
        return x if self.order is None else np.ascontiguousarray(x.transpose(np.argsort(self.order)))

    def layout_of_a(self, y: Any) -> Any:
        """Elements of `b` as `a` arranges them."""
        return y if self.order is None or np.ndim(y) != len(self.order) else np.asarray(y).transpose(self.order)


def match_values(a: Graph, b: Graph, test_input: TestInput) -> list[Match]:
    """The values of two canonical graphs that correspond, in the order of `b`; inputs first.

    Both graphs are run once, as graphport reads them; nothing corresponds if they do not run or take too much memory.
    """
    named = pairs(a, b, outputs_first=True)
    given_b = paired(test_input.arrays, a, b)
    own = paired({value.name: value for value in a.inputs}, a, b)
    inputs = {value: own[value.name] for value in b.inputs if value.name in own}
    wanted_a, wanted_b = _computed_values(a), _computed_values(b)
    size = sum(_nbytes(value, test_input.sizes) for value in (*wanted_a, *wanted_b))
    if size > MAX_BYTES:
        return []
    try:
        x = values_of(a, test_input.arrays, [*a.inputs, *wanted_a])
        y = values_of(b, given_b, [*b.inputs, *wanted_b])
    except (DiagnosticError, KeyError):
        return []
    found = [
        Match(other, value, x[other], y[value])
        for value, other in inputs.items()
        if other in x and value in y and np.shape(x[other]) == np.shape(y[value])
    ]
    placed = dict(zip(b.outputs, a.outputs, strict=False))
    taken = {each.a for each in found}
    for value in wanted_b:
        other = placed.get(value, named.get(value))
        if other is None or other in taken or other not in x:
            continue
        match = _match(other, value, (x[other], y[value]), MAX_RELATIVE_NORM if value not in placed else np.inf)
        if match is not None:
            found.append(match)
            taken.add(other)
    found += _match_by_elements(wanted_a, wanted_b, (x, y), taken, {each.b for each in found})
    return _in_order(a, b, found)


def _in_order(a: Graph, b: Graph, found: list[Match]) -> list[Match]:
    """Matches in the order of `b`, each with whether both values are computed in the same way."""
    position = {value: index for index, value in enumerate([*b.inputs, *_computed_values(b)])}
    found.sort(key=lambda each: position[each.b])
    known = {each.b: each.a for each in found if each.order is None}
    numbering = number_pair(a, b, known)
    structure = numbering.structure
    return [
        replace(each, is_equal=_is_input(each) or (each.order is None and _is_alike_in(structure, each)))
        for each in found
    ]


def _is_alike_in(structure: Mapping[Value, int], match: Match) -> bool:
    return match.a in structure and structure[match.a] == structure.get(match.b)


def _is_input(match: Match) -> bool:
    return match.a.producer is None and match.b.producer is None


def _computed_values(graph: Graph) -> list[Value]:
    """The results of nodes that a run computes as arrays."""
    return [value for node in graph for value in node.results if isinstance(value.fact, TensorFact)]


def _nbytes(value: Value, sizes: Mapping[str, int]) -> int:
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return 0
    try:
        dims = [evaluate(dim, sizes) if isinstance(dim, Symbolic) else dim for dim in fact.shape]
    except (KeyError, ValueError):
        return 0
    return prod(dims) * 4


def _match(a: Value, b: Value, elements: tuple[Any, Any], limit: float) -> Match | None:
    """The match of two values if their elements differ by less than `limit`, in any order of axes."""
    x, y = elements
    if not is_array(x) or not is_array(y) or x.size != y.size or not _is_alike(x, y):
        return None
    if not x.size or x.dtype.kind not in "fiub":
        return None
    best = min(_orders(x, y), key=lambda order: _relative_norm(x, y.transpose(order)), default=None)
    if best is None or not _relative_norm(x, y.transpose(best)) <= limit:
        return None
    is_moved = best != tuple(range(y.ndim))
    return Match(a, b, x, y, best if is_moved else None)


def _is_alike(x: Any, y: Any) -> bool:
    return x.dtype == y.dtype or (x.dtype.kind in "iu" and y.dtype.kind in "iu")


def _orders(x: Any, y: Any) -> Iterable[tuple[int, ...]]:
    """The orders of axes that give `y` the shape of `x`, its own first; the others if its own does not fit."""
    own = tuple(range(y.ndim))
    if x.ndim != y.ndim:
        return ()
    if x.ndim > MAX_AXES:
        return (own,) if x.shape == y.shape else ()
    if x.shape == y.shape and _relative_norm(x, y) <= NEAR:
        return (own,)
    return [order for order in permutations(own) if tuple(y.shape[axis] for axis in order) == x.shape]


def _relative_norm(x: Any, y: Any) -> float:
    """Norm of the difference, relative to the norm of `x`; elements that are not finite in both count as equal."""
    if x.dtype.kind in "iub":
        return 0.0 if np.array_equal(x, y) else float(np.mean(x != y)) or 1.0
    with np.errstate(all="ignore"):
        one, two = x.astype(np.float64), y.astype(np.float64)
        finite = np.isfinite(one) & np.isfinite(two)
        if not np.array_equal(np.isfinite(one), np.isfinite(two)):
            return 1.0
        norm = float(np.linalg.norm(one[finite]))
        gap = float(np.linalg.norm(one[finite] - two[finite]))
    return gap / norm if norm else float(gap > 0)


def _match_by_elements(
    wanted_a: list[Value],
    wanted_b: list[Value],
    elements: tuple[dict[Value, Any], dict[Value, Any]],
    taken_a: set[Value],
    taken_b: set[Value],
) -> list[Match]:
    """Matches of values without a common name, whose elements are equal in some order of axes."""
    x, y = elements
    by_print: dict[tuple[int, str, int], list[Value]] = {}
    for value in wanted_a:
        if value not in taken_a and (mark := _mark(x.get(value))) is not None:
            by_print.setdefault(mark, []).append(value)
    found: list[Match] = []
    for value in wanted_b:
        mark = None if value in taken_b else _mark(y.get(value))
        if mark is None:
            continue
        size, kind, level = mark
        for near in (level, level - 1, level + 1):
            candidates = by_print.get((size, kind, near), [])
            match = next((m for other in candidates if (m := _match(other, value, (x[other], y[value]), NEAR))), None)
            if match is not None:
                candidates.remove(match.a)
                found.append(match)
                break
    return found


def _mark(x: Any) -> tuple[int, str, int] | None:
    """Size, kind and rounded logarithm of the norm, close for equal values; `None` if all elements are equal."""
    if not is_array(x) or x.dtype.kind != "f" or x.size < 2:
        return None
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        norm = float(np.linalg.norm(wide))
    if not np.isfinite(norm) or norm == 0 or np.ptp(wide) == 0:
        return None
    return x.size, x.dtype.name, int(np.floor(np.log(norm) / NEAR))
