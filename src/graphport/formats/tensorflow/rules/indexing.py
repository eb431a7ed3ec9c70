"""Picking and placing elements in TensorFlow, and lists of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import RULES, by_tflite, operator
from graphport.formats.tensorflow.rules.comparison import select_by_mask
from graphport.formats.tensorflow.rules.indexing_diagonals import diagonals_of, matrix_with_diagonals
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, Less, LessOrEqual, Or, Where
from graphport.ops.definitions.indexing import Compress, Gather, NonZero, ScatterND, Slice, Unique
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.extents import counted, extent, joined
from graphport.ops.lowering.operands import (
    as_int64,
    as_scalar,
    as_vector,
    cast,
    dtype_of,
    needed,
    needed_integer,
    reshaped,
    scalar,
    sizes,
    vector,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_REST = (1 << 63) - 1

RULES.lower("""
GatherNd(x, indices) -> GatherND(x, int64(indices))
Gather(x, indices) -> Gather(x, int64(indices), axis=0)
OneHot(x, depth, on, off, *, axis=-1) -> tflite("ONE_HOT", x, depth, on, off, axis=axis)
LookupTableFindV2(keys, values, x, default) -> tflite("HASHTABLE_FIND", keys, values, x, default)
Bucketize(x, *, boundaries) -> tflite("BUCKETIZE", x, boundaries=boundaries)
SparseToDense(indices, shape, values, default) -> tflite("SPARSE_TO_DENSE", indices, shape, values, default)
ReverseSequence(x, lengths, *, seq_dim, batch_dim=0)
    -> tflite("REVERSE_SEQUENCE", x, lengths, seq_dim=seq_dim, batch_dim=batch_dim)
""")


@operator("GatherV2")
def gather_v2(b: Builder, x: Value, indices: Value, axis: Value, *, batch_dims: int = 0) -> Value:
    """Slices at indices along an axis; each element of the leading `batch_dims` axes has its own."""
    (place,) = needed(axis, "the axis")
    return by_tflite(b, "GATHER", x, indices, axis=place, batch_dims=batch_dims)[0]


@operator("ResourceGather")
def resource_gather(b: Builder, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Slices of a variable at indices."""
    return by_tflite(b, "GATHER", x, indices, axis=batch_dims, batch_dims=batch_dims)[0]


@operator("Where")
def where(b: Builder, x: Value) -> Value:
    """The indices of the elements that are not zero, a row each."""
    return b(Transpose, b(NonZero, x), perm=(1, 0))


@operator("ScatterNd")
def scatter_nd(b: Builder, indices: Value, updates: Value, shape: Value) -> Value:
    """Zeros to which updates are added at indices."""
    own = dtype_of(updates)
    if own is DType.BOOL:
        wide = by_tflite(b, "SCATTER_ND", indices, cast(b, updates, DType.INT32), shape)[0]
        return cast(b, wide, own)
    zeros = b(Expand, b.like(updates, 0), as_vector(b, shape))
    return b(ScatterND, zeros, as_int64(b, indices), updates, reduction="add")


def _scatter_nd(name: str, reduction: str | None) -> None:
    @operator(name)
    def rule(b: Builder, x: Value, indices: Value, updates: Value) -> Value:
        """`x` with updates at indices of its first axes."""
        return b(ScatterND, x, as_int64(b, indices), updates, reduction=reduction)

    del rule


def _scatter_rows(name: str, reduction: str | None) -> None:
    @operator(name)
    def rule(b: Builder, x: Value, indices: Value, updates: Value) -> Value:
        """`x` with updates of rows."""
        at = b(Unsqueeze, as_int64(b, indices), [-1])
        shape = b(Concat, b(Shape, indices), b(Shape, x, start=1), axis=0)
        return b(ScatterND, x, at, b(Expand, updates, shape), reduction=reduction)

    del rule


