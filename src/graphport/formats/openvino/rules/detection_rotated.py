"""Rotated boxes in OpenVINO: non-maximum suppression and ROI Align."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.detection import RegionGrid
from graphport.formats.openvino.rules.detection_boxes import (
    LOWEST,
    Greedy,
    best,
    grouped,
    narrowed,
    rows_of,
    selected_boxes,
)
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Add, Ceil, Cos, Div, Max, Min, Mul, Neg, Sin, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, Less, LessOrEqual, Where
from graphport.ops.definitions.detection import RoiAlign
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reduction import CumSum, ReduceMax, ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.extents import counted, cut, extent, gather_index, joined
from graphport.ops.lowering.operands import as_int64, as_vector, cast, dtype_of, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef


_CLOSE = 1e-5
"""Edges closer than this fraction of a box are collinear."""


@lower("openvino", "opset13.NMSRotated")
def rotated_suppression(
    b: Builder,
    boxes: Value,
    scores: Value,
    most: Value,
    overlap: Value,
    least: Value,
    *,
    sort_result_descending: bool = True,
    output_type: DType = DType.INT64,
    clockwise: bool = True,
) -> tuple[Value, ...]:
    """Rotated NMS: rows of batch, class and box index; the same with scores; their number."""
    dtype = dtype_of(scores)
    marks = cast(b, scores, DType.FLOAT32)
    found, indices = best(b, marks)
    floor = cast(b, least, DType.FLOAT32)
    usable, found, indices = narrowed(b, b(Greater, found, floor), found, indices)
    corners = _corners(b, cast(b, boxes, DType.FLOAT32), clockwise=clockwise)
    table = b(Expand, b(Unsqueeze, corners, [1]), joined(b, b(Shape, scores), 9))
    candidates = rows_of(b, grouped(b, table, 2), grouped(b, indices, 1))
    limit = b(Reshape, cast(b, overlap, DType.FLOAT32), [])
    kept = Greedy(RotatedOverlap(), limit)(b, candidates, cast(b, grouped(b, usable, 1), DType.FLOAT32))
    ranks = b(CumSum, kept, 1)
    allowed = cast(b, as_vector(b, most), DType.FLOAT32)
    is_kept = b(And, b(Greater, kept, 0), b(LessOrEqual, ranks, allowed))
    found = b(Where, b(Reshape, is_kept, b(Shape, indices)), found, b.like(found, LOWEST))
    return selected_boxes(b, found, indices, dtype, output_type, is_sorted=sort_result_descending)


def _corners(b: Builder, boxes: Value, *, clockwise: bool) -> Value:
    """Return the corners (4 x, then 4 y), in order around the box, and the area: [..., 9]."""
    x, y, w, h, angle = (gather_index(b, boxes, place) for place in range(5))
    angle = angle if clockwise else b(Neg, angle)
    half = b.like(boxes, 0.5)
    c, s = b(Mul, b(Cos, angle), half), b(Mul, b(Sin, angle), half)
    along = [b(Mul, c, w), b(Mul, s, w)]
    across = [b(Neg, b(Mul, s, h)), b(Mul, c, h)]
    parts: list[Value] = []
    for axis, middle in enumerate((x, y)):
        plus, minus = b(Add, along[axis], across[axis]), b(Sub, along[axis], across[axis])
        parts += [b(Add, middle, plus), b(Sub, middle, minus), b(Sub, middle, plus), b(Add, middle, minus)]
    return b(Concat, *(b(Unsqueeze, part, [-1]) for part in (*parts, b(Mul, w, h))), axis=-1)


class RotatedOverlap:
    """Overlap of rotated boxes given as four corners and an area [..., 9]."""

    def area(self, b: Builder, boxes: Value) -> Value:
        """Return the area, the last element of each box."""
        return gather_index(b, boxes, 8)

    def __call__(self, b: Builder, one: Value, own: Value, other: Value, others: Value) -> Value:
        """Intersection area of two boxes by Green's theorem over the edge parts inside the other box.

        An edge collinear with one of the other box counts once, as one of `one`.
        """
        zero = b.like(one, 0)
        origin = [cut(b, one, 0, 1, -1), cut(b, one, 4, 5, -1)]
        first, second = (
            [b(Sub, cut(b, box, 4 * axis, 4 * axis + 4, -1), origin[axis]) for axis in (0, 1)] for box in (one, other)
        )
        swept = b(Add, self._swept(b, first, second, others, 1), self._swept(b, second, first, own, -1))
        shared = b(Max, b(Mul, swept, 0.5), zero)
        found = b(Div, shared, b(Sub, b(Add, own, others), shared))
        has_area = b(And, b(Greater, own, zero), b(Greater, others, zero))
        return b(Where, has_area, found, zero)

    def _swept(self, b: Builder, edges: list[Value], sides: list[Value], area: Value, sign: int) -> Value:
        """Sum the cross products of the edge parts inside the other box."""
        after = vector(b, [1, 2, 3, 0])
        column, row = vector(b, [-1]), vector(b, [-2])
        steps = [b(Sub, b(Gather, each, after, axis=-1), each) for each in edges]
        walls = [b(Sub, b(Gather, each, after, axis=-1), each) for each in sides]
        px, py, dx, dy = (b(Unsqueeze, each, column) for each in (*edges, *steps))
        qx, qy, ex, ey = (b(Unsqueeze, each, row) for each in (*sides, *walls))
        near = b(Mul, b(Unsqueeze, area, [-1, -2]), sign * _CLOSE)
        # Inside is to the left of a wall: how far a corner is from it, and how much nearer the next one.
        far = b(Add, b(Sub, b(Mul, ex, b(Sub, py, qy)), b(Mul, ey, b(Sub, px, qx))), near)
        rise = b(Sub, b(Mul, ex, dy), b(Mul, ey, dx))
        zero, one = b.like(area, 0), b.like(area, 1)
        is_level = b(Equal, rise, zero)
        at = b(Div, b(Neg, far), b(Where, is_level, one, rise))
        is_out = b(And, is_level, b(Less, far, zero))
        enters = b(Where, b(Greater, rise, zero), at, b(Where, is_out, one, zero))
        leaves = b(Where, b(Less, rise, zero), at, b(Where, is_out, zero, one))
        starts = b(Max, _folded(b, Max, enters), zero)
        stops = b(Min, _folded(b, Min, leaves), one)
        part = b(Max, b(Sub, stops, starts), zero)
        cross_products = b(Sub, b(Mul, edges[0], steps[1]), b(Mul, edges[1], steps[0]))
        return b(ReduceSum, b(Mul, part, cross_products), column, keepdims=0)


def _folded(b: Builder, op_def: OpDef, x: Value) -> Value:
    """Reduce the four entries of the last axis by a variadic operator (Max or Min)."""
    parts = [gather_index(b, x, place) for place in range(4)]
    return b(op_def, *parts)


Points: TypeAlias = "tuple[Value, Value | None]"
"""Where samples lie along one side of a region, from its middle [r, cells, samples], and how many count [r, 1, 1]."""

_MOST = 1 << 24
"""Samples per region; index tables are computed at import."""


@RegionGrid.lower("openvino", "opset15.ROIAlignRotated")
def roi_align_rotated(
    b: Builder, op: RegionGrid, x: Value, rois: Value, batches: Value, *, clockwise_mode: bool = False
) -> Value:
    """ROI Align of rotated regions (center, width, height, angle): mean of bilinear samples in each cell.

    Each sample is a RoiAlign region of size 0 at a rotated point.

    Source: OpenVINO ROIAlignRotated-15.
    """
    _checked(b.dims(rois), (op.pooled_h, op.pooled_w), op.sampling_ratio)
    dtype = dtype_of(x)
    wide = dtype if dtype is DType.FLOAT64 else DType.FLOAT32
    data, given = cast(b, x, wide), cast(b, rois, wide)
    scale = b.like(given, op.spatial_scale)
    column, line, width, height = (b(Mul, gather_index(b, given, place), scale) for place in range(4))
    down = _points(b, height, op.pooled_h, op.sampling_ratio)
    across = _points(b, width, op.pooled_w, op.sampling_ratio)
    angle = gather_index(b, given, 4)
    boxes = _rotated(b, down[0], across[0], (line, column), b(Neg, angle) if clockwise_mode else angle)
    grid = b(Shape, boxes, start=0, end=5)
    owners = b(Expand, _append_axes(b, as_int64(b, batches), 4), grid)
    found = b(
        RoiAlign,
        data,
        b(Reshape, boxes, [-1, 4]),
        b(Reshape, owners, [-1]),
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
    """Refuse invalid shapes of regions, cells and sampling ratios, and too many samples."""
    if len(regions) != 2 or (isinstance(regions[1], int) and regions[1] != 5):
        message = f"regions have shape {list(regions)}, expected [N, 5]"
        raise ShapeError(message)
    if min(cells) < 1 or ratio < 0:
        message = (
            f"{cells[0]} by {cells[1]} cells with {ratio} samples each, expected positive cells and at least 0 samples"
        )
        raise ShapeError(message)
    if prod(cells) * max(ratio, 1) ** 2 > _MOST:
        message = f"more than {_MOST} samples of a region"
        raise UnsupportedError(message)


def _append_axes(b: Builder, x: Value, count: int) -> Value:
    """Append `count` axes of length 1 to `x` [r]."""
    return b(Unsqueeze, x, list(range(1, count + 1)))


def _points(b: Builder, size: Value, cells: int, ratio: int) -> Points:
    """Sample positions along a side of length `size` [r]; a ratio of 0 takes one sample per element."""
    side = _append_axes(b, size, 2)
    cell = b(Div, side, cells)
    number = None if ratio else b(Ceil, cell)
    if number is None:
        every, step = b.like(size, np.arange(ratio)), b(Div, cell, ratio)
    else:
        # The maximum over all regions; 1 if there are no regions.
        known = b(Concat, b(Reshape, number, [-1]), b.like(size, np.ones(1)), axis=0)
        most = as_int64(b, b(ReduceMax, known, [0]))
        every, step = cast(b, counted(b, most), dtype_of(size)), b(Div, cell, b(Max, number, 1))
    first = b(Div, b(Neg, side), 2)
    begin = b(Add, first, b(Mul, b.like(size, np.arange(cells).reshape(-1, 1)), cell))
    return b(Add, begin, b(Mul, step, b(Add, every, 0.5))), number


def _rotated(b: Builder, down: Value, across: Value, middle: tuple[Value, Value], angle: Value) -> Value:
    """Return regions of size 0 [r, cells, samples, cells, samples, 4] at points rotated around the centers.

    `RoiAlign` subtracts half a pixel, like OpenVINO from the center.
    """
    y, x = b(Unsqueeze, down, [3, 4]), b(Unsqueeze, across, [1, 2])
    sine, cosine = (_append_axes(b, b(op_def, angle), 4) for op_def in (Sin, Cos))
    line, column = (_append_axes(b, part, 4) for part in middle)
    rows = b(Add, b(Sub, b(Mul, y, cosine), b(Mul, x, sine)), line)
    columns = b(Add, b(Add, b(Mul, y, sine), b(Mul, x, cosine)), column)
    sides = [b(Unsqueeze, part, [5]) for part in (columns, rows)]
    return b(Concat, *sides, *sides, axis=5)


def _averaged(b: Builder, found: Value, down: Value | None, across: Value | None) -> Value:
    """Average `down` x `across` samples per cell: [r, cells, samples, cells, samples, c] to [r, cells, cells, c]."""
    axes = vector(b, [2, 4])
    if down is None or across is None:
        return b(ReduceMean, found, axes, keepdims=0)
    one = b.like(down, 1)
    for number, axis in ((down, 2), (across, 4)):
        shape = [1, 1, 1, 1, 1, 1]
        shape[axis] = -1
        every = b(Reshape, cast(b, counted(b, extent(b, found, axis)), dtype_of(number)), shape)
        is_asked = b(Less, every, b(Unsqueeze, number, [3, 4, 5]))
        found = b(Where, is_asked, found, 0)
    count = b(Max, b(Mul, down, across), one)
    return b(Div, b(ReduceSum, found, axes, keepdims=0), b(Unsqueeze, count, [3]))
