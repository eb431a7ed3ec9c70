"""Gathering, scattering and slicing in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import emitted_cast, emitted_gather, emitted_range, emitted_scalar
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.arithmetic import Div, Max, Mod, Sub
from graphport.ops.definitions.comparison import Greater, GreaterOrEqual, Less, Where
from graphport.ops.definitions.indexing import (
    Gather,
    GatherND,
    OneHot,
    ReverseSequence,
    ScatterElements,
    ScatterND,
    Slice,
    Trilu,
)
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Identity, Reshape, Shape, Size, Squeeze, Unsqueeze
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.extents import counted, cut, extent
from graphport.ops.lowering.operands import (
    as_index,
    as_int64,
    as_scalar,
    as_vector,
    cast,
    dtype_of,
    ends_of,
    integers,
    needed,
    needed_integer,
    reshaped,
    sizes,
    translate,
    transposed,
    vector,
)
from graphport.ops.shapes import axis_index
from graphport.ops.views.indexing import SliceView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported

_LAST = int(np.iinfo(np.int64).max)
_FIRST = int(np.iinfo(np.int64).min)


@lower("openvino", "opset1.Gather")
@lower("openvino", "opset7.Gather")
@lower("openvino", "opset8.Gather")
def gather(b: Builder, data: Value, indices: Value, axis: Value, *, batch_dims: int = 0) -> Value:
    """Gather slices along an axis; the leading `batch_dims` axes of data and indices are matched."""
    rank = len(b.dims(data))
    place = needed_integer(axis, "the axis")
    at = axis_index(place, rank)
    batch = batch_dims + len(b.dims(indices)) if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(at, len(b.dims(indices))):
        message = (
            f"batch_dims is {batch}, expected at most axis {at} and the rank of the indices, {len(b.dims(indices))}"
        )
        raise ShapeError(message)
    if not batch:
        return b(Gather, data, as_index(b, indices), axis=at)
    order = [*range(batch), at, *(axis for axis in range(batch, rank) if axis != at)]
    index_tuples = b(Unsqueeze, as_int64(b, indices), [-1])
    found = b(GatherND, transposed(b, data, order), index_tuples, batch_dims=batch)
    # [batch, indices, axes before, axes after]: move the axes before in front of the indices.
    count, before = len(b.dims(indices)) - batch, at - batch
    moved = [batch + count + i for i in range(before)]
    rest = range(batch + count + before, batch + count + rank - batch - 1)
    return transposed(b, found, [*range(batch), *moved, *range(batch, batch + count), *rest])


def _narrowed(b: Builder, data: Value, indices: Value, axis: int) -> Value:
    """Slice `data` to the shape of the indices: OpenVINO requires equal sizes on all other axes.

    OpenVINO removes a Slice before this operator again and then fails, so Gathers are emitted.
    """
    dims = b.dims(data)
    for at, (n, m) in enumerate(zip(dims, b.dims(indices), strict=True)):
        if at != axis % len(dims) and isinstance(n, int) and isinstance(m, int) and m < n:
            data = emitted_gather(b, data, range(m), at)
    return data


def _counted_below(b: Builder, x: Value, bounds: Value, dtype: DType | None, *, inclusive: bool) -> Value:
    """Count the bounds that are less than each element (`inclusive`: or equal), as int64 by default."""
    common = dtype_of(x) if dtype_of(bounds) is dtype_of(x) else DType.FLOAT64
    column = b(Unsqueeze, x, [-1])
    is_below = b(GreaterOrEqual if inclusive else Greater, cast(b, column, common), cast(b, bounds, common))
    counts = b(ReduceSum, cast(b, is_below, DType.INT64), [-1], keepdims=0)
    return cast(b, counts, dtype or DType.INT64)


def _counted_forward(b: Builder, data: Value, indices: Value, axis: int) -> Value:
    """Normalize negative indices; non-negative constants are unchanged."""
    known = integers(indices)
    if known is not None and all(place >= 0 for place in known):
        return indices
    length = b.dims(data)[axis]
    count: Value | float = length if isinstance(length, int) else 0
    if not isinstance(length, int):
        count = emitted_gather(b, emit(b, "opset3.ShapeOf", data, output_type=dtype_of(indices)), [axis])
    is_negative = emit(b, "opset1.Less", indices, 0)
    return emit(b, "opset1.Select", is_negative, emit(b, "opset1.Add", indices, count), indices)


_INDEXING = RULES.having(
    combined=lambda _b, reduction: translate("reduction", reduction, _REDUCTIONS),
    combining=lambda _b, reduction: {ours: theirs for theirs, ours in _REDUCTIONS.items()}[reduction],
    counted_below=_counted_below,
    counted_forward=_counted_forward,
    narrowed=_narrowed,
)
_INDEXING.export_rules("""
Compress
    -> marked = opset1.Squeeze(opset3.NonZero(condition), vector([0])); axis is not None:
       opset8.Gather(input, marked, index(axis))
    -> opset8.Gather(emitted_reshape(input, [-1]), marked, index(0))