for _kind, _reduction in (("Update", None), ("Add", "add"), ("Max", "max"), ("Min", "min"), ("Mul", "mul")):
    if _kind != "Mul":  # TensorFlow has no TensorScatterMul
        _scatter_nd(f"TensorScatter{_kind}", _reduction)
    _scatter_rows(f"Scatter{_kind}", _reduction)


@operator("TensorScatterSub")
def tensor_scatter_sub(b: Builder, x: Value, indices: Value, updates: Value) -> Value:
    """`x` from which updates are subtracted at indices."""
    return b(ScatterND, x, as_int64(b, indices), b(Sub, 0, updates), reduction="add")


@operator("ScatterSub")
def scatter_sub(b: Builder, x: Value, indices: Value, updates: Value) -> Value:
    """`x` with updates subtracted from rows."""
    at = b(Unsqueeze, as_int64(b, indices), [-1])
    shape = b(Concat, b(Shape, indices), b(Shape, x, start=1), axis=0)
    return b(ScatterND, x, at, b(Expand, b(Sub, 0, updates), shape), reduction="add")


# Segments


def _segments(b: Builder, x: Value, numbers: Value, count: Value, reduction: str, start: object) -> Value:
    """Reduce the rows of `x` by segment id, into `count` rows; rows with a negative id are dropped."""
    rank = len(b.dims(numbers))
    own = dtype_of(x)
    rest = b(Shape, x, start=rank)
    if rank != 1:
        x = b(Reshape, x, b(Concat, [-1], rest, axis=0))
        numbers = reshaped(b, numbers, (-1,))
    at = as_int64(b, numbers)
    total = as_vector(b, count)
    at = b(Where, b(Less, at, 0), as_scalar(b, total), at)
    rows = b(Add, total, [1])
    first = b.constant(np.asarray(start).astype(own.numpy), own)
    empty = b(Expand, first, b(Concat, rows, rest, axis=0))
    found = b(ScatterND, empty, b(Unsqueeze, at, [-1]), x, reduction=reduction)
    return b(Slice, found, [0], total, [0])


def _neutral_element(dtype: DType, reduction: str) -> object:
    """The result of a segment without rows."""
    if reduction in ("add", "mul"):
        return int(reduction == "mul")
    limits = np.finfo(dtype.numpy) if dtype.is_floating else np.iinfo(dtype.numpy)
    return limits.min if reduction == "max" else limits.max


def _register_segments(name: str, reduction: str) -> None:
    @operator(f"UnsortedSegment{name}")
    def unsorted(b: Builder, x: Value, numbers: Value, count: Value) -> Value:
        """Reduce rows by segment id; a segment without rows has the neutral element."""
        return _segments(b, x, numbers, count, reduction, _neutral_element(dtype_of(x), reduction))

    @operator(f"Segment{name}", f"Segment{name}V2")
    def in_order(b: Builder, x: Value, numbers: Value, count: Value | None = None) -> Value:
        """Reduce rows by segment id; a segment without rows is 0, or 1 for products."""
        total = _count(b, numbers) if count is None else count
        found = _segments(b, x, numbers, total, reduction, _neutral_element(dtype_of(x), reduction))
        if reduction in ("add", "mul") or count is not None:
            return found
        return b(Where, _is_empty(b, x, numbers, total), 0, found)

    del unsorted, in_order


def _count(b: Builder, numbers: Value) -> Value:
    """One more than the largest number, which is the last one."""
    last = b(Slice, as_int64(b, numbers), [-1], [_REST], [0])
    return b(Add, last, [1])


def _sizes(b: Builder, numbers: Value, count: Value) -> Value:
    """The number of rows of each segment: int64."""
    ones = b(Expand, scalar(b, 1, DType.INT64), b(Shape, numbers))
    return _segments(b, ones, numbers, count, "add", 0)


def _is_empty(b: Builder, x: Value, numbers: Value, count: Value) -> Value:
    empty = b(Equal, _sizes(b, numbers, count), 0)
    return reshaped(b, empty, (-1, *[1] * (len(b.dims(x)) - 1)))


