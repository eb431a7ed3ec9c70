"""Test inputs of a segment: elements of wide ranges for each input, within its possible values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.ir.graph import Node, walk
from graphport.ops import registry
from graphport.proof.integer_ranges import integer_range
from graphport.proof.segments.ranges import domain_of, is_integral, may_be_nan, range_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Graph, Value

KINDS = ("ordinary", "small variance", "small", "steps", "large", "limits", "rows of different magnitude")
_STEP = 0.25
SIZE_OPERANDS = frozenset(
    {
        *("shape", "sizes", "scales", "repeats", "split", "K", "k", "pads", "starts", "ends", "steps", "axes", "roi"),
        *("start", "limit", "delta", "output_shape", "image_shape", "block_shape", "depth", "trip_count"),
    }
)
"""Names of operands whose elements decide the size of a result."""
MAX_SIZES = 16
"""Elements of a value that may decide sizes: a shape, scales of a resize, repeats."""
_MAX_CONSTANTS = 64
"""Elements of constants of a segment that inputs are set to, with the neighbouring floats."""
_NAN_OPERATORS = frozenset({"IsNaN", "IsInf"})


class FreeInput(NamedTuple):
    """An input of a segment: its value in the graph of the segment, its elements in a run, and its range."""

    value: Value
    seen: Any
    low: float
    high: float
    is_iteration: bool = False
    """Whether it is the number of the iteration of a loop, which may be any integer of the range."""
    is_fixed: bool = False
    """Whether its elements never vary: the condition of a loop is true in its body."""
    may_be_nan: bool = True
    """Whether an element can be NaN."""
    is_whole: bool = False
    """Whether all elements are integers, although the type is a float."""


def free_input(value: Value, original: tuple[Value, Value], seen: Any) -> FreeInput:
    """The input `value` of a segment whose elements in a run are `seen`.

    Args:
        value: in the graph of the segment.
        original: the matched values of both models, which bound its range.
        seen: elements in a run of the models.
    """
    ranges = [range_of(each) for each in original] + [domain_of(value)]
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    is_fixed = np.size(seen) <= MAX_SIZES and decides_sizes(value)
    return FreeInput(
        value,
        seen,
        low,
        max(low, high),
        is_fixed=is_fixed,
        may_be_nan=all(map(may_be_nan, original)),
        is_whole=any(map(is_integral, original)),
    )


def decides_sizes(value: Value) -> bool:
    """Whether the elements of a short value decide the size of a result: other elements may make it huge."""
    waiting, seen = [value], {value}
    while waiting:
        for node, index in waiting.pop().uses:
            if not isinstance(node, Node):
                continue
            op_def = None if node.dialect else registry.op_defs().get(node.op)
            names = [] if op_def is None else [each.name for each in op_def.signature.operands]
            name = names[index] if index < len(names) else ""
            if name in SIZE_OPERANDS:
                return True
            new = [result for result in node.results if result not in seen and _is_short(result)]
            seen.update(new)
            waiting += new
    return False


def _is_short(value: Value) -> bool:
    shape = value.shape
    return shape is not None and len(shape) <= 1 and all(isinstance(dim, int) and dim <= MAX_SIZES for dim in shape)


def draw_elements(graph: Graph, inputs: list[FreeInput]) -> Iterator[tuple[str, list[Any]]]:
    """Return the kinds of elements, and the elements of each input of a segment.

    Args:
        graph: the segment of the first model.
        inputs: its inputs, in the order of the elements.
    """
    constants = _constants(graph)
    has_nan = any(node.op in _NAN_OPERATORS for inner in walk(graph) for node in inner)
    kinds = [*KINDS, "not a number"] if has_nan else KINDS
    for index, kind in enumerate(kinds):
        random = np.random.default_rng(index)
        yield kind, [_elements(each, kind, constants, random) for each in inputs]


def _constants(graph: Graph) -> Any:
    """Elements of small floating-point constants, by which elements are compared or limited."""
    found: list[float] = []
    for inner in walk(graph):
        for value in inner.constants:
            storage = value.storage
            if storage is not None and storage.dtype.kind == "f" and 0 < storage.count <= 4:
                found += storage.numpy().astype(np.float64).reshape(-1).tolist()
    finite = [number for number in dict.fromkeys(found) if np.isfinite(number)][:_MAX_CONSTANTS]
    return np.array(finite or [0.0])


def _elements(each: FreeInput, kind: str, constants: Any, random: np.random.Generator) -> Any:
    seen = np.asarray(each.seen)
    if each.is_fixed:
        return seen
    if seen.dtype.kind == "b":
        share = {"large": 1.0, "limits": 0.0, "steps": 0.9}.get(kind, 0.5)
        return random.random(seen.shape) < share
    if seen.dtype.kind in "iu":
        return _integers(each, kind, random)
    if seen.dtype.kind != "f" or not seen.size:
        return seen
    if kind == "not a number" and each.may_be_nan:
        return _floats(seen.shape, kind, constants, random).astype(seen.dtype)
    found = _floats(seen.shape, "ordinary" if kind == "not a number" else kind, constants, random)
    elements = np.clip(found, each.low, each.high).astype(seen.dtype)
    return np.rint(elements, out=elements) if each.is_whole else elements


def _integers(each: FreeInput, kind: str, random: np.random.Generator) -> Any:
    """Draw the elements of an integer input: every index of a table or iteration, otherwise the elements of the run."""
    seen = np.asarray(each.seen)
    if not seen.size:
        return seen
    if each.is_iteration:
        return _draw_integers(int(each.low), int(each.high), seen, kind, random)
    if kind == "ordinary":
        return seen
    allowed = integer_range(each.value, {})
    if allowed.is_data or not _reads_all(each.value):
        return seen
    return _draw_integers(max(allowed.low, 0), max(allowed.high, 1) - 1, seen, kind, random)


def _draw_integers(low: int, high: int, seen: Any, kind: str, random: np.random.Generator) -> Any:
    """Draw integers from `low` to `high`; for the kind `limits` only `low` and `high`."""
    shape: tuple[int, ...] = np.shape(seen)
    if kind == "limits":
        return random.choice(np.array([low, high]), shape).astype(seen.dtype)
    return random.integers(low, high + 1, shape).astype(seen.dtype)


def _reads_all(value: Value) -> bool:
    """Whether every consumer is a Gather with this value as the indices."""
    users = value.users
    return bool(users) and all(user.op == "Gather" and user.operand(1) is value for user in users)


def _floats(shape: tuple[int, ...], kind: str, constants: Any, random: np.random.Generator) -> Any:
    normal = random.normal(size=shape)
    match kind:
        case "ordinary":
            return 2 * normal
        case "small variance":
            return _set_constant_rows(_by_row(random, shape, np.array([0.0, 1.0, -3.0])) + 1e-3 * normal)
        case "small":
            return 1e-4 * normal
        case "steps":
            ties = _STEP * random.integers(-32, 33, shape)
            near = _draw_near_constants(constants, shape, random)
            return np.where(random.random(shape) < 0.6, ties, near)
        case "large":
            return normal * _by_row(random, shape, np.array([30.0, 300.0, 3e3]))
        case "limits":
            return random.choice(np.array([0.0, -0.0, 50.0, -50.0, 120.0, -120.0, 1e3, -1e3, 1e4, -1e4]), shape)
        case "not a number":
            special = random.choice(np.array([np.nan, np.inf, -np.inf]), shape)
            return np.where(random.random(shape) < 0.2, special, normal)
        case _:
            return normal * _by_row(random, shape, 10.0 ** np.arange(-4, 5))


def _by_row(random: np.random.Generator, shape: tuple[int, ...], choices: Any) -> Any:
    """Draw one of `choices` per row (last axis): shape [..., 1]."""
    return random.choice(choices, (*shape[:-1], 1) if shape else ())


def _set_constant_rows(x: Any) -> Any:
    """Set row 0 to zeros and row 1 to ones, but leave at least one row unchanged."""
    if np.ndim(x) < 2:
        return x
    rows = np.reshape(x, (-1, x.shape[-1]))
    for index in range(min(2, len(rows) - 1)):
        rows[index] = float(index)
    return x


def _draw_near_constants(constants: Any, shape: tuple[int, ...], random: np.random.Generator) -> Any:
    """Return constants and their neighbouring floats."""
    chosen = random.choice(constants, shape).astype(np.float32)
    toward = np.where(random.integers(0, 2, shape) == 0, -np.inf, np.inf).astype(np.float32)
    moved = np.where(random.integers(0, 3, shape) == 0, chosen, np.nextafter(chosen, toward))
    # Runtimes may flush the neighbours of 0 to 0.
    return np.where(np.abs(moved) < np.finfo(np.float32).tiny, 0, moved).astype(np.float64)
