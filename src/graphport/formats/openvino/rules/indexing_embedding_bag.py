"""Sums over bags of rows, and other results of runs, in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mul
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, Less, Where
from graphport.ops.definitions.indexing import Gather, ScatterND, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceMax, ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.extents import counted, cut
from graphport.ops.lowering.operands import (
    as_index,
    as_int64,
    as_scalar,
    as_vector,
    cast,
    dtype_of,
    index,
    integers,
    vector,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _membership(b: Builder, indices: Value, offsets: Value) -> Value:
    """Return the membership matrix [bags, n]; bag i spans the indices from offset i to offset i + 1."""
    starts, count = as_int64(b, offsets), b(Shape, indices)
    ends = b(Concat, cut(b, starts, 1, np.iinfo(np.int64).max, 0), count, axis=0)
    starts, ends = (b(Unsqueeze, each, [1]) for each in (starts, ends))
    every = counted(b, count)
    return b(And, b(GreaterOrEqual, every, starts), b(Less, every, ends))


def _sum_rows(
    b: Builder,
    table: Value,
    indices: Value,
    held: Value,
    default: Value | None,
    weights: Value | None,
    reduction: str,
) -> Value:
    """Reduce rows [n, *d] by the membership matrix [bags, n]; an empty bag gets the default row, or zeros."""
    if reduction not in ("sum", "mean"):
        message = f"bags reduced by {reduction}"
        raise UnsupportedError(message)
    dtype = dtype_of(table)
    rows = b(Reshape, b(Gather, table, as_index(b, indices)), b(Concat, b(Shape, indices), [-1], axis=0))
    shares = cast(b, held, dtype)
    found = b(MatMul, shares if weights is None else b(Mul, shares, weights), rows)
    sizes = b(ReduceSum, shares, [1])
    if reduction == "mean":
        found = b(Div, found, b(Max, sizes, 1))
    known = integers(default)
    if known is not None and len(known) != 1:
        message = f"the default index has {len(known)} elements, expected 1"
        raise ShapeError(message)
    if default is not None and (known is None or known[0] >= 0):
        place, zero = as_index(b, as_vector(b, default)), b.like(sizes, 0)
        own = b(Reshape, b(Gather, table, b(Max, place, 0)), [1, -1])
        # A negative default index selects zeros and may be known only at run time.
        own = b(Where, b(Less, place, 0), zero, own) if known is None else own
        found = b(Where, b(Equal, sizes, zero), own, found)
    count = b(Shape, held, start=0, end=1)
    return b(Reshape, found, b(Concat, count, b(Shape, table, start=1), axis=0))


RULES.having(held=_membership, counted=counted, bags=_sum_rows).lower("""
opset3.EmbeddingBagOffsetsSum, opset15.EmbeddingBagOffsets(table, indices, offsets, default=None, weights=None, *,
                                                           reduction="sum")
    -> bags(table, indices, held(indices, offsets), default, weights, reduction)
# An operand says which row belongs to which segment.
opset3.EmbeddingSegmentsSum(table, indices, segments, count, default=None, weights=None)
    -> held = Equal(as_int64(segments), Unsqueeze(counted(as_int64(count)), [1]));
       bags(table, indices, held, default, weights, "sum")
""")


@lower("openvino", "opset3.EmbeddingBagPackedSum")
@lower("openvino", "opset15.EmbeddingBagPacked")
def embedding_bag_packed(
    b: Builder, table: Value, indices: Value, weights: Value | None = None, *, reduction: str = "sum"
) -> Value:
    """Sum (or average) the rows of `table` selected by each bag; `indices` is [bags, bag size]."""
    rows = b(Gather, table, as_index(b, indices))
    if weights is not None:
        behind = list(range(2, len(b.dims(rows))))
        rows = b(Mul, rows, b(Unsqueeze, weights, behind) if behind else weights)
    return b(ReduceMean if reduction == "mean" else ReduceSum, rows, vector(b, [1]), keepdims=0)


@lower("openvino", "opset16.SegmentMax")
def segment_max(
    b: Builder, data: Value, segments: Value, count: Value | None = None, *, fill_mode: str = "zero"
) -> Value:
    """Return the maximum of the rows of each segment; empty segments are 0 or the lowest number of the dtype."""
    owners = as_int64(b, segments)
    behind_last = b(Add, b(Gather, owners, -1), index(b, 1)) if count is None else as_int64(b, count)
    total = as_scalar(b, behind_last)
    dtype = dtype_of(data)
    if not (dtype.is_floating or dtype.is_integer):
        message = f"a tensor of {dtype}, expected floats or integers"
        raise ShapeError(message)
    lowest = float(np.finfo(np.float16 if dtype is DType.FLOAT16 else np.float32).min)
    start = lowest if dtype.is_floating else int(np.iinfo(dtype.numpy).min)
    # ONNX Runtime has no float16 maximum here. Rows of segments out of range go to an extra last row.
    rows = cast(b, data, DType.FLOAT32) if dtype is DType.FLOAT16 else data
    shape = b(Concat, b(Reshape, b(Add, total, index(b, 1)), [1]), b(Shape, data, start=1), axis=0)
    indices = b(Unsqueeze, b(Min, owners, total), [1])
    found = b(ScatterND, b(Expand, b.like(rows, start), shape), indices, rows, reduction="max")
    asked = b(Reshape, total, [1])
    found = cast(b, b(Slice, found, [0], asked, [0]), dtype)
    if fill_mode != "zero":
        return found
    held = cast(b, b(Equal, owners, b(Unsqueeze, counted(b, total), [1])), DType.INT32)
    is_held = cast(b, b(ReduceMax, held, [1], keepdims=0), DType.BOOL)
    behind = list(range(1, len(b.dims(data))))
    mask = b(Unsqueeze, is_held, behind) if behind else is_held
    return b(Where, mask, found, 0)