for _name, _kind in (("Sum", "add"), ("Prod", "mul"), ("Max", "max"), ("Min", "min")):
    _register_segments(_name, _kind)


@operator("SegmentMean")
def segment_mean(b: Builder, x: Value, numbers: Value) -> Value:
    """The mean of the rows of each segment; 0 for a segment without rows."""
    return _segment_mean(b, x, numbers, _count(b, numbers), root=False)


def _segment_mean(b: Builder, x: Value, numbers: Value, count: Value, *, root: bool) -> Value:
    total = _segments(b, x, numbers, count, "add", 0)
    rows = cast(b, b(Max, _sizes(b, numbers, count), [1]), dtype_of(x))
    if root:
        from graphport.ops.definitions.arithmetic import Sqrt

        rows = b(Sqrt, rows)
    return b(Div, total, reshaped(b, rows, (-1, *[1] * (len(b.dims(x)) - 1))))


def _register_sparse_segments(name: str) -> None:
    @operator(f"SparseSegment{name}", f"SparseSegment{name}WithNumSegments")
    def rule(b: Builder, x: Value, indices: Value, numbers: Value, count: Value | None = None) -> Value:
        """Reduce the rows of `x` at indices by segment id."""
        rows = b(Gather, x, as_int64(b, indices), axis=0)
        total = _count(b, numbers) if count is None else count
        if name == "Sum":
            return _segments(b, rows, numbers, total, "add", 0)
        return _segment_mean(b, rows, numbers, total, root=name == "SqrtN")

    del rule


for _name in ("Sum", "Mean", "SqrtN"):
    _register_sparse_segments(_name)


@operator("Bincount", "DenseBincount")
def bincount(b: Builder, x: Value, size: Value, weights: Value, *, binary_output: bool = False) -> Value:
    """Count each integer below `size`, or sum its weights."""
    own, total = dtype_of(weights), as_vector(b, size)
    if len(b.dims(x)) != 1 or binary_output:
        return _counts_of_rows(b, x, total, weights, is_binary=binary_output)
    at = as_int64(b, x)
    inside = b(And, b(GreaterOrEqual, at, [0]), b(Less, at, total))
    at = b(Where, inside, at, [-1])
    has_weights = b.dims(weights) != (0,)
    given = weights if has_weights else b(Expand, scalar(b, 1, own), b(Shape, at))
    return _segments(b, given, at, total, "add", 0)


def _counts_of_rows(b: Builder, x: Value, total: Value, weights: Value, *, is_binary: bool) -> Value:
    """Count each integer in the last axis, or sum its weights, or whether it occurs."""
    own = dtype_of(weights)
    is_equal = b(Equal, b(Unsqueeze, as_int64(b, x), [-1]), counted(b, total))
    found = cast(b, is_equal, own)
    if is_binary:
        return b(ReduceMax, found, [-2], keepdims=0)
    if b.dims(weights) != (0,):
        found = b(Mul, found, b(Unsqueeze, weights, [-1]))
    return b(ReduceSum, found, [-2], keepdims=0)


# Choosing elements


