"""Position-sensitive region pooling, which several formats have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.ops.definitions.arithmetic import Add, Ceil, Div, Floor, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import And, GreaterOrEqual, Less
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reduction import Einsum, ReduceSum
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def position_sensitive_mean(
    b: Builder, x: Value, rois: Value, *, output_dim: int, group_size: int, spatial_scale: float
) -> Value:
    """Average each cell of a region over the channel map of that cell.

    Shapes: x [n, output_dim * group_size ** 2, h, w]; rois [r, 5], each a batch index and two corners in image
    coordinates, which `spatial_scale` maps to x; the result [r, output_dim, group_size, group_size].
    """
    *_, height, width = sizes(b.dims(x), "the shape that is pooled")
    owners = cast(b, _column(b, rois, 0), DType.INT64)
    own = b(Gather, x, owners, axis=0)
    parts = reshaped(b, own, [-1, output_dim, group_size, group_size, height, width])
    rows = _cells(b, rois, 2, group_size, spatial_scale, height)
    columns = _cells(b, rois, 1, group_size, spatial_scale, width)
    total = b(Einsum, parts, rows, columns, equation="rcijhw,rih,rjw->rcij")
    one = b.like(x, 1)
    counts = [b(Max, b(ReduceSum, side, [2], keepdims=0), one) for side in (rows, columns)]
    area = b(Mul, b(Unsqueeze, counts[0], [1, 3]), b(Unsqueeze, counts[1], [1, 2]))
    return b(Div, total, area)


def _column(b: Builder, rois: Value, place: int) -> Value:
    return b(Gather, rois, place, axis=1)


def _cells(b: Builder, rois: Value, first: int, count: int, scale: float, length: int) -> Value:
    """Return a 0/1 mask of the indices that each cell of each region covers: [regions, cells, length]."""
    dtype = dtype_of(rois)
    half, factor, one = b.like(rois, 0.5), b.like(rois, scale), b.like(rois, 1)
    begin = b(Mul, b(Floor, b(Add, _column(b, rois, first), half)), factor)
    end = b(Mul, b(Add, b(Floor, b(Add, _column(b, rois, first + 2), half)), one), factor)
    cell = b(Div, b(Max, b(Sub, end, begin), 0.1), count)
    steps = b.constant(np.arange(reserve(count)).astype(dtype.numpy), dtype)
    behind = vector(b, [1])
    starts = b(Floor, b(Add, b(Mul, steps, b(Unsqueeze, cell, behind)), b(Unsqueeze, begin, behind)))
    stops = b(Ceil, b(Add, b(Mul, b(Add, steps, one), b(Unsqueeze, cell, behind)), b(Unsqueeze, begin, behind)))
    low, high = b.like(rois, 0), b.like(rois, length)
    ends = [b(Unsqueeze, b(Min, b(Max, side, low), high), [2]) for side in (starts, stops)]
    every = b.constant(np.arange(reserve(length)).astype(dtype.numpy), dtype)
    return cast(b, b(And, b(GreaterOrEqual, every, ends[0]), b(Less, every, ends[1])), dtype)
