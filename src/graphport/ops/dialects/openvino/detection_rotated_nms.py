"""Regions at an angle in OpenVINO, as grids of cells: ROIAlignRotated."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.dialects.extents import counted, entry, extent, joined
from graphport.ops.dialects.openvino.detection import RegionGrid
from graphport.ops.dialects.operands import as_int64, cast, dtype_of, vector
from graphport.ops.pages.arithmetic import Add, Ceil, Cos, Div, Max, Mul, Neg, Sin, Sub
from graphport.ops.pages.comparison import Less, Where
from graphport.ops.pages.detection import RoiAlign
from graphport.ops.pages.reduction import ReduceMax, ReduceMean, ReduceSum
from graphport.ops.pages.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Points: TypeAlias = "tuple[Value, Value | None]"
"""Where samples lie along one side of a region, from its middle [r, cells, samples], and how many count [r, 1, 1]."""

_MOST = 1 << 24
"""Samples of one region; tables of them are made when the model is read."""


@RegionGrid.lower("openvino", "opset15.ROIAlignRotated")
def roi_align_rotated(
    b: Builder, op: RegionGrid, x: Value, rois: Value, batches: Value, *, clockwise_mode: bool = False
) -> Value:
    """Each region (middle, width, height, angle) as a grid of cells, with the mean of what is sampled in them.

    A sample is what a region without extent is at its place: so points are turned, and `RoiAlign` interpolates.

    Source: OpenVINO ROIAlignRotated-15.
    """
    _checked(b.dims(rois), (op.pooled_h, op.pooled_w), op.sampling_ratio)
    dtype = dtype_of(x)
    wide = dtype if dtype is DType.FLOAT64 else DType.FLOAT32
    data, given = cast(b, x, wide), cast(b, rois, wide)
    scale = b.like(given, op.spatial_scale)
    column, line, width, height = (b(Mul, entry(b, given, place), scale) for place in range(4))
    down = _points(b, height, op.pooled_h, op.sampling_ratio)
    across = _points(b, width, op.pooled_w, op.sampling_ratio)
    angle = entry(b, given, 4)
    boxes = _rotated(b, down[0], across[0], (line, column), b(Neg, angle) if clockwise_mode else angle)
    grid = b(Shape, boxes, start=0, end=5)
    owners = b(Expand, _behind(b, as_int64(b, batches), 4), grid)
    found = b(
        RoiAlign,
        data,
        b(Reshape, boxes, vector(b, [-1, 4])),
        b(Reshape, owners, vector(b, [-1])),
        coordinate_transformation_mode="half_pixel",
        mode="avg",
        output_height=1,
        output_width=1,
        sampling_ratio=1,
        spatial_scale=1.0,
    )
    cells = b(Reshape, found, joined(b, grid, extent(b, x, 1)))
    return cast(b, b(Transpose, _averaged(b, cells, down[1], across[1]), perm=(0, 3, 1, 2)), dtype)


def _checked(regions: Sequence[Dim], cells: tuple[int, int], ratio: int) -> None:
    """Tell what is no region, no cell or no number of samples, and what is too much for any memory."""
    if len(regions) != 2 or (isinstance(regions[1], int) and regions[1] != 5):
        message = f"regions of shape {list(regions)}, where each has five numbers"
        raise ShapeError(message)
    if min(cells) < 1 or ratio < 0:
        message = f"{cells[0]} by {cells[1]} cells of {ratio} samples"
        raise ShapeError(message)
    if prod(cells) * max(ratio, 1) ** 2 > _MOST:
        message = f"more than {_MOST} samples of a region"
        raise UnsupportedError(message)


def _behind(b: Builder, x: Value, count: int) -> Value:
    """`x` [r] with axes of one entry behind it."""
    return b(Unsqueeze, x, vector(b, list(range(1, count + 1))))


def _points(b: Builder, size: Value, cells: int, ratio: int) -> Points:
    """The samples along a side of length `size` [r]; a ratio of 0 asks for one for each entry, or part of one."""
    side = _behind(b, size, 2)
    cell = b(Div, side, b.like(size, cells))
    number = None if ratio else b(Ceil, cell)
    if number is None:
        every, step = b.like(size, np.arange(ratio)), b(Div, cell, b.like(size, ratio))
    else:
        # The most that a region asks for, and one where there are no regions.
        known = b(Concat, b(Reshape, number, vector(b, [-1])), b.like(size, np.ones(1)), axis=0)
        most = as_int64(b, b(ReduceMax, known, vector(b, [0])))
        every, step = cast(b, counted(b, most), dtype_of(size)), b(Div, cell, b(Max, number, b.like(size, 1)))
    first = b(Div, b(Neg, side), b.like(size, 2))
    begin = b(Add, first, b(Mul, b.like(size, np.arange(cells).reshape(-1, 1)), cell))
    return b(Add, begin, b(Mul, step, b(Add, every, b.like(size, 0.5)))), number


def _rotated(b: Builder, down: Value, across: Value, middle: tuple[Value, Value], angle: Value) -> Value:
    """Boxes without extent [r, cells, samples, cells, samples, 4] at points that are turned around a middle.

    `RoiAlign` takes half a pixel away, as OpenVINO does of the middle.
    """
    y, x = b(Unsqueeze, down, vector(b, [3, 4])), b(Unsqueeze, across, vector(b, [1, 2]))
    sine, cosine = (_behind(b, b(page, angle), 4) for page in (Sin, Cos))
    line, column = (_behind(b, part, 4) for part in middle)
    rows = b(Add, b(Sub, b(Mul, y, cosine), b(Mul, x, sine)), line)
    columns = b(Add, b(Add, b(Mul, y, sine), b(Mul, x, cosine)), column)
    sides = [b(Unsqueeze, part, vector(b, [5])) for part in (columns, rows)]
    return b(Concat, *sides, *sides, axis=5)


def _averaged(b: Builder, found: Value, down: Value | None, across: Value | None) -> Value:
    """Means [r, cells, cells, c] of samples [r, cells, samples, cells, samples, c] that count."""
    axes = vector(b, [2, 4])
    if down is None or across is None:
        return b(ReduceMean, found, axes, keepdims=0)
    one = b.like(down, 1)
    for number, axis in ((down, 2), (across, 4)):
        shape = [1, 1, 1, 1, 1, 1]
        shape[axis] = -1
        every = b(Reshape, cast(b, counted(b, extent(b, found, axis)), dtype_of(number)), vector(b, shape))
        is_asked = b(Less, every, b(Unsqueeze, number, vector(b, [3, 4, 5])))
        found = b(Where, is_asked, found, b.like(found, 0))
    count = b(Max, b(Mul, down, across), one)
    return b(Div, b(ReduceSum, found, axes, keepdims=0), b(Unsqueeze, count, vector(b, [3])))
