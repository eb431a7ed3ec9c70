"""Sparse and ragged tensors of TensorFlow, and updates of rows, as operators on dense tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator
from graphport.formats.tensorflow.rules.matmul import swap_last_axes
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Neg, Sub
from graphport.ops.definitions.comparison import And, Equal, Less, LessOrEqual
from graphport.ops.definitions.indexing import Compress, Gather, ScatterND, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Shape, Unsqueeze
from graphport.ops.lowering.extents import counted, extent
from graphport.ops.lowering.operands import as_int64, as_vector, cast, dtype_of, integers, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_REST = (1 << 63) - 1


def _dense(b: Builder, indices: Value, values: Value, shape: Value) -> Value:
    """A sparse tensor as a dense one; values of equal indices are added."""
    zeros = b(Expand, b.like(values, 0), as_vector(b, shape))
    return b(ScatterND, zeros, as_int64(b, indices), values, reduction="add")


@operator("SparseTensorDenseMatMul")
def sparse_dense_matmul(
    b: Builder,
    indices: Value,
    values: Value,
    shape: Value,
    y: Value,
    *,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
) -> Value:
    """The product of a sparse and a dense matrix."""
    x = _dense(b, indices, values, shape)
    return b(MatMul, swap_last_axes(b, x) if adjoint_a else x, swap_last_axes(b, y) if adjoint_b else y)


@operator("SparseReduceSum")
def sparse_sum(
    b: Builder, indices: Value, values: Value, shape: Value, axes: Value, *, keep_dims: bool = False
) -> Value:
    """The sum of a sparse tensor along axes, as a dense tensor."""
    return b(ReduceSum, _dense(b, indices, values, shape), as_vector(b, axes), keepdims=int(keep_dims))


@operator("ListDiff")
def list_difference(b: Builder, x: Value, y: Value, *, out_idx: DType = DType.INT32) -> list[Value]:
    """The elements of `x` that `y` does not have, and their indices."""
    is_equal = b(Equal, b(Unsqueeze, x, [1]), b(Unsqueeze, y, [0]))
    is_missing = b(Equal, b(ReduceSum, cast(b, is_equal, DType.INT32), [1], keepdims=0), 0)
    indices = counted(b, extent(b, x, 0))
    return [b(Compress, x, is_missing, axis=0), cast(b, b(Compress, indices, is_missing, axis=0), out_idx)]


@operator("InplaceUpdate")
def inplace_update(b: Builder, x: Value, rows: Value, values: Value) -> Value:
    """Replace rows of `x`."""
    return b(ScatterND, x, b(Unsqueeze, as_int64(b, rows), [-1]), values)


@operator("InplaceAdd")
def inplace_add(b: Builder, x: Value, rows: Value, values: Value) -> Value:
    """`x` with values added to rows."""
    return b(ScatterND, x, b(Unsqueeze, as_int64(b, rows), [-1]), values, reduction="add")


@operator("InplaceSub")
def inplace_sub(b: Builder, x: Value, rows: Value, values: Value) -> Value:
    """`x` with values subtracted from rows."""
    return inplace_add(b, x, rows, b(Neg, values))


@operator("RaggedTensorToTensor")
def ragged_to_dense(
    b: Builder, shape: Value, values: Value, default: Value, *partitions: Value, row_partition_types: tuple[str, ...]
) -> Value:
    """Rows of several lengths as a tensor, with a default for elements that a row does not have.

    Raises:
        UnsupportedError: rows are of rows, or have another kind of partition.
    """
    if row_partition_types not in (("ROW_SPLITS",), ("FIRST_DIM_SIZE", "VALUE_ROWIDS")):
        message = f"row partitions of the kinds {', '.join(row_partition_types)}"
        raise UnsupportedError(message)
    positions = counted(b, extent(b, values, 0))
    if len(partitions) == 1:
        rows, starts, count = _rows_of_splits(b, as_int64(b, partitions[0]), positions)
    else:
        count, rows = as_vector(b, partitions[0]), as_int64(b, partitions[1])
        starts = _starts_of_ids(b, rows, count)
    columns = b(Sub, positions, b(Gather, starts, rows, axis=0))
    wide = b(Add, b(ReduceMax, b(Concat, columns, [-1], axis=0), keepdims=1), [1])
    asked = integers(shape)
    if asked is None:
        message = "a computed shape"
        raise UnsupportedError(message)
    count = vector(b, [asked[0]]) if asked and asked[0] >= 0 else count
    wide = vector(b, [asked[1]]) if len(asked) > 1 and asked[1] >= 0 else wide
    is_inside = b(And, b(Less, rows, count), b(Less, columns, wide))
    at = b(Concat, *(b(Unsqueeze, each, [1]) for each in (rows, columns)), axis=1)
    whole = b(Concat, count, wide, b(Shape, values, start=1), axis=0)
    empty = b(Expand, cast(b, default, dtype_of(values)), whole)
    return b(ScatterND, empty, b(Compress, at, is_inside, axis=0), b(Compress, values, is_inside, axis=0))


def _rows_of_splits(b: Builder, splits: Value, positions: Value) -> tuple[Value, Value, Value]:
    """The row of each position, the first position of each row, and the number of rows."""
    ends = b(Slice, splits, [1], [_REST], [0])
    is_behind = b(LessOrEqual, b(Unsqueeze, ends, [0]), b(Unsqueeze, positions, [1]))
    rows = b(ReduceSum, cast(b, is_behind, DType.INT64), [1], keepdims=0)
    return rows, splits, extent(b, ends, 0)


def _starts_of_ids(b: Builder, rows: Value, count: Value) -> Value:
    """The first position of each row: the number of values in rows before it."""
    before = b(Less, b(Unsqueeze, rows, [0]), b(Unsqueeze, counted(b, count), [1]))
    return b(ReduceSum, cast(b, before, DType.INT64), [1], keepdims=0)
