"""Reductions of axes and of windows by a region, which is recognized or applied in a tree."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.elementwise import wide_type
from graphport.formats.stablehlo.rules.emitter import Emitter, complex_rule, rule
from graphport.formats.stablehlo.rules.shapes import checked_axes, insert_gaps, ints_of, padded
from graphport.formats.stablehlo.rules.values import Held, Pair
from graphport.ir.graph import Value
from graphport.ops.definitions.quantization import integer_range

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.stablehlo.program import Block, Operation

_REDUCTIONS = {"add": "ReduceSum", "multiply": "ReduceProd", "maximum": "ReduceMax", "minimum": "ReduceMin"}
_LOGICAL = {
    "and": "ReduceMin",
    "or": "ReduceMax",
    "minimum": "ReduceMin",
    "maximum": "ReduceMax",
    "add": "ReduceMax",
    "multiply": "ReduceMin",
}
MAX_WINDOW_STEPS = 512
"""Offsets of a window that are computed one by one."""


def binary_of(block: Block, count: int) -> list[str] | None:
    """The operation of each result, where result i is one operation of the arguments i and `count` + i; else `None`."""
    keys = [key for key, _ in block.arguments]
    last = block.operations[-1] if block.operations else None
    if last is None or last.name != "return" or len(keys) != 2 * count or len(last.operands) != count:
        return None
    made = {op.results[0]: op for op in block.operations[:-1] if len(op.results) == 1}
    found: list[str] = []
    for index, key in enumerate(last.operands):
        op = made.get(key)
        if op is None or set(op.operands) != {keys[index], keys[count + index]} or len(op.operands) != 2:
            return None
        if op.name in ("subtract", "divide", "power") and op.operands[0] != keys[index]:
            return None
        found.append(op.name)
    return found


@rule("reduce")
@complex_rule("reduce")
def reduce(e: Emitter, op: Operation, *operands: Held) -> list[Held]:
    """Reduce axes."""
    count = len(operands) // 2
    xs, initial = list(operands[:count]), list(operands[count:])
    if not xs or len(operands) % 2:
        refuse("SH0007", "reduce: expected pairs of operands")
    axes = ints_of(op.attribute("dimensions"), "dimensions")
    rank = e.rank(as_tensor(xs[0]))
    checked_axes(e, axes, rank, op)
    if any(e.rank(as_tensor(x)) != rank for x in xs):
        refuse("SH0007", "reduce: the operands differ in rank")
    names = binary_of(op.regions[0], count)
    if names is not None and all(isinstance(x, Value) for x in operands):
        found = [_known_reduction(e, name, x, axes) for name, x in zip(names, xs, strict=True) if isinstance(x, Value)]
        if all(value is not None for value in found):
            return [
                _with_initial(e, op.regions[0], name, value, start)
                for name, value, start in zip(names, found, initial, strict=True)
                if value is not None
            ]
    found_pair = _argument_of_extreme(e, op, xs, initial, axes)
    if found_pair is not None:
        return found_pair
    return _tree(e, op.regions[0], xs, initial, axes)


def as_tensor(x: Held) -> Value:
    """The tensor of a value; of a complex tensor the real part."""
    if isinstance(x, Pair):
        return x.real
    return x if isinstance(x, Value) else refuse("SH0007", "an operand is not a tensor")


def _known_reduction(e: Emitter, name: str, x: Value, axes: list[int]) -> Value | None:
    """The reduction of one recognized operation; `None` for others."""
    dtype = e.dtype(x)
    if not axes:
        return x
    if dtype is DType.BOOL:
        if name not in _LOGICAL:
            return None
        return e.cast(e(_LOGICAL[name], e.cast(x, DType.INT32), e.ints(*axes), keepdims=0), DType.BOOL)
    if name not in _REDUCTIONS or any(e.dims(x)[axis] == 0 for axis in axes):
        return None
    wide = _sum_type(dtype)
    return e.cast(e(_REDUCTIONS[name], e.cast(x, wide), e.ints(*axes), keepdims=0), dtype)


def _sum_type(dtype: DType) -> DType:
    """The type in which elements are summed: that of the runtime's reductions which is as wide."""
    if dtype.is_floating:
        return DType.FLOAT32 if dtype.bits <= 16 else dtype
    return DType.INT32 if dtype.bits < 32 else (DType.INT64 if dtype is DType.UINT32 else dtype)


