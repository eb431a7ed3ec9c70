"""Gathering, scattering and slicing in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, lower
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.openvino.arithmetic import emitted_cast
from graphport.ops.dialects.openvino.binding import ROWS
from graphport.ops.dialects.openvino.emitting import emitted_reshape
from graphport.ops.dialects.operands import (
    as_index,
    as_int64,
    as_scalar,
    as_vector,
    cast,
    dtype_of,
    integers,
    needed,
    reshaped,
    sizes,
    transposed,
    vector,
)
from graphport.ops.pages.arithmetic import Div, Max, Mod, Neg, Sub
from graphport.ops.pages.comparison import Greater, GreaterOrEqual, Less, Where
from graphport.ops.pages.generate import Range
from graphport.ops.pages.indexing import (
    Compress,
    Gather,
    GatherElements,
    GatherND,
    OneHot,
    ReverseSequence,
    ScatterElements,
    ScatterND,
    Slice,
    Trilu,
)
from graphport.ops.pages.reduction import ReduceSum
from graphport.ops.pages.reshape import Concat, Expand, Identity, Reshape, Shape, Size, Squeeze, Unsqueeze
from graphport.ops.shapes import axis_index
from graphport.ops.views.indexing import ScatterElementsView, SliceView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"

_LAST = int(np.iinfo(np.int64).max)
_FIRST = int(np.iinfo(np.int64).min)


@lower("openvino", "opset1.Gather")
@lower("openvino", "opset7.Gather")
@lower("openvino", "opset8.Gather")
def gather(b: Builder, data: Value, indices: Value, axis: Value, *, batch_dims: int = 0) -> Value:
    """Entries of an axis; the first axes of data and places belong together where there are batches."""
    rank = len(b.dims(data))
    (place,) = needed(axis, "the axis of a gathering")
    at = axis_index(place, rank)
    batch = batch_dims + len(b.dims(indices)) if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(at, len(b.dims(indices))):
        message = f"{batch} axes of batches in front of axis {at}, and {len(b.dims(indices))} of places"
        raise ShapeError(message)
    if not batch:
        return b(Gather, data, as_index(b, indices), axis=at)
    order = [*range(batch), at, *(axis for axis in range(batch, rank) if axis != at)]
    places = b(Unsqueeze, as_int64(b, indices), vector(b, [-1]))
    found = b(GatherND, transposed(b, data, order), places, batch_dims=batch)
    # [batch, places, axes before, axes behind]: the axes before go before the places.
    count, before = len(b.dims(indices)) - batch, at - batch
    moved = [batch + count + i for i in range(before)]
    rest = range(batch + count + before, batch + count + rank - batch - 1)
    return transposed(b, found, [*range(batch), *moved, *range(batch, batch + count), *rest])


ROWS.lift("""
Gather -> opset8.Gather(data, indices, index(axis))
GatherND -> opset8.GatherND(data, indices, batch_dims=batch_dims)
ReverseSequence -> opset1.ReverseSequence(input, sequence_lens, batch_axis=batch_axis, seq_axis=time_axis)
""")


ROWS.lower("""
opset6.GatherElements(data, indices, *, axis) -> GatherElements(data, as_index(indices), axis=axis)
opset8.GatherND(data, indices, *, batch_dims=0) -> GatherND(data, as_int64(indices), batch_dims=batch_dims)
""")


@GatherElements.lift("openvino")
def lift_gather_elements(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Lifted:
    data = _narrowed(b, data, indices, axis)
    return b.word("opset6.GatherElements", data, _counted_forward(b, data, indices, axis), axis=axis)


def _narrowed(b: Builder, data: Value, indices: Value, axis: int) -> Value:
    """The part of `data` that places reach: OpenVINO wants all other extents the same.

    It takes a slice in front of this word away again, and finds fault with what is left.
    """
    dims = b.dims(data)
    for at, (n, m) in enumerate(zip(dims, b.dims(indices), strict=True)):
        if at != axis % len(dims) and isinstance(n, int) and isinstance(m, int) and m < n:
            data = emit(b, "opset8.Gather", data, vector(b, range(m)), b.constant(np.array(at, np.int64)))
    return data


def _counted_forward(b: Builder, data: Value, indices: Value, axis: int) -> Value:
    """Places that may be negative, from the front; constants that are not stay."""
    known = integers(indices)
    if known is not None and all(place >= 0 for place in known):
        return indices
    length = b.dims(data)[axis]
    if isinstance(length, int):
        count: Value | float = length
    else:
        whole = emit(b, "opset3.ShapeOf", data, output_type=dtype_of(indices))
        count = emit(b, "opset8.Gather", whole, vector(b, [axis]), b.constant(np.array(0)))
    is_negative = emit(b, "opset1.Less", indices, 0)
    return emit(b, "opset1.Select", is_negative, emit(b, "opset1.Add", indices, count), indices)


@lower("openvino", "opset5.GatherND")
def gather_nd_5(b: Builder, data: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Parts of `data` by places along its first axes; several axes of batches become one."""
    found = b(GatherND, data, as_int64(b, indices), batch_dims=batch_dims)
    if batch_dims < 2:
        return found
    tail = b(Shape, found, start=batch_dims)
    return b(Reshape, found, b(Concat, vector(b, [-1]), tail, axis=0))


