"""Values of two graphs that correspond: by name, by the position of a result, and by the elements that a run gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.comparison.pairs import pairs
from graphport.comparison.stream import Stream, Unanswered, is_array, values_of
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Symbolic, evaluate
from graphport.core.facts import TensorFact
from graphport.core.storage import release_pages
from graphport.ops import registry
from graphport.proof.segments.numbering import number_pair
from graphport.proof.side import paired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Value
    from graphport.proof.test_inputs import TestInput

MAX_COPIED_BYTES = 1 << 28
"""Bytes of weights up to which a runtime that copies them computes the values of a graph."""
MAX_BYTES = 1 << 24
"""Bytes that all values of both graphs may take together, to be matched by their elements without a name."""
MAX_RELATIVE_NORM = 0.3
"""Norm of the difference of two values of one name, relative to the norm of the first, beyond which they differ in
more than a fault of the writer: the name is reused for another value."""
NEAR = 1e-4
"""The same for values that have no common name."""
MAX_SAMPLED = 1 << 18
"""Elements of two values that are compared to learn whether they correspond."""
MAX_ALIKE = 16
"""Values of one norm in one graph beyond which none has a match by its elements."""
MAX_AXES = 5


@dataclass(frozen=True, eq=False)
class Match:
    """A value of each graph which should be equal, and their elements in a run: of floats only shape and type."""

    a: Value
    b: Value
    x: Any
    y: Any
    order: tuple[int, ...] | None = None
    """The order of the axes of `b` longer than 1 that gives those of `a`; `None` if both have one shape and order."""
    is_ambiguous: bool = False
    """Whether the elements agree in several orders of the axes, as equal ones do."""
    is_equal: bool = False
    """Whether both are computed in the same way from matched values: equal operators, attributes and constants."""

    def layout_of_b(self, x: Any) -> Any:
        """Permute and reshape elements of `a` to the layout of `b`."""
        if self.order is None:
            return x
        moved = np.reshape(x, _longer_than_1(np.shape(self.x))).transpose(np.argsort(self.order))
        return np.ascontiguousarray(moved).reshape(np.shape(self.y))

    def layout_of_a(self, y: Any) -> Any:
        """Permute and reshape elements of `b` to the layout of `a`."""
        if self.order is None or np.size(y) != np.size(self.y):
            return y
        return np.reshape(y, _longer_than_1(np.shape(self.y))).transpose(self.order).reshape(np.shape(self.x))


def _longer_than_1(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def match_values(a: Graph, b: Graph, test_input: TestInput) -> list[Match]:
    """Match values of two canonical graphs by structure, name and elements; in the order of `b`, inputs first.

    Unless both have one structure, they are run once. If their values take too much memory, only those with a common
    name are compared, a slice of the graphs at a time. No values correspond if a graph does not run.
    """
    named = pairs(a, b, outputs_first=True)
    named |= {value: other for value, other in zip(b.outputs, a.outputs, strict=False) if value.producer is not None}
    given_b = paired(test_input.arrays, a, b)
    own = paired({value.name: value for value in a.inputs}, a, b)
    found = [
        Match(
            own[value.name],
            value,
            _drop_floats(test_input.arrays[own[value.name].name]),
            _drop_floats(given_b[value.name]),
        )
        for value in b.inputs
        if value.name in own and value.name in given_b and own[value.name].name in test_input.arrays
    ]
    found = [each for each in found if np.shape(each.x) == np.shape(each.y)]
    wanted_a, wanted_b = _computed_values(a), _computed_values(b)
    equal = _match_same_structure(a, b, named, {each.b: each.a for each in found}, test_input.sizes)
    if equal:
        return _sort_matches(a, b, found + equal)
    size = sum(_nbytes(value, test_input.sizes) for value in (*wanted_a, *wanted_b))
    try:
        if size <= MAX_BYTES:
            found += _match_all(a, b, named, (test_input.arrays, given_b))
        else:
            found += _match_named(a, b, named, (test_input.arrays, given_b))
    except (DiagnosticError, KeyError):
        return []
    return _sort_matches(a, b, found)


def _backend(graph: Graph) -> str:
    """Return the backend; for large weights the reference interpreter, which reads the memory-mapped file."""
    storages = (value.storage for value in graph.constants)
    return "reference" if sum(0 if each is None else each.nbytes for each in storages) > MAX_COPIED_BYTES else "auto"


def _drop_floats(x: Any) -> Any:
    """Replace a float array by zeros of its shape without memory; segments need only elements of other types."""
    if not is_array(x) or x.dtype.kind != "f":
        return x
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)


def _match_all(
    a: Graph, b: Graph, named: Mapping[Value, Value], given: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> list[Match]:
    """Matches of computed values by name, else by their elements."""
    wanted_a, wanted_b = _computed_values(a), _computed_values(b)
    x, y = values_of(a, given[0], wanted_a, _backend(a)), values_of(b, given[1], wanted_b, _backend(b))
    found: list[Match] = []
    taken: set[Value] = set()
    for value in wanted_b:
        other = named.get(value)
        if other is not None and other not in taken and other in x:
            match = _match(other, value, (x[other], y[value]), np.inf if value.is_output else MAX_RELATIVE_NORM)
            if match is not None:
                found.append(match)
                taken.add(other)
    found += _match_by_structure(a, b, found, (x, y))
    taken = {each.a for each in found}
    return found + _match_by_elements(wanted_a, wanted_b, (x, y), taken, {each.b for each in found})


def _match_same_structure(
    a: Graph, b: Graph, named: Mapping[Value, Value], inputs: Mapping[Value, Value], sizes: Mapping[str, int]
) -> list[Match]:
    """Matches of the computed values of two graphs in which equal nodes compute all outputs, without a run.

    None if the graphs differ, or if a value has elements other than floats, which the inputs of segments depend on.
    """
    wanted_a, wanted_b = _computed_values(a), _computed_values(b)
    arrays = {value: _zeros(value, sizes) for value in wanted_a}
    is_whole = len(inputs) == len(a.inputs) == len(b.inputs) and len(a.outputs) == len(b.outputs)
    is_float = all(value.dtype is not None and value.dtype.kind == "f" for value in wanted_b)
    if not is_whole or not is_float or any(array is None for array in arrays.values()):
        return []
    numbering = number_pair(a, b, inputs, splits_gemm=True)
    if any(numbering.of(x) != numbering.of(y) for x, y in zip(a.outputs, b.outputs, strict=True)):
        return []
    by_number: dict[int, list[Value]] = {}
    for value in wanted_a:
        by_number.setdefault(numbering.structure[value], []).append(value)
    found: list[Match] = []
    for value in wanted_b:
        equal = [each for each in by_number.get(numbering.structure[value], []) if each.dtype == value.dtype]
        other = named.get(value)
        other = other if other in equal else next(iter(equal), None)
        if other is not None:
            by_number[numbering.structure[value]].remove(other)
            found.append(Match(other, value, arrays[other], arrays[other]))
    return found


def _zeros(value: Value, sizes: Mapping[str, int]) -> Any:
    """Return zeros without memory in the shape of a float value; `None` if it has no floats or no known shape."""
    shape = _shape(value, sizes)
    if shape is None or value.dtype is None or value.dtype.kind != "f":
        return None
    return np.broadcast_to(np.zeros((), value.dtype.numpy), shape)


def _match_by_structure(
    a: Graph, b: Graph, found: list[Match], elements: tuple[dict[Value, Any], dict[Value, Any]]
) -> list[Match]:
    """Matches of values that equal nodes compute from matched values."""
    x, y = elements
    known = {each.b: each.a for each in found if each.order is None}
    known |= {value: other for value, other in zip(b.inputs, a.inputs, strict=False) if value.name == other.name}
    structure = number_pair(a, b, known).structure
    matched = {*known, *known.values()}
    by_number = {structure[value]: value for value in x if value in structure and value not in matched}
    new: list[Match] = []
    for value in y:
        other = None if value in matched else by_number.pop(structure.get(value, -1), None)
        match = None if other is None else _match(other, value, (x[other], y[value]), NEAR)
        new += [] if match is None else [match]
    return new


def _match_named(
    a: Graph, b: Graph, named: Mapping[Value, Value], given: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> list[Match]:
    """Matches of computed values by name, in memory that does not grow with the graphs."""
    known = {
        value: other for value, other in named.items() if value.producer is not None and other.producer is not None
    }
    found: list[Match] = []
    release_pages()
    for step in Stream(a, b, known, *given, backend_a=_backend(a), backend_b=_backend(b)):
        release_pages()
        for pair in () if isinstance(step, Unanswered) else step:
            limit = np.inf if pair.b.is_output else MAX_RELATIVE_NORM
            match = _match(pair.a, pair.b, (pair.x, pair.y), limit)
            found += [] if match is None else [match]
    return found


def _sort_matches(a: Graph, b: Graph, found: list[Match]) -> list[Match]:
    """Matches in the order of `b`, each with whether equal nodes compute both values."""
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
    return 4 * prod(_shape(value, sizes) or (0,))


def _shape(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return None
    try:
        return tuple(evaluate(dim, sizes) if isinstance(dim, Symbolic) else dim for dim in fact.shape)
    except (KeyError, ValueError):
        return None


def _match(a: Value, b: Value, elements: tuple[Any, Any], limit: float) -> Match | None:
    """Match two values if their elements differ by less than `limit` for some permutation of axes."""
    x, y = elements
    if not is_array(x) or not is_array(y) or x.size != y.size or not _is_alike(x, y):
        return None
    if not x.size or x.dtype.kind not in "fiub":
        return None
    one, two = x.reshape(_longer_than_1(x.shape)), y.reshape(_longer_than_1(y.shape))
    norms = _norms_by_order(one, two)
    best = min(norms, key=lambda order: norms[order], default=None)
    if best is None or not norms[best] <= limit:
        return None
    is_moved = x.shape != y.shape or best != tuple(range(two.ndim))
    is_ambiguous = two.ndim > 1 and bool((two == two.flat[0]).all()) and len(set(two.shape)) < two.ndim
    return Match(a, b, _drop_floats(x), _drop_floats(y), best if is_moved else None, is_ambiguous)


def _is_alike(x: Any, y: Any) -> bool:
    return x.dtype == y.dtype or (x.dtype.kind in "iu" and y.dtype.kind in "iu")


def _norms_by_order(x: Any, y: Any) -> dict[tuple[int, ...], float]:
    """Map each axis permutation that gives `y` the shape of `x` to the relative norm of the difference.

    If the identity is near, only the identity.
    """
    own = tuple(range(y.ndim))
    if x.ndim != y.ndim:
        return {}
    found = {own: _relative_norm(x, y)} if x.shape == y.shape else {}
    if x.ndim > MAX_AXES or found.get(own, np.inf) <= NEAR:
        return found
    orders = [order for order in permutations(own) if tuple(y.shape[axis] for axis in order) == x.shape]
    return {order: found[own] if order == own else _relative_norm(x, y.transpose(order)) for order in orders}


def _relative_norm(x: Any, y: Any) -> float:
    """Norm of the difference, relative to the norm of `x`; elements that are not finite in both count as equal."""
    if x.dtype.kind in "iub":
        return 0.0 if np.array_equal(x, y) else 1.0
    x, y = _sample(x), _sample(y)
    with np.errstate(all="ignore"):
        one, two = x.astype(np.float64), y.astype(np.float64)
        finite = np.isfinite(one) & np.isfinite(two)
        if not np.array_equal(np.isfinite(one), np.isfinite(two)):
            return 1.0
        # `linalg.norm` starts threads of BLAS, which take more time than the sum.
        norm = float(np.sqrt(np.sum(one[finite] ** 2)))
        gap = float(np.sqrt(np.sum((one[finite] - two[finite]) ** 2)))
    return gap / norm if norm else float(gap > 0)


def _sample(x: Any) -> Any:
    """Evenly spread elements of a large array, along its longest axis."""
    step = -(-x.size // MAX_SAMPLED)
    if step <= 1:
        return x
    longest = int(np.argmax(x.shape))
    return x[tuple(slice(None, None, step if axis == longest else None) for axis in range(x.ndim))]


def _match_by_elements(
    wanted_a: list[Value],
    wanted_b: list[Value],
    elements: tuple[dict[Value, Any], dict[Value, Any]],
    taken_a: set[Value],
    taken_b: set[Value],
) -> list[Match]:
    """Matches of values without a common name, whose elements are equal in some order of axes.

    If a graph has several values with equal elements (such as before and after a Clip that clips nothing), they have
    no match, unless they differ by data movement alone.
    """
    x, y = elements
    by_mark_a, by_mark_b = _by_mark(wanted_a, x), _by_mark(wanted_b, y)
    used = set(taken_a)
    found: list[Match] = []
    for value in wanted_b:
        mark = None if value in taken_b else _mark(y.get(value))
        if mark is None or _is_ambiguous(value, mark, by_mark_b, y):
            continue
        candidates = [other for other in _candidates(mark, by_mark_a) if other not in used]
        match = next((m for other in candidates if (m := _match(other, value, (x[other], y[value]), NEAR))), None)
        if match is not None and not _is_ambiguous(match.a, mark, by_mark_a, x):
            used.add(match.a)
            found.append(match)
    return found


Mark = tuple[int, str, int]


def _by_mark(values: list[Value], elements: Mapping[Value, Any]) -> dict[Mark, list[Value]]:
    found: dict[Mark, list[Value]] = {}
    for value in values:
        mark = _mark(elements.get(value))
        if mark is not None:
            found.setdefault(mark, []).append(value)
    return found


def _candidates(mark: Mark, by_mark: Mapping[Mark, list[Value]]) -> list[Value]:
    """Return the values whose `_mark` is equal or adjacent."""
    size, kind, level = mark
    return [value for near in (level, level - 1, level + 1) for value in by_mark.get((size, kind, near), [])]


def _is_ambiguous(value: Value, mark: Mark, by_mark: Mapping[Mark, list[Value]], elements: Mapping[Value, Any]) -> bool:
    """Whether another value of the graph has equal elements, and is not a mere rearrangement of this one."""
    root = _source_of_moves(value)
    others = [
        other for other in _candidates(mark, by_mark) if other is not value and _source_of_moves(other) is not root
    ]
    if len(others) > MAX_ALIKE:
        return True
    return any(_match(other, value, (elements[other], elements[value]), NEAR) is not None for other in others)


def _source_of_moves(value: Value) -> Value:
    """Follow producers that only move data; return the value at their start."""
    op_defs = registry.op_defs()
    while value.producer is not None:
        op_def = op_defs.get(value.producer.op)
        is_move = value.producer.op == "Identity" or (op_def is not None and (op_def.moves_data or op_def.reshapes))
        if not is_move or not value.producer.operands:
            break
        value = value.producer.operands[0]
    return value


def _mark(x: Any) -> Mark | None:
    """Return size, dtype and quantized log-norm, a hash for nearly equal values; `None` for constant arrays."""
    if not is_array(x) or x.dtype.kind != "f" or x.size < 2:
        return None
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        norm = float(np.linalg.norm(wide))
    if not np.isfinite(norm) or norm == 0 or np.ptp(wide) == 0:
        return None
    return int(x.size), str(x.dtype), int(np.floor(np.log(norm) / NEAR))