_NEUTRAL = {"add": 0.0, "multiply": 1.0, "and": 1.0, "or": 0.0, "xor": 0.0}


def is_neutral(e: Emitter, name: str, start: Held) -> bool:
    """Whether a known initial value does not change a reduction."""
    known = e.constant_elements(start)
    if known is None or not isinstance(start, Value):
        return False
    neutral, number = _neutral(name, e.dtype(start)), known.reshape(-1)[0]
    return neutral is not None and (int(number) if isinstance(neutral, int) else float(number)) == neutral


def _neutral(name: str, dtype: DType) -> float | int | None:
    """The initial value that does not change a reduction, or `None` for other operations."""
    if name not in ("maximum", "minimum"):
        return _NEUTRAL.get(name) if dtype is DType.BOOL or name != "and" else None
    if dtype is DType.BOOL:
        return int(name == "minimum")
    if dtype.is_floating:
        return -np.inf if name == "maximum" else np.inf
    lowest, highest = integer_range(dtype)
    return int(lowest if name == "maximum" else highest)


def _with_initial(e: Emitter, block: Block, name: str, value: Value, start: Held) -> Held:
    if is_neutral(e, name, start):
        return value
    from graphport.formats.stablehlo.program import Operation, OtherType

    del block
    operation = Operation(name, [], [], [OtherType("element")], {})
    return e.apply(operation, [start, value])[0]


# Positions of the largest or smallest element


def _argument_of_extreme(
    e: Emitter, op: Operation, xs: list[Held], initial: list[Held], axes: list[int]
) -> list[Held] | None:
    """A reduction of elements and their positions to the largest or smallest, as JAX writes argmax and argmin."""
    if len(xs) != 2 or len(axes) != 1 or not isinstance(xs[0], Value) or not isinstance(xs[1], Value):
        return None
    direction = _extreme_direction(op.regions[0])
    x, positions = xs[0], xs[1]
    dtype = e.dtype(x)
    if direction is None or dtype.kind not in "fiu" or dtype.bits < 8 or not e.dtype(positions).is_integer:
        return None
    axis = axes[0]
    dim = e.dims(x)[axis]
    is_counted = _counts_along(e, positions, axis)
    starts = is_neutral(e, "maximum" if direction == "GT" else "minimum", initial[0]) and e.scalar(initial[1]) == 0
    if not is_counted or not starts or dim == 0:
        return None
    wide = e.cast(x, wide_type(dtype))
    if dtype.is_floating:
        return _float_extreme(e, x, wide, positions, axis, direction)
    name = "ArgMax" if direction == "GT" else "ArgMin"
    step = e.cast(wide, DType.INT64 if dtype.bits > 32 or dtype is DType.UINT32 else DType.INT32)
    if dtype is DType.UINT64:
        return None
    place = e(name, step, axis=axis, keepdims=1)
    return _extreme_results(e, x, positions, place, axis)


def _counts_along(e: Emitter, positions: Value, axis: int) -> bool:
    """Whether elements are their index along an axis."""
    if e.counting_axes.get(positions) == axis:
        return True
    known = e.constant_elements(positions)
    if known is None or axis >= known.ndim:
        return False
    last = [*(k for k in range(known.ndim) if k != axis), axis]
    lines = known.transpose(last)
    return np.array_equal(lines, np.broadcast_to(np.arange(int(known.shape[axis])), lines.shape))


