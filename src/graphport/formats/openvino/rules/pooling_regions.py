"""Poolings of regions in OpenVINO: of a map for each cell, by position; or of all maps, also between entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.decompositions.pooling_by_position import position_sensitive_mean
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Max, Mul, Sub
from graphport.ops.definitions.comparison import And, Greater, GreaterOrEqual, Less, LessOrEqual, Or, Where
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.pooling import MaxRoiPool
from graphport.ops.definitions.reduction import Einsum, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Unsqueeze
from graphport.ops.definitions.resize import GridSample
from graphport.ops.lowering.extents import extent, gather_index, joined
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, round_half_away, sizes, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("openvino", "opset2.ROIPooling")
def roi_pooling(
    b: Builder,
    x: Value,
    rois: Value,
    *,
    output_size: tuple[int, ...] = (),
    output_roi: tuple[int, ...] = (),
    pooled_h: int = 0,
    pooled_w: int = 0,
    spatial_scale: float,
    method: str = "max",
) -> Value:
    """ROI pooling: the maximum of each cell of a region, or bilinear samples at a grid."""
    del output_roi
    shape = (pooled_h, pooled_w) if pooled_h and pooled_w else output_size
    if method == "bilinear":
        return _bilinear(b, x, rois, shape)
    if method != "max":
        message = f"pooling of regions by {method}"
        raise UnsupportedError(message)
    return b(MaxRoiPool, x, rois, pooled_shape=shape, spatial_scale=spatial_scale)


def _bilinear(b: Builder, x: Value, rois: Value, shape: Sequence[int]) -> Value:
    """Sample regions, given in normalized coordinates, bilinearly at grid points."""
    own = b(Gather, x, cast(b, gather_index(b, rois, 0), DType.INT64), axis=0)
    size = joined(b, extent(b, rois, 0), *shape)
    sides: list[Value] = []
    outside: list[Value] = []
    for axis, count, place in ((3, shape[1], 1), (2, shape[0], 2)):
        last = b(Sub, cast(b, extent(b, x, axis), dtype_of(rois)), 1)
        first, end = (b(Unsqueeze, gather_index(b, rois, column), [1]) for column in (place, place + 2))
        steps = np.arange(count) / (count - 1) if count > 1 else np.full(1, 0.5)
        at = b(Mul, b(Add, first, b(Mul, b(Sub, end, first), b.like(rois, steps))), last)
        outside.append(b(Or, b(Less, at, 0), b(Greater, at, last)))
        spread = b(Sub, b(Div, b(Mul, at, 2), b(Max, last, 1)), 1)
        sides.append(b(Unsqueeze, spread, [1 if axis == 3 else 2]))
    grid = b(Concat, *(b(Unsqueeze, b(Expand, side, size), [3]) for side in sides), axis=3)
    found = b(GridSample, own, cast(b, grid, dtype_of(x)), mode="linear", padding_mode="border", align_corners=1)
    is_outside = b(Or, b(Unsqueeze, outside[0], [1]), b(Unsqueeze, outside[1], [2]))
    return b(Where, b(Unsqueeze, is_outside, [1]), 0, found)


def _map_of_each_cell(b: Builder, x: Value, maps: int, cells: int) -> tuple[int, int]:
    """Return height and width of `x`, after checking that it has maps * cells² channels.

    Raises:
        ShapeError: there are not as many as cells for each map that is made.
    """
    _, channels, height, width = sizes(b.dims(x, 4), "the pooled shape")
    if channels != maps * cells**2:
        message = f"{channels} feature maps, expected {maps} times {cells} by {cells}"
        raise ShapeError(message)
    return height, width


def _position_sensitive(b: Builder, x: Value, rois: Value, maps: int, cells: int, scale: float) -> Value:
    _map_of_each_cell(b, x, maps, cells)
    return position_sensitive_mean(b, x, rois, output_dim=maps, group_size=cells, spatial_scale=scale)


RULES.having(means=_position_sensitive).lower("""
# The mean of each cell of a region, of a map of its own for each cell; regions are given in pixels.
opset1.PSROIPooling(x, rois, *, output_dim, group_size, spatial_scale, mode="average", spatial_bins_x: ignored = 0,
                    spatial_bins_y: ignored = 0)
    -> mode == "average": means(x, rois, output_dim, group_size, spatial_scale)