@lower("openvino", "opset3.ScatterUpdate")
def scatter_update(b: Builder, data: Value, indices: Value, updates: Value, axis: Value) -> Value:
    """Whole slices along an axis replaced."""
    rank, count = len(b.dims(data)), len(b.dims(indices))
    (place,) = needed(axis, "the axis of a scattering")
    at = axis_index(place, rank)
    order = [at, *(axis for axis in range(rank) if axis != at)]
    behind = [axis for axis in range(rank + count - 1) if not at <= axis < at + count]
    parts = transposed(b, updates, [*range(at, at + count), *behind])
    places = b(Unsqueeze, as_int64(b, indices), vector(b, [-1]))
    moved = b(ScatterND, transposed(b, data, order), places, parts)
    return transposed(b, moved, [int(axis) for axis in np.argsort(order)])


_REDUCTIONS = {"none": "none", "sum": "add", "prod": "mul", "min": "min", "max": "max"}


@lower("openvino", "opset3.ScatterElementsUpdate")
@lower("openvino", "opset12.ScatterElementsUpdate")
def scatter_elements_update(
    b: Builder,
    data: Value,
    indices: Value,
    updates: Value,
    axis: Value,
    *,
    reduction: str = "none",
    use_init_val: bool = True,
) -> Value:
    """Entries replaced, each in its own line along the axis, or combined with what is there."""
    (at,) = needed(axis, "the axis of a scattering")
    places = as_index(b, indices)
    if reduction == "mean":
        return _scattered_mean(b, data, places, updates, at, use_init_val=use_init_val)
    if not use_init_val and reduction != "none":
        start = _neutral(dtype_of(data), reduction)
        neutral = b(Expand, b.like(data, start), b(Shape, places))
        data = b(ScatterElements, data, places, neutral, axis=at)
    return b(ScatterElements, data, places, updates, axis=at, reduction=_REDUCTIONS[reduction])


def _neutral(dtype: DType, reduction: str) -> float:
    if reduction in ("sum", "prod"):
        return float(reduction == "prod")
    if dtype.is_floating:
        return -np.inf if reduction == "max" else np.inf
    limits = np.iinfo(dtype.numpy)
    return limits.min if reduction == "max" else limits.max


def _scattered_mean(b: Builder, data: Value, indices: Value, updates: Value, axis: int, *, use_init_val: bool) -> Value:
    """The sum over the count; the quotient of integers is rounded down."""
    ones = b(Expand, b.like(data, 1), b(Shape, indices))
    start = b(Expand, b.like(data, 1), b(Shape, data))
    if not use_init_val:
        zeros = b(Expand, b.like(data, 0), b(Shape, indices))
        data = b(ScatterElements, data, indices, zeros, axis=axis)
        start = b(ScatterElements, start, indices, zeros, axis=axis)
    total = b(ScatterElements, data, indices, updates, axis=axis, reduction="add")
    count = b(ScatterElements, start, indices, ones, axis=axis, reduction="add")
    if dtype_of(data).kind != "i":
        return b(Div, total, count)
    return b(Div, b(Sub, total, b(Mod, total, count)), count)