Gather -> opset8.Gather(data, indices, index(axis))
GatherElements
    -> own = narrowed(data, indices, axis); opset6.GatherElements(own, counted_forward(own, indices, axis), axis=axis)
GatherND -> opset8.GatherND(data, indices, batch_dims=batch_dims)
ReverseSequence -> opset1.ReverseSequence(input, sequence_lens, batch_axis=batch_axis, seq_axis=time_axis)
ScatterElements
    -> opset12.ScatterElementsUpdate(data, indices, updates, index(axis), reduction=combining(reduction))
ScatterND
    -> reduction == "none": opset4.ScatterNDUpdate(data, indices, updates)
    -> opset15.ScatterNDUpdate(data, indices, updates, reduction=combining(reduction))
""")
_INDEXING.lower("""
opset6.GatherElements(data, indices, *, axis) -> GatherElements(data, as_index(indices), axis=axis)
# Several axes of batches become one.
opset5.GatherND(data, indices, *, batch_dims=0)
    -> found = GatherND(data, as_int64(indices), batch_dims=batch_dims); batch_dims < 2: found
    -> Reshape(found, Concat(vector([-1]), Shape(found, start=batch_dims), axis=0))
opset8.GatherND(data, indices, *, batch_dims=0) -> GatherND(data, as_int64(indices), batch_dims=batch_dims)
opset4.ScatterNDUpdate, opset15.ScatterNDUpdate(data, indices, updates, *, reduction="none")
    -> reduction == "sub": ScatterND(data, as_int64(indices), Neg(updates), reduction="add")
    -> ScatterND(data, as_int64(indices), updates, reduction=combined(reduction))
opset8.Slice(data, start, stop, step, axes=None)
    -> axes is None: Slice(data, as_vector(start), as_vector(stop), None, as_vector(step))
    -> Slice(data, as_vector(start), as_vector(stop), as_vector(axes), as_vector(step))
# Between which bounds a number lies: how many of them are less than it, or not greater.
opset3.Bucketize(x, buckets, *, output_type=None, with_right_bound=True)
    -> counted_below(x, buckets, output_type, inclusive=not with_right_bound)
# Where a number would stand in a line that is sorted, before its equals or behind them.
opset15.SearchSorted(bounds, x, *, right_mode=False, output_type=None)
    -> rank(bounds) > 1: counted_below(x, Unsqueeze(bounds, [-2]), output_type, inclusive=right_mode)
    -> counted_below(x, bounds, output_type, inclusive=right_mode)