""")


@lower("openvino", "opset1.DeformablePSROIPooling")
def deformable_pooling(
    b: Builder,
    x: Value,
    rois: Value,
    offsets: Value | None = None,
    *,
    output_dim: int,
    spatial_scale: float,
    group_size: int = 1,
    mode: str = "bilinear_deformable",
    spatial_bins_x: int = 1,
    spatial_bins_y: int = 1,
    trans_std: float = 1.0,
    part_size: int = 1,
) -> Value:
    """Deformable position-sensitive ROI pooling: the mean of bilinear samples of each cell, from the cell's own map.

    Samples are on a grid of `spatial_bins_x` by `spatial_bins_y` from the cell's first corner; those outside the map do
    not count. Offsets move cells by fractions of the region's size.

    Source: OpenVINO DeformablePSROIPooling-1.
    """
    if mode != "bilinear_deformable":
        message = f"deformable region pooling of mode {mode!r}"
        raise UnsupportedError(message)
    height, width = _map_of_each_cell(b, x, output_dim, group_size)
    owners = cast(b, gather_index(b, rois, 0), DType.INT64)
    zero = b.like(owners, 0)
    own = b(Gather, x, b(Max, owners, zero), axis=0)
    parts = reshaped(b, own, [-1, output_dim, group_size, group_size, height, width])
    moves = None if offsets is None else _moves(b, offsets, output_dim, group_size, trans_std, part_size)
    sides = (
        _side(b, rois, moves, 1, (group_size, spatial_bins_y, height), spatial_scale),
        _side(b, rois, moves, 0, (group_size, spatial_bins_x, width), spatial_scale),
    )
    rows, columns = (shares for shares, _ in sides)
    total = b(Einsum, parts, cast(b, rows, dtype_of(x)), cast(b, columns, dtype_of(x)), equation=_SUM)
    counts = cast(b, b(Mul, sides[0][1], sides[1][1]), dtype_of(x))
    one, none = b.like(x, 1), b.like(x, 0)
    mean = b(Div, total, b(Max, counts, one))
    return b(Where, b(Less, b(Unsqueeze, owners, [1, 2, 3]), zero), none, mean)


_SUM = "rcijhw,rcijh,rcijw->rcij"


def _moves(b: Builder, offsets: Value, maps: int, cells: int, factor: float, parts: int) -> Value:
    """Return the offset of each cell: [r, 2 * classes, parts, parts] to [r, maps, 2, cells, cells], times `factor`."""
    _, pairs, *_ = sizes(b.dims(offsets, at_least=2), "the shape of offsets")
    classes = pairs // 2
    if classes < 1 or maps % classes:
        message = f"the offsets have {classes} classes, which do not divide {maps} feature maps"
        raise ShapeError(message)
    indices = np.arange(cells) * parts // cells
    found = reshaped(b, offsets, [-1, classes, 2, parts, parts])
    for axis in (3, 4):
        found = b(Gather, found, b.constant(indices), axis=axis)
    found = b(Gather, found, b.constant(np.arange(maps) // (maps // classes)), axis=1)
    return b(Mul, found, factor)


def _side(
    b: Builder, rois: Value, moves: Value | None, place: int, counts: tuple[int, int, int], scale: float
) -> tuple[Value, Value]:
    """Return, for one axis of each cell, the weights of the elements in the sum of samples, and the number of samples.

    `place` is 0 for x and 1 for y; `counts` are the numbers of cells, of samples per cell, and of elements.
    """
    cells, points, length = counts
    half, factor = b.like(rois, 0.5), b.like(rois, scale)
    behind = vector(b, [1, 2, 3, 4])
    first = b(Sub, b(Mul, round_half_away(b, gather_index(b, rois, 1 + place)), factor), half)
    last = b(Sub, b(Mul, b(Add, round_half_away(b, gather_index(b, rois, 3 + place)), 1), factor), half)
    size = b(Unsqueeze, b(Max, b(Sub, last, first), 0.1), behind)
    cell = b(Div, size, b.like(rois, cells))
    shape = (1, 1, cells, 1, 1) if place else (1, 1, 1, cells, 1)
    begin = b(Add, b(Unsqueeze, first, behind), b(Mul, b.like(rois, np.arange(cells).reshape(shape)), cell))
    if moves is not None:
        moved = b(Unsqueeze, b(Gather, moves, place, axis=2), [4])
        begin = b(Add, begin, b(Mul, cast(b, moved, dtype_of(rois)), size))
    step = b(Div, cell, b.like(rois, points))
    at = b(Add, begin, b(Mul, b.like(rois, np.arange(points)), step))
    counted = b(And, b(GreaterOrEqual, at, -0.5), b(LessOrEqual, at, b.like(rois, length - 0.5)))
    counted = cast(b, counted, dtype_of(rois))
    held = b(Unsqueeze, b(Clip, at, b.like(rois, 0), b.like(rois, length - 1)), [5])
    near = b(Sub, b.like(rois, 1), b(Abs, b(Sub, held, b.like(rois, np.arange(reserve(length))))))
    shares = b(Mul, b(Max, near, 0), b(Unsqueeze, counted, [5]))
    return b(ReduceSum, shares, [4], keepdims=0), b(ReduceSum, counted, [4], keepdims=0)