@operator("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def unique(b: Builder, x: Value, axis: Value | None = None, *, out_idx: DType = DType.INT32) -> list[Value]:
    """Each element once in order of appearance, the index of each element among them, and how often it occurs."""
    if axis is not None and b.dims(axis) != (0,):
        message = "unique slices along an axis"
        raise UnsupportedError(message)
    own = dtype_of(x)
    # ONNX Runtime has this operator for few types.
    wide = cast(b, x, DType.INT64) if own.is_integer else x
    values, _, indices, counts = b.results(Unique, 4, wide, sorted=0)
    return [cast(b, values, own), cast(b, indices, out_idx), cast(b, counts, out_idx)][: b.count]


@operator("DynamicPartition")
def dynamic_partition(b: Builder, x: Value, numbers: Value, *, num_partitions: int) -> list[Value]:
    """Return the rows of each partition."""
    rank = len(b.dims(numbers))
    if rank != 1:
        x = b(Reshape, x, b(Concat, vector(b, [-1]), b(Shape, x, start=rank), axis=0))
        numbers = reshaped(b, numbers, (-1,))
    return [b(Compress, x, b(Equal, numbers, b.like(numbers, each)), axis=0) for each in range(num_partitions)]


@operator("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(b: Builder, *operands: Value) -> Value:
    """Place rows at indices; a later row overwrites an earlier row of equal index."""
    half = len(operands) // 2
    rows, places = [], []
    for indices, x in zip(operands[:half], operands[half:], strict=True):
        rank = len(b.dims(indices))
        rest = b(Shape, x, start=rank) if len(b.dims(x)) > rank else None
        shape = vector(b, [-1]) if rest is None else b(Concat, [-1], rest, axis=0)
        rows.append(b(Reshape, x, shape))
        places.append(reshaped(b, as_int64(b, indices), (-1,)))
    at, data = (each[0] if half == 1 else b(Concat, *each, axis=0) for each in (places, rows))
    count = b(Add, b(ReduceMax, at, keepdims=1), [1])
    empty = b(Expand, b.like(data, 0), b(Concat, count, b(Shape, data, start=1), axis=0))
    return b(ScatterND, empty, b(Unsqueeze, at, [-1]), data)


@operator("LowerBound")
def lower_bound(b: Builder, x: Value, values: Value, *, out_type: DType = DType.INT32) -> Value:
    """How many elements of each sorted row are below each value."""
    return _bound(b, x, values, out_type, is_upper=False)


@operator("UpperBound")
def upper_bound(b: Builder, x: Value, values: Value, *, out_type: DType = DType.INT32) -> Value:
    """How many elements of each sorted row are not above each value."""
    return _bound(b, x, values, out_type, is_upper=True)


def _bound(b: Builder, x: Value, values: Value, out_type: DType, *, is_upper: bool) -> Value:
    row, asked = b(Unsqueeze, x, [1]), b(Unsqueeze, values, [2])
    below = b(LessOrEqual if is_upper else Less, row, asked)
    return cast(b, b(ReduceSum, cast(b, below, DType.INT64), [2], keepdims=0), out_type)


# Matrices


@operator("MatrixBandPart")
def matrix_band_part(b: Builder, x: Value, lower: Value, upper: Value) -> Value:
    """Keep the main diagonal, `lower` diagonals below and `upper` above it; -1 keeps all; other elements are 0."""
    rank = len(b.dims(x, at_least=2))
    rows = b(Unsqueeze, counted(b, extent(b, x, rank - 2)), [1])
    columns = counted(b, extent(b, x, rank - 1))
    zero = scalar(b, 0, DType.INT64)
    low, high = (as_scalar(b, as_int64(b, each)) for each in (lower, upper))
    is_kept = b(
        And,
        b(Or, b(Less, low, zero), b(LessOrEqual, b(Sub, rows, columns), low)),
        b(Or, b(Less, high, zero), b(LessOrEqual, b(Sub, columns, rows), high)),
    )
    return select_by_mask(b, is_kept, x, b.like(x, 0))


@operator("MatrixDiag", "BatchMatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_diag(
    b: Builder,
    x: Value,
    k: Value | None = None,
    num_rows: Value | None = None,
    num_cols: Value | None = None,
    padding: Value | None = None,
    *,
    align: str = "RIGHT_LEFT",
) -> Value:
    """Vectors as diagonals of matrices."""
    low, high = _diagonals(k)
    if low != high:
        (n,) = sizes(b.dims(x)[-1:], "the diagonals")
        shape = _matrix_shape(n, low, high, _constant_size(num_rows, -1), _constant_size(num_cols, -1))
        rest = b.like(x, 0) if padding is None else as_scalar(b, padding)
        return matrix_with_diagonals(b, x, shape, low, high, align, rest)
    (n,) = sizes(b.dims(x, at_least=1)[-1:], "the diagonal")
    rows, columns = _constant_size(num_rows, -1), _constant_size(num_cols, -1)
    least = n + max(-low, 0), n + max(low, 0)
    # Without sizes the matrices are square; a single missing size is the minimum for the diagonal.
    whole = (max(least), max(least)) if rows == columns == -1 else least
    rows, columns = (whole[0] if rows == -1 else rows), (whole[1] if columns == -1 else columns)
    grid = np.arange(columns)[None, :] - np.arange(rows)[:, None] == low
    at = np.clip(np.arange(rows)[:, None] - max(-low, 0) + np.zeros((1, columns), np.int64), 0, n - 1)
    spread = b(Gather, x, b.constant(at.astype(np.int64)), axis=len(b.dims(x)) - 1)
    rest = b.like(x, 0) if padding is None else as_scalar(b, padding)
    return select_by_mask(b, b.constant(grid), spread, rest)


def _matrix_shape(n: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    """The shape of a matrix whose longest diagonal of `low` to `high` has `n` elements; -1 is the minimum."""
    least = n - min(high, 0), n + max(low, 0)
    if rows == columns == -1:
        return max(least), max(least)
    return (least[0] if rows == -1 else rows), (least[1] if columns == -1 else columns)


def _constant_size(value: Value | None, default: int) -> int:
    number = default if value is None else needed_integer(value, "a size")
    return default if number == -1 else number


def _diagonals(k: Value | None) -> tuple[int, int]:
    numbers = (0,) if k is None else needed(k, "the diagonals")
    return numbers[0], numbers[-1]


@operator("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", "DiagPart")
def matrix_diag_part(
    b: Builder, x: Value, k: Value | None = None, padding: Value | None = None, *, align: str = "RIGHT_LEFT"
) -> Value:
    """Diagonals of matrices."""
    low, high = _diagonals(k)
    if low != high:
        return diagonals_of(b, x, low, high, align, padding)
    rank = len(b.dims(x, at_least=2))
    rows, columns = extent(b, x, rank - 2), extent(b, x, rank - 1)
    down, across = max(-low, 0), max(low, 0)
    length = b(Min, b(Sub, rows, [down]), b(Sub, columns, [across]))
    steps = counted(b, length)
    at = b(Add, b(Mul, b(Add, steps, [down]), columns), b(Add, steps, [across]))
    flat = b(Reshape, x, joined(b, *(extent(b, x, axis) for axis in range(rank - 2)), -1))
    return b(Gather, flat, at, axis=rank - 2)


@operator("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(
    b: Builder, x: Value, diagonal: Value, k: Value | None = None, *, align: str = "RIGHT_LEFT"
) -> Value:
    """Matrices with other diagonals."""
    low, high = _diagonals(k)
    rank = len(b.dims(x, at_least=2))
    if low != high:
        rows, columns = sizes(b.dims(x)[-2:], "the size of a matrix")
        return matrix_with_diagonals(b, diagonal, (rows, columns), low, high, align, x)
    rows = b(Unsqueeze, counted(b, extent(b, x, rank - 2)), [1])
    columns = counted(b, extent(b, x, rank - 1))
    is_here = b(Equal, b(Sub, columns, rows), low)
    last = b(Sub, extent(b, diagonal, len(b.dims(diagonal)) - 1), [1])
    start = b(Sub, rows, max(-low, 0))
    at = b(Max, b(Min, start, last), 0)
    spread = b(Gather, diagonal, b(Squeeze, at, [1]), axis=len(b.dims(diagonal)) - 1)
    return select_by_mask(b, is_here, b(Unsqueeze, spread, [-1]), x)


@operator("Diag")
def diag(b: Builder, x: Value) -> Value:
    """A vector as the diagonal of a matrix."""
    if len(b.dims(x)) != 1:
        message = "the diagonal of a tensor of rank above 2"
        raise UnsupportedError(message)
    return matrix_diag(b, x)


# Lists of tensors: their first axis is that of the list


@operator("TensorListReserve")
def list_reserve(b: Builder, count: Value, shape: Value, zero: Value) -> Value:
    """Create a list of `count` elements of zeros."""
    return b(Expand, zero, b(Concat, as_vector(b, count), as_vector(b, shape), axis=0))


@operator("TensorListGetItem")
def list_get(b: Builder, x: Value, index: Value) -> Value:
    """One element of a list."""
    return b(Gather, x, as_scalar(b, as_int64(b, index)), axis=0)


@operator("TensorListSetItem")
def list_set(
    b: Builder, x: Value, index: Value, element: Value, *, resize_if_index_out_of_bounds: bool = False
) -> Value:
    """A list with another element at an index, which may extend the list by zeros."""
    at = reshaped(b, as_int64(b, index), (1, 1))
    if resize_if_index_out_of_bounds:
        missing = b(Sub, b(Add, reshaped(b, at, (1,)), [1]), extent(b, x, 0))
        room = b(Concat, b(Max, missing, [0]), b(Shape, element), axis=0)
        x = b(Concat, x, b(Expand, b.like(element, 0), room), axis=0)
    return b(ScatterND, x, at, b(Unsqueeze, element, [0]))


@operator("TensorListPushBack")
def list_push(b: Builder, element: Value, x: Value | None = None) -> Value:
    """A list with one more element."""
    row = b(Unsqueeze, element, [0])
    return row if x is None else b(Concat, x, row, axis=0)


@operator("TensorListPopBack")
def list_pop(b: Builder, x: Value) -> list[Value]:
    """A list without its last element, and that element."""
    rest = b(Slice, x, [0], [-1], [0])
    return [rest, b(Gather, x, -1, axis=0)]


@operator("TensorListLength")
def list_length(b: Builder, x: Value) -> Value:
    """The number of elements."""
    return as_scalar(b, cast(b, extent(b, x, 0), DType.INT32))


@operator("TensorListGather")
def list_gather(b: Builder, x: Value, indices: Value) -> Value:
    """Elements of a list at indices."""
    return b(Gather, x, as_int64(b, indices), axis=0)


@operator("TensorListScatter")
def list_scatter(b: Builder, x: Value, indices: Value, size: Value | None = None) -> Value:
    """Place the rows of a tensor at indices of a list; further elements are zeros.

    The list has `size` elements, or more if an index requires it.
    """
    at = as_int64(b, indices)
    count = b(Add, b(ReduceMax, at, keepdims=1), [1])
    if size is not None:
        count = b(Max, count, as_vector(b, size))
    empty = b(Expand, b.like(x, 0), b(Concat, count, b(Shape, x, start=1), axis=0))
    return b(ScatterND, empty, b(Unsqueeze, at, [-1]), x)


@operator("TensorListResize")
def list_resize(b: Builder, x: Value, count: Value) -> Value:
    """A list of another length; added elements are zeros."""
    length = as_vector(b, count)
    more = b(Max, b(Sub, length, extent(b, x, 0)), [0])
    zeros = b(Expand, b.like(x, 0), b(Concat, more, b(Shape, x, start=1), axis=0))
    return b(Slice, b(Concat, x, zeros, axis=0), [0], length, [0])


@operator("TensorListConcatV2")
def list_concat(b: Builder, x: Value) -> list[Value]:
    """The elements of a list one after another along their first axis, and the length of each."""
    flat = b(Reshape, x, b(Concat, vector(b, [-1]), b(Shape, x, start=2), axis=0))
    return [flat, b(Expand, extent(b, x, 1), extent(b, x, 0))][: b.count]