""")


@lower("openvino", "opset3.ScatterUpdate")
def scatter_update(b: Builder, data: Value, indices: Value, updates: Value, axis: Value) -> Value:
    """Replace slices of `data` along an axis."""
    rank, count = len(b.dims(data)), len(b.dims(indices))
    place = needed_integer(axis, "the axis")
    at = axis_index(place, rank)
    order = [at, *(axis for axis in range(rank) if axis != at)]
    behind = [axis for axis in range(rank + count - 1) if not at <= axis < at + count]
    parts = transposed(b, updates, [*range(at, at + count), *behind])
    index_tuples = b(Unsqueeze, as_int64(b, indices), [-1])
    moved = b(ScatterND, transposed(b, data, order), index_tuples, parts)
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
    """Scatter elements along an axis, replacing or reducing the existing ones."""
    at = needed_integer(axis, "the axis")
    index_values = as_index(b, indices)
    if reduction == "mean":
        return _scattered_mean(b, data, index_values, updates, at, use_init_val=use_init_val)
    if not use_init_val and reduction != "none":
        lowest, highest = ends_of(dtype_of(data))
        starts = {"sum": 0, "prod": 1, "min": highest, "max": lowest}
        start = starts[translate("reduction", reduction, {name: name for name in starts})]
        neutral = b(Expand, b.like(data, start), b(Shape, index_values))
        data = b(ScatterElements, data, index_values, neutral, axis=at)
    canonical = translate("reduction", reduction, _REDUCTIONS)
    return b(ScatterElements, data, index_values, updates, axis=at, reduction=canonical)


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


@SliceView.export_rule("openvino")
def export_slice(b: Builder, op: SliceView) -> Exported:
    steps = op.steps
    if steps is None:
        (count,) = sizes(b.dims(as_vector(b, op.starts)), "the number of sliced axes")
        steps = b.constant(np.ones(count, dtype_of(op.starts).numpy))
    return b.emit("opset8.Slice", op.data, op.starts, op.ends, steps, *([] if op.axes is None else [op.axes]))


@lower("openvino", "opset15.SliceScatter")
def slice_scatter(
    b: Builder, data: Value, updates: Value, start: Value, stop: Value, step: Value, axes: Value | None = None
) -> Value:
    """Replace a slice of `data`; the same slice of the element indices gives the positions."""
    whole = b(Shape, data)
    flat = b(Reshape, data, [-1])
    count = b(Size, data)
    positions = b(Reshape, counted(b, count), whole)
    ends = [None if end is None else as_vector(b, end) for end in (start, stop, axes, step)]
    taken = b(Reshape, b(Slice, positions, *ends), [-1, 1])
    return b(Reshape, b(ScatterND, flat, taken, b(Reshape, updates, [-1])), whole)


@lower("openvino", "opset1.ReverseSequence")
def reverse_sequence(b: Builder, x: Value, lengths: Value, *, batch_axis: int = 0, seq_axis: int = 1) -> Value:
    """Reverse the first `lengths[i]` entries of each sequence."""
    rank = len(b.dims(x))
    batch, time = axis_index(batch_axis, rank), axis_index(seq_axis, rank)
    counts = as_int64(b, lengths)
    if {batch, time} == {0, 1}:
        return b(ReverseSequence, x, counts, batch_axis=batch, time_axis=time)
    order = [batch, time, *(axis for axis in range(rank) if axis not in (batch, time))]
    flipped = b(ReverseSequence, transposed(b, x, order), counts, batch_axis=0, time_axis=1)
    return transposed(b, flipped, [int(axis) for axis in np.argsort(order)])


@lower("openvino", "opset1.Reverse")
def reverse(b: Builder, x: Value, axes: Value, *, mode: str = "index") -> Value:
    """Reverse axes given by index or by mask."""
    found = needed(axes, "the reversed axes")
    reversed_axes = [axis for axis, mark in enumerate(found) if mark] if mode == "mask" else list(found)
    if not reversed_axes:
        return b(Identity, x)
    starts, stops, back = (vector(b, [n] * len(reversed_axes)) for n in (-1, _FIRST, -1))
    return b(Slice, x, starts, stops, reversed_axes, back)


def _hot_in(dtype: DType) -> DType:
    """Return a dtype that contains all values of `dtype` and that runtimes support for OneHot."""
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
    """Convert OneHot: `on` at the index, `off` elsewhere; negative indices are ignored or count from the end."""
    count = as_int64(b, as_scalar(b, depth))
    int_indices = as_int64(b, indices)
    if negative_indices_mode == "ignore_negative":
        # ONNX counts negative indices from the end, so they are moved past it.
        int_indices = b(Where, b(Less, int_indices, 0), count, int_indices)
    ends = [as_vector_of(b, off), as_vector_of(b, on)]
    dtype = dtype_of(on)
    # Runtimes have OneHot kernels for few dtypes.
    values = cast(b, b(Concat, *ends, axis=0), _hot_in(dtype))
    if b.dims(int_indices):
        return cast(b, b(OneHot, int_indices, count, values, axis=axis), dtype)
    # ONNX OneHot does not accept a scalar index, so use a vector of one index.
    line = b(OneHot, b(Unsqueeze, int_indices, [0]), count, values, axis=-1)
    return cast(b, b(Squeeze, line, [0]), dtype)


def as_vector_of(b: Builder, value: Value) -> Value:
    """Reshape a scalar to a vector of one element."""
    return value if b.dims(value) else reshaped(b, value, (1,))


@OneHot.export_rule("openvino")
def export_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Exported:
    """Export OneHot; negative indices are normalized first, because only the newest op version supports them."""
    count = emitted_cast(b, emitted_scalar(b, depth), DType.INT64)
    int_indices = emitted_cast(b, indices, DType.INT64)
    is_negative = emit(b, "opset1.Less", int_indices, 0)
    int_indices = emit(b, "opset1.Select", is_negative, emit(b, "opset1.Add", int_indices, count), int_indices)
    on, off = (emitted_gather(b, values, n) for n in (1, 0))
    return b.emit("opset1.OneHot", int_indices, count, on, off, axis=axis)


@lower("openvino", "opset7.Roll")
def roll(b: Builder, x: Value, shift: Value, axes: Value) -> Value:
    """Roll elements along axes, cyclically."""
    dims = b.dims(x)
    known, shifts = integers(axes), integers(shift)
    if known is None:
        shift, known, shifts = _shift_of_each(b, len(dims), shift, axes), tuple(range(len(dims))), None
    rolled_axes = [axis_index(axis, len(dims)) for axis in known]
    for number, axis in enumerate(rolled_axes):
        length = dims[axis]
        if shifts is not None and isinstance(length, int):
            by = shifts[number if len(shifts) > 1 else 0] % length if length else 0
            x = b(Concat, cut(b, x, -by, _LAST, axis), cut(b, x, 0, -by, axis), axis=axis) if by else b(Identity, x)
            continue
        count = extent(b, x, axis)
        ahead = as_vector(b, as_int64(b, shift))
        if b.dims(ahead) != (1,):
            ahead = b(Gather, ahead, [number])
        # A modulus of at least 1 avoids division by zero on empty axes.
        x = b(Gather, x, b(Mod, b(Sub, counted(b, count), ahead), b(Max, count, [1])), axis=axis)
    return x if rolled_axes else b(Identity, x)


def _shift_of_each(b: Builder, rank: int, shift: Value, axes: Value) -> Value:
    """Return the shift of each axis if `axes` is known only at run time; shifts of one axis are added."""
    rolled_axes = as_vector(b, as_int64(b, axes))
    rolled_axes = b(Mod, rolled_axes, [rank])
    by = b(Expand, as_vector(b, as_int64(b, shift)), b(Shape, rolled_axes))
    return b(ScatterElements, vector(b, [0] * rank), rolled_axes, by, axis=0, reduction="add")


@Trilu.export_rule("openvino")
def export_trilu(b: Builder, input: Value, k: Value | None = None, *, upper: int = 1) -> Exported:
    """Export Trilu: select zeros by a mask of row and column indices."""
    dims = b.dims(input)
    shift = (0,) if k is None else integers(k)
    rows, columns = (emitted_range(b, input, axis) for axis in (len(dims) - 2, len(dims) - 1))
    rows = emit(b, "opset1.Unsqueeze", rows, vector(b, [1]))
    if k is not None and shift is None:
        rows = emit(b, "opset1.Add", rows, emitted_scalar(b, k))
    elif shift is not None and shift[0]:
        rows = emit(b, "opset1.Add", rows, shift[0])
    is_kept = emit(b, "opset1.LessEqual" if upper else "opset1.GreaterEqual", rows, columns)
    return b.emit("opset1.Select", is_kept, input, b.like(input, 0))