def _float_extreme(e: Emitter, x: Value, wide: Value, positions: Value, axis: int, direction: str) -> list[Held]:
    """The first NaN if there is one, else the first largest or smallest element."""
    is_nan = e("IsNaN", wide)
    plain = e(
        "ArgMax" if direction == "GT" else "ArgMin",
        e("Where", is_nan, e.constant(-np.inf if direction == "GT" else np.inf, wide.dtype), wide),
        axis=axis,
        keepdims=1,
    )
    flags = e.cast(is_nan, DType.INT32)
    has_nan = e.cast(e("ReduceMax", flags, e.ints(axis), keepdims=1), DType.BOOL)
    place = e("Where", has_nan, e("ArgMax", flags, axis=axis, keepdims=1), plain)
    return _extreme_results(e, x, positions, place, axis)


def _extreme_results(e: Emitter, x: Value, positions: Value, place: Value, axis: int) -> list[Held]:
    value = e("GatherElements", x, place, axis=axis)
    squeezed = e("Squeeze", value, e.ints(axis))
    index = e.cast(e("Squeeze", place, e.ints(axis)), e.dtype(positions))
    return [squeezed, index]


def _extreme_direction(block: Block) -> str | None:
    """GT or LT, where a block is JAX's comparison of pairs of an element and its position."""
    names = [op.name for op in block.operations]
    jax = ["compare", "compare", "or", "compare", "compare", "and", "or", "select", "select", "return"]
    if names != jax or len(block.arguments) != 4:
        return None
    a, i, b, j = [key for key, _ in block.arguments]
    first, second, either, same, lower, both, wins, value, index, back = block.operations
    directions = [op.attributes.get("comparison_direction") for op in (first, second, same, lower)]
    fits = (
        first.operands == [a, b]
        and second.operands == [a, a]
        and directions[1:] == ["NE", "EQ", "LT"]
        and same.operands == [a, b]
        and lower.operands == [i, j]
        and either.operands == [first.results[0], second.results[0]]
        and both.operands == [same.results[0], lower.results[0]]
        and wins.operands == [either.results[0], both.results[0]]
        and value.operands == [either.results[0], a, b]
        and index.operands == [wins.results[0], i, j]
        and back.operands == [value.results[0], index.results[0]]
    )
    return directions[0] if fits and directions[0] in ("GT", "LT") else None


# Any region


def _map_parts(x: Held, function: Callable[[Value], Value]) -> Held:
    if isinstance(x, Pair):
        return Pair(function(x.real), function(x.imaginary))
    return function(as_tensor(x))


def _tree(e: Emitter, block: Block, xs: list[Held], initial: list[Held], axes: list[int]) -> list[Held]:
    """Apply the region to two parts of the axes until one entry remains, then to the initial values."""
    first = as_tensor(xs[0])
    rank = e.rank(first)
    kept = [axis for axis in range(rank) if axis not in axes]
    length = 1
    for axis in axes:
        length *= e.static(first, axis)
    sizes = [e.dim(first, axis) for axis in kept]

    def flat(value: Value) -> Value:
        return e.reshape(e.transpose(value, [*kept, *axes]), [*sizes, length])

    def slice_values(current: list[Held], begin: int, end: int) -> list[Held]:
        return [_map_parts(x, lambda v: e("Slice", v, e.ints(begin), e.ints(end), e.ints(place))) for x in current]

    values = [_map_parts(x, flat) for x in xs]
    place = len(kept)
    if length == 0:
        return [_map_parts(start, lambda v: e.expand(v, sizes)) for start in initial]
    while length > 1:
        half = length // 2
        halves = [*slice_values(values, 0, half), *slice_values(values, half, 2 * half)]
        joined = e.vectorized(block, halves, len(xs))
        if length % 2:
            rest = slice_values(values, 2 * half, length)
            joined = [_concatenated(e, a, b, place) for a, b in zip(joined, rest, strict=True)]
        values, length = joined, half + length % 2
    ends = [_map_parts(x, lambda v: e("Squeeze", v, e.ints(place))) for x in values]
    return e.vectorized(block, [*initial, *ends], len(xs))


def _concatenated(e: Emitter, a: Held, b: Held, axis: int) -> Held:
    if isinstance(a, Pair) and isinstance(b, Pair):
        return Pair(e("Concat", a.real, b.real, axis=axis), e("Concat", a.imaginary, b.imaginary, axis=axis))
    return e("Concat", as_tensor(a), as_tensor(b), axis=axis)