@ScatterElementsView.lift("openvino")
def lift_scatter_elements(b: Builder, op: ScatterElementsView) -> Lifted:
    stated = {ours: theirs for theirs, ours in _REDUCTIONS.items()}[op.reduction]
    at = b.constant(np.array(op.axis, np.int64))
    return b.word("opset12.ScatterElementsUpdate", op.data, op.indices, op.updates, at, reduction=stated)


@lower("openvino", "opset4.ScatterNDUpdate")
@lower("openvino", "opset15.ScatterNDUpdate")
def scatter_nd_update(b: Builder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """Parts replaced by places along the first axes, or combined with what is there."""
    places = as_int64(b, indices)
    if reduction == "sub":
        return b(ScatterND, data, places, b(Neg, updates), reduction="add")
    return b(ScatterND, data, places, updates, reduction=_REDUCTIONS[reduction])


@ScatterND.lift("openvino")
def lift_scatter_nd(b: Builder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Lifted:
    stated = {ours: theirs for theirs, ours in _REDUCTIONS.items()}[reduction]
    if stated == "none":
        return b.word("opset4.ScatterNDUpdate", data, indices, updates)
    return b.word("opset15.ScatterNDUpdate", data, indices, updates, reduction=stated)


@lower("openvino", "opset8.Slice")
def slice_8(b: Builder, data: Value, start: Value, stop: Value, step: Value, axes: Value | None = None) -> Value:
    """From start to stop along each axis, in steps, backwards with a negative one."""
    ends = [None if end is None else as_vector(b, end) for end in (start, stop, axes, step)]
    return b(Slice, data, *ends)


@SliceView.lift("openvino")
def lift_slice(b: Builder, op: SliceView) -> Lifted:
    steps = op.steps
    if steps is None:
        (count,) = sizes(b.dims(as_vector(b, op.starts)), "how many axes are sliced")
        steps = b.constant(np.ones(count, dtype_of(op.starts).numpy))
    return b.word("opset8.Slice", op.data, op.starts, op.ends, steps, *([] if op.axes is None else [op.axes]))


@lower("openvino", "opset15.SliceScatter")
def slice_scatter(
    b: Builder, data: Value, updates: Value, start: Value, stop: Value, step: Value, axes: Value | None = None
) -> Value:
    """`data` with a slice of it replaced: the slice of all places says where."""
    whole = b(Shape, data)
    flat = b(Reshape, data, vector(b, [-1]))
    count = as_scalar(b, b(Size, data))
    places = b(Reshape, b(Range, b.constant(np.array(0)), count, b.constant(np.array(1))), whole)
    ends = [None if end is None else as_vector(b, end) for end in (start, stop, axes, step)]
    taken = b(Reshape, b(Slice, places, *ends), vector(b, [-1, 1]))
    return b(Reshape, b(ScatterND, flat, taken, b(Reshape, updates, vector(b, [-1]))), whole)


@lower("openvino", "opset1.ReverseSequence")
def reverse_sequence(b: Builder, x: Value, lengths: Value, *, batch_axis: int = 0, seq_axis: int = 1) -> Value:
    """The first entries of each sequence turned around."""
    rank = len(b.dims(x))
    batch, time = axis_index(batch_axis, rank), axis_index(seq_axis, rank)
    counts = as_int64(b, lengths)
    if {batch, time} == {0, 1}:
        return b(ReverseSequence, x, counts, batch_axis=batch, time_axis=time)
    order = [batch, time, *(axis for axis in range(rank) if axis not in (batch, time))]
    turned = b(ReverseSequence, transposed(b, x, order), counts, batch_axis=0, time_axis=1)
    return transposed(b, turned, [int(axis) for axis in np.argsort(order)])


@lower("openvino", "opset1.Reverse")
def reverse(b: Builder, x: Value, axes: Value, *, mode: str = "index") -> Value:
    """Axes turned around: those with these numbers, or those that are marked."""
    found = needed(axes, "the axes to turn around")
    places = [axis for axis, mark in enumerate(found) if mark] if mode == "mask" else list(found)
    if not places:
        return b(Identity, x)
    ends = ([n] * len(places) for n in (-1, _FIRST))
    starts, stops = (vector(b, end) for end in ends)
    return b(Slice, x, starts, stops, vector(b, places), vector(b, [-1] * len(places)))


def _hot_in(dtype: DType) -> DType:
    """A type that holds every number of `dtype`, in which runtimes know `OneHot`."""
    if dtype in (DType.FLOAT16, DType.BFLOAT16):
        return DType.FLOAT32
    return DType.INT64 if dtype.kind in "biu" and dtype is not DType.UINT64 else dtype


@lower("openvino", "opset1.OneHot")
@lower("openvino", "opset16.OneHot")
def one_hot(
    b: Builder,
    indices: Value,
    depth: Value,
    on: Value,
    off: Value,
    *,
    axis: int,
    negative_indices_mode: str = "ignore_negative",
) -> Value:
    """One value where an index points and another elsewhere; a negative index points nowhere, unless it counts back."""
    count = as_int64(b, as_scalar(b, depth))
    places = as_int64(b, indices)
    if negative_indices_mode == "ignore_negative":
        # ONNX counts them from the end: they go behind it.
        places = b(Where, b(Less, places, b.like(places, 0)), count, places)
    ends = [as_vector_of(b, off), as_vector_of(b, on)]
    dtype = dtype_of(on)
    # Runtimes know this operator in few types.
    values = cast(b, b(Concat, *ends, axis=0), _hot_in(dtype))
    if b.dims(places):
        return cast(b, b(OneHot, places, count, values, axis=axis), dtype)
    # ONNX has no hot place of a number alone, only of a vector.
    line = b(OneHot, b(Unsqueeze, places, vector(b, [0])), count, values, axis=-1)
    return cast(b, b(Squeeze, line, vector(b, [0])), dtype)


def as_vector_of(b: Builder, value: Value) -> Value:
    """A number as a vector of one."""
    return value if b.dims(value) else reshaped(b, value, (1,))


@OneHot.lift("openvino")
def lift_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Lifted:
    """Negative indices are counted from the front first, for the newest word alone knows them."""
    count = emitted_cast(b, depth if not b.dims(depth) else emitted_reshape(b, depth, ()), DType.INT64)
    places = emitted_cast(b, indices, DType.INT64)
    is_negative = emit(b, "opset1.Less", places, 0)
    places = emit(b, "opset1.Select", is_negative, emit(b, "opset1.Add", places, count), places)
    zero = b.constant(np.array(0, np.int64))
    on, off = (emit(b, "opset8.Gather", values, b.constant(np.array(n, np.int64)), zero) for n in (1, 0))
    return b.word("opset1.OneHot", places, count, on, off, axis=axis)


@lower("openvino", "opset7.Roll")
def roll(b: Builder, x: Value, shift: Value, axes: Value) -> Value:
    """Entries moved along axes, and in again at the other end."""
    dims = b.dims(x)
    known, shifts = integers(axes), integers(shift)
    if known is None:
        shift, known, shifts = _shift_of_each(b, len(dims), shift, axes), tuple(range(len(dims))), None
    places = [axis_index(axis, len(dims)) for axis in known]
    for number, axis in enumerate(places):
        length = dims[axis]
        if shifts is not None and isinstance(length, int):
            by = shifts[number if len(shifts) > 1 else 0] % length if length else 0
            x = _rolled(b, x, axis, by)
            continue
        count = b(Shape, x, start=axis, end=axis + 1)
        ahead = as_vector(b, as_int64(b, shift))
        if b.dims(ahead) != (1,):
            ahead = b(Gather, ahead, vector(b, [number]))
        steps = b(Range, b.constant(np.array(0)), as_scalar(b, count), b.constant(np.array(1)))
        # Nothing is left of a division by 0, also where there is nothing to divide.
        x = b(Gather, x, b(Mod, b(Sub, steps, ahead), b(Max, count, vector(b, [1]))), axis=axis)
    return x if places else b(Identity, x)


def _shift_of_each(b: Builder, rank: int, shift: Value, axes: Value) -> Value:
    """How far entries move along each axis, where the run says which axes: shifts of the same one add up."""
    places = as_vector(b, as_int64(b, axes))
    places = b(Mod, places, vector(b, [rank]))
    by = b(Expand, as_vector(b, as_int64(b, shift)), b(Shape, places))
    return b(ScatterElements, vector(b, [0] * rank), places, by, axis=0, reduction="add")


def _rolled(b: Builder, x: Value, axis: int, by: int) -> Value:
    if not by:
        return b(Identity, x)
    ends = vector(b, [-by]), vector(b, [_LAST]), vector(b, [axis])
    last = b(Slice, x, *ends)
    first = b(Slice, x, vector(b, [0]), vector(b, [-by]), vector(b, [axis]))
    return b(Concat, last, first, axis=axis)


@lower("openvino", "opset3.Bucketize")
def bucketize(
    b: Builder, x: Value, buckets: Value, *, output_type: DType = DType.INT64, with_right_bound: bool = True
) -> Value:
    """Between which bounds a number lies: how many of them are less than it, or not greater."""
    return _counted_below(b, b(Unsqueeze, x, vector(b, [-1])), buckets, output_type, inclusive=not with_right_bound)


@lower("openvino", "opset15.SearchSorted")
def search_sorted(
    b: Builder, bounds: Value, x: Value, *, right_mode: bool = False, output_type: DType = DType.INT64
) -> Value:
    """Where a number would stand in a line that is sorted, before its equals or behind them."""
    if len(b.dims(bounds)) > 1:
        bounds = b(Unsqueeze, bounds, vector(b, [-2]))
    return _counted_below(b, b(Unsqueeze, x, vector(b, [-1])), bounds, output_type, inclusive=right_mode)


def _counted_below(b: Builder, x: Value, bounds: Value, dtype: DType, *, inclusive: bool) -> Value:
    common = dtype_of(x)
    if dtype_of(bounds) is not common:
        common = DType.FLOAT64
    x, bounds = cast(b, x, common), cast(b, bounds, common)
    is_below = b(GreaterOrEqual if inclusive else Greater, x, bounds)
    counts = b(ReduceSum, cast(b, is_below, DType.INT64), vector(b, [-1]), keepdims=0)
    return cast(b, counts, dtype)


@Trilu.lift("openvino")
def lift_trilu(b: Builder, input: Value, k: Value | None = None, *, upper: int = 1) -> Lifted:
    """Zeros where a mask of places, which is computed from the last two extents, says so."""
    dims = b.dims(input)
    shift = (0,) if k is None else integers(k)
    counts = [_counting(b, input, axis) for axis in (len(dims) - 2, len(dims) - 1)]
    rows, columns = emit(b, "opset1.Unsqueeze", counts[0], vector(b, [1])), counts[1]
    if k is not None and shift is None:
        rows = emit(b, "opset1.Add", rows, k if not b.dims(k) else emitted_reshape(b, k, ()))
    elif shift is not None and shift[0]:
        rows = emit(b, "opset1.Add", rows, shift[0])
    is_kept = emit(b, "opset1.LessEqual" if upper else "opset1.GreaterEqual", rows, columns)
    return b.word("opset1.Select", is_kept, input, b.like(input, 0))


def _counting(b: Builder, x: Value, axis: int) -> Value:
    """0, 1, 2 and so on along an axis of `x`."""
    length = b.dims(x)[axis]
    if isinstance(length, int):
        return b.constant(np.arange(reserve(length), dtype=np.int64))
    zero, one = (b.constant(np.array(n, np.int64)) for n in (0, 1))
    count = emit(b, "opset8.Gather", emit(b, "opset3.ShapeOf", x), b.constant(np.array(axis, np.int64)), zero)
    fact = TensorFact(DType.INT64, (length,))
    return b.word("opset4.Range", zero, count, one, facts=[fact], output_type=DType.INT64)[0]


@Compress.lift("openvino")
def lift_compress(b: Builder, input: Value, condition: Value, *, axis: int | None = None) -> Lifted:
    """The places that are marked, gathered."""
    if axis is None:
        input, axis = emitted_reshape(b, input, (-1,)), 0
    marked = emit(b, "opset3.NonZero", condition)
    places = emit(b, "opset1.Squeeze", marked, vector(b, [0]))
    return b.word("opset8.Gather", input, places, b.constant(np.array(axis, np.int64)))