# Windows


def window_numbers(op: Operation, rank: int) -> dict[str, list[int]]:
    """Sizes, strides, dilations and padding of windows.

    Raises:
        RefusedError: SH0007 they do not fit the rank.
    """
    found: dict[str, list[int]] = {}
    for name, default in (
        ("window_dimensions", 1),
        ("window_strides", 1),
        ("base_dilations", 1),
        ("window_dilations", 1),
    ):
        value = op.attributes.get(name)
        numbers = [default] * rank if value is None else ints_of(value, name)
        if len(numbers) != rank or min(numbers, default=1) < 1:
            refuse("SH0007", f"{op.shown()}: {name} = {numbers} for an operand of rank {rank}")
        found[name] = numbers
    value = op.attributes.get("padding")
    numbers = [0] * (2 * rank) if value is None else ints_of(value, "padding")
    if len(numbers) != 2 * rank:
        refuse("SH0007", f"{op.shown()}: padding of {len(numbers) // 2} axes for an operand of rank {rank}")
    found["low"], found["high"] = numbers[0::2], numbers[1::2]
    return found


@rule("reduce_window")
@complex_rule("reduce_window")
def reduce_window(e: Emitter, op: Operation, *operands: Held) -> list[Held]:
    """Reduce the elements of each window."""
    count = len(operands) // 2
    xs, initial = list(operands[:count]), list(operands[count:])
    if not xs or len(operands) % 2:
        refuse("SH0007", "reduce_window: expected pairs of operands")
    rank = e.rank(as_tensor(xs[0]))
    if any(e.rank(as_tensor(x)) != rank for x in xs):
        refuse("SH0007", "reduce_window: the operands differ in rank")
    return windows_reduced(e, op.regions[0], xs, initial, window_numbers(op, rank))


def windows_reduced(
    e: Emitter, block: Block, xs: list[Held], initial: list[Held], window: dict[str, list[int]]
) -> list[Held]:
    """Reduce windows with a region."""
    count = len(xs)
    names = binary_of(block, count)
    if names is not None and count == 1 and isinstance(xs[0], Value):
        found = _pooled(e, names[0], xs[0], initial[0], window) or _running(e, names[0], xs[0], initial[0], window)
        if found is not None:
            return [found]
    rank = e.rank(as_tensor(xs[0]))
    # XLA skips the positions of the padding, which differs from a fill with an initial value that is not neutral.
    fills = [_fill(e, *each) for each in zip(names or [None] * count, initial, strict=True)]
    values = [_padded_for_windows(e, x, fill, window) for x, fill in zip(xs, fills, strict=True)]
    for axis in range(rank):
        values = _axis_windows(e, block, values, axis, window)
    if all(
        name is not None and is_neutral(e, name, start) for name, start in zip(names or [None], initial, strict=False)
    ):
        return values
    return e.vectorized(block, [*initial, *values], count)


def _fill(e: Emitter, name: str | None, start: Held) -> Held:
    neutral = _neutral(name, e.dtype(start)) if name is not None and isinstance(start, Value) else None
    return start if neutral is None or not isinstance(start, Value) else e.constant(neutral, start.dtype)


def _padded_for_windows(e: Emitter, x: Held, start: Held, window: dict[str, list[int]]) -> Held:
    def pad(value: Value, number: Value) -> Value:
        for axis, factor in enumerate(window["base_dilations"]):
            value = insert_gaps(e, value, number, axis, factor - 1)
        return padded(e, value, number, window["low"], window["high"])

    if isinstance(x, Pair) and isinstance(start, Pair):
        return Pair(pad(x.real, start.real), pad(x.imaginary, start.imaginary))
    return pad(as_tensor(x), as_tensor(start))


def _axis_windows(e: Emitter, block: Block, values: list[Held], axis: int, window: dict[str, list[int]]) -> list[Held]:
    """Reduce windows along one axis: windows of 2^n elements from two of 2^(n-1), and other sizes from their sums."""
    size, stride, dilation = (
        window[name][axis] for name in ("window_dimensions", "window_strides", "window_dilations")
    )
    length = e.static(as_tensor(values[0]), axis)
    windows = length - (size - 1) * dilation
    if windows <= 0:
        return [_map_parts(x, lambda v: e("Slice", v, e.ints(0), e.ints(0), e.ints(axis))) for x in values]
    if size == 1 and stride == 1:
        return values

    def slice_values(current: list[Held], begin: int, many: int) -> list[Held]:
        return [_map_parts(x, lambda v: e.slice(v, axis, begin, begin + many)) for x in current]

    powers, width, total = values, 1, length
    done: list[Held] | None = None
    offset, left = 0, size
    while left:
        if left & 1:
            piece = slice_values(powers, offset * dilation, windows)
            done = piece if done is None else e.vectorized(block, [*done, *piece], len(values))
            offset += width
        left >>= 1
        if left:
            total -= width * dilation
            parts = [*slice_values(powers, 0, total), *slice_values(powers, width * dilation, total)]
            powers = e.vectorized(block, parts, len(values))
            width *= 2
    found = values if done is None else done
    if stride == 1:
        return found
    return [_map_parts(x, lambda v: e.slice(v, axis, 0, windows, stride)) for x in found]


def _pooled(e: Emitter, name: str, x: Value, start: Held, window: dict[str, list[int]]) -> Value | None:
    """Convert to MaxPool, or to AveragePool times the window size; `None` if neither is equivalent."""
    dtype = e.dtype(x)
    rank = e.rank(x)
    sizes = window["window_dimensions"]
    spatial = [axis for axis in range(rank) if sizes[axis] > 1 or window["window_strides"][axis] > 1]
    plain = all(n == 1 for n in window["base_dilations"]) and min(*window["low"], *window["high"], 0) >= 0
    others_padded = any(window[side][axis] for side in ("low", "high") for axis in range(rank) if axis not in spatial)
    if name not in ("maximum", "add") or dtype is not DType.FLOAT32 or not plain or others_padded:
        return None
    if not 1 <= len(spatial) <= 3 or not is_neutral(e, name, start) or e.constant_elements(x) is not None:
        return None
    pads = [window[side][axis] for side in ("low", "high") for axis in spatial]
    kernel = [sizes[axis] for axis in spatial]
    if any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True)):
        return None
    if name == "add" and any(window["window_dilations"][axis] != 1 for axis in spatial):
        return None
    batch = [axis for axis in range(rank) if axis not in spatial]
    order = [*batch, *spatial]
    moved = e.transpose(x, order)
    leading = e.sizes(moved)[: len(batch)]
    fixed = moved
    if len(batch) == 1:
        fixed = e.unsqueeze(moved, 1)
    elif len(batch) == 0:
        fixed = e.unsqueeze(moved, 0, 1)
    elif len(batch) > 2:
        from graphport.formats.stablehlo.rules.linear import merged_size

        fixed = e.reshape(moved, [1, merged_size(e, leading), *e.sizes(moved)[len(batch) :]])
    attributes: dict[str, Any] = {
        "kernel_shape": tuple(kernel),
        "strides": tuple(window["window_strides"][axis] for axis in spatial),
        "pads": tuple(pads),
    }
    if name == "maximum":
        attributes["dilations"] = tuple(window["window_dilations"][axis] for axis in spatial)
        found = e("MaxPool", fixed, **attributes)
    else:
        found = e("Mul", e("AveragePool", fixed, count_include_pad=1, **attributes), float(np.prod(kernel)))
    if len(batch) != 2:
        found = e.reshape(found, [*leading, *e.sizes(found)[2:]])
    return e.transpose(found, [int(n) for n in np.argsort(order)])


def running_sums(e: Emitter, block: Block, x: Held, start: Held, window: dict[str, Any]) -> Value | None:
    """Sums of all elements up to each along an axis of any size; `None` for other windows."""
    names = binary_of(block, 1)
    if names is None or not isinstance(x, Value) or None in window.values():
        return None
    return _running(e, names[0], x, start, window)


def _running(e: Emitter, name: str, x: Value, start: Held, window: dict[str, Any]) -> Value | None:
    """Sums of all elements up to each, as CumSum; `None` for other windows."""
    dtype = e.dtype(x)
    wide = [axis for axis, size in enumerate(window["window_dimensions"]) if size != 1]
    ones = all(n == 1 for key in ("window_strides", "base_dilations", "window_dilations") for n in window[key])
    if name != "add" or len(wide) != 1 or not ones or not is_neutral(e, name, start) or dtype is DType.BOOL:
        return None
    axis = wide[0]
    size = window["window_dimensions"][axis]
    low, high = window["low"], window["high"]
    if any(n for k, n in enumerate(zip(low, high, strict=True)) if k != axis and n != (0, 0)):
        return None
    is_forward, is_backward = (low[axis], high[axis]) == (size - 1, 0), (low[axis], high[axis]) == (0, size - 1)
    if size != e.dims(x)[axis] or not (is_forward or is_backward):
        return None
    step = _sum_type(dtype)
    given = e.cast(x, step)
    return e.cast(e("CumSum", given, e.constant(axis, DType.INT64), reverse=int(is_backward) or None), dtype)


@rule("select_and_scatter")
def select_and_scatter(e: Emitter, op: Operation, x: Value, source: Value, start: Value) -> Value:
    """Add each source element to the element of its window that the first region selects."""
    rank = e.rank(x)
    window = window_numbers(op, rank)
    sizes, strides = window["window_dimensions"], window["window_strides"]
    if prod(sizes) > MAX_WINDOW_STEPS:
        refuse("SH0006", f"unsupported: select_and_scatter with {prod(sizes)} elements per window")
    offsets = list(np.ndindex(*sizes))
    low, high = window["low"], window["high"]
    if e.rank(source) != rank:
        refuse("SH0007", f"select_and_scatter: an operand of rank {rank}, a source of rank {e.rank(source)}")
    name = (binary_of(op.regions[1], 1) or [""])[0]
    if name != "add":
        refuse("SH0006", "unsupported: select_and_scatter whose second region does not add")
    counts = [e.static(source, axis) for axis in range(rank)]
    lengths = [e.static(x, axis) + low[axis] + high[axis] for axis in range(rank)]
    filled = padded(e, x, start, low, high)
    present = padded(e, e.expand(e.constant(True, DType.BOOL), e.sizes(x)), e.constant(False, DType.BOOL), low, high)

    def at(value: Value, offset: Sequence[int]) -> Value:
        for axis in range(rank):
            last = offset[axis] + (counts[axis] - 1) * strides[axis] + 1
            value = e.slice(value, axis, offset[axis], last, strides[axis])
        return value

    best, chosen = at(filled, offsets[0]), e.expand(e.constant(0, DType.INT64), counts)
    has = at(present, offsets[0])
    for index, offset in enumerate(offsets[1:], 1):
        value, there = at(filled, offset), at(present, offset)
        (keeps,) = e.vectorized(op.regions[0], [best, value], 1)
        takes = e("And", there, e("Not", e("And", has, as_tensor(keeps))))
        best, has = e("Where", takes, value, best), e("Or", has, there)
        chosen = e("Where", takes, e.constant(index, DType.INT64), chosen)
    zero = e.constant(0, source.dtype)
    total: Value | None = None
    for index, offset in enumerate(offsets):
        part = e("Where", e("Equal", chosen, index), source, zero)
        for axis in range(rank):
            part = insert_gaps(e, part, zero, axis, strides[axis] - 1)
        after = [lengths[axis] - offset[axis] - ((counts[axis] - 1) * strides[axis] + 1) for axis in range(rank)]
        part = padded(e, part, zero, offset, after)
        total = part if total is None else e("Add", total, part)
    if total is None:
        refuse("SH0007", "select_and_scatter: windows without elements")
    cut = padded(e, total, zero, [-n for n in low], [-n for n in high])
    return cut if is_neutral(e, "add", start) else e("Add", cut, start)
