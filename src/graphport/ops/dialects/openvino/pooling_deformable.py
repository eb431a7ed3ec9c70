"""Poolings of regions by position whose cells are moved, in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.dialects.extents import entry
from graphport.ops.dialects.operands import cast, dtype_of, index, reshaped, sizes, vector
from graphport.ops.pages.activation import Clip
from graphport.ops.pages.arithmetic import Abs, Add, Div, Floor, Max, Mul, Sign, Sub
from graphport.ops.pages.comparison import And, GreaterOrEqual, Less, LessOrEqual, Where
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.reduction import Einsum, ReduceSum
from graphport.ops.pages.reshape import Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


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
    """The mean between entries at points of each cell of a region, of a map of its own for each cell.

    Points lie on a grid of `spatial_bins_x` by `spatial_bins_y` from the cell's first corner on; those beyond the map
    do not count. Offsets move cells by shares of the region's size.

    Source: OpenVINO DeformablePSROIPooling-1.
    """
    if mode != "bilinear_deformable":
        message = f"pooling of moved regions of mode {mode!r}"
        raise UnsupportedError(message)
    _, channels, height, width = sizes(b.dims(x), "the shape that is pooled")
    if channels != output_dim * group_size**2:
        message = f"{channels} maps for {output_dim} times {group_size} by {group_size} cells"
        raise ShapeError(message)
    owners = cast(b, entry(b, rois, 0), DType.INT64)
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
    return b(Where, b(Less, b(Unsqueeze, owners, vector(b, [1, 2, 3])), zero), none, mean)


_SUM = "rcijhw,rcijh,rcijw->rcij"


def _moves(b: Builder, offsets: Value, maps: int, cells: int, factor: float, parts: int) -> Value:
    """Offsets [r, 2 * classes, parts, parts] of each cell of each map: [r, maps, 2, cells, cells]."""
    _, pairs, *_ = sizes(b.dims(offsets), "the shape of offsets")
    classes = pairs // 2
    if classes < 1 or maps % classes:
        message = f"offsets of {classes} classes for {maps} maps"
        raise ShapeError(message)
    places = np.arange(cells) * parts // cells
    found = reshaped(b, offsets, [-1, classes, 2, parts, parts])
    for axis in (3, 4):
        found = b(Gather, found, b.constant(places), axis=axis)
    found = b(Gather, found, b.constant(np.arange(maps) // (maps // classes)), axis=1)
    return b(Mul, found, b.like(found, factor))


def _side(
    b: Builder, rois: Value, moves: Value | None, place: int, counts: tuple[int, int, int], scale: float
) -> tuple[Value, Value]:
    """One axis of each cell: shares of its entries in the sum over points, and how many points count.

    `place` is 0 across and 1 down; `counts` are those of cells, of points of a cell, and of entries.
    """
    cells, points, length = counts
    half, factor = b.like(rois, 0.5), b.like(rois, scale)
    behind = vector(b, [1, 2, 3, 4])
    first = b(Sub, b(Mul, _rounded(b, entry(b, rois, 1 + place)), factor), half)
    last = b(Sub, b(Mul, b(Add, _rounded(b, entry(b, rois, 3 + place)), b.like(rois, 1)), factor), half)
    size = b(Unsqueeze, b(Max, b(Sub, last, first), b.like(rois, 0.1)), behind)
    cell = b(Div, size, b.like(rois, cells))
    shape = (1, 1, cells, 1, 1) if place else (1, 1, 1, cells, 1)
    begin = b(Add, b(Unsqueeze, first, behind), b(Mul, b.like(rois, np.arange(cells).reshape(shape)), cell))
    if moves is not None:
        moved = b(Unsqueeze, b(Gather, moves, index(b, place), axis=2), vector(b, [4]))
        begin = b(Add, begin, b(Mul, cast(b, moved, dtype_of(rois)), size))
    step = b(Div, cell, b.like(rois, points))
    at = b(Add, begin, b(Mul, b.like(rois, np.arange(points)), step))
    counted = b(And, b(GreaterOrEqual, at, b.like(rois, -0.5)), b(LessOrEqual, at, b.like(rois, length - 0.5)))
    counted = cast(b, counted, dtype_of(rois))
    held = b(Unsqueeze, b(Clip, at, b.like(rois, 0), b.like(rois, length - 1)), vector(b, [5]))
    near = b(Sub, b.like(rois, 1), b(Abs, b(Sub, held, b.like(rois, np.arange(reserve(length))))))
    shares = b(Mul, b(Max, near, b.like(rois, 0)), b(Unsqueeze, counted, vector(b, [5])))
    return b(ReduceSum, shares, vector(b, [4]), keepdims=0), b(ReduceSum, counted, vector(b, [4]), keepdims=0)


def _rounded(b: Builder, x: Value) -> Value:
    """The nearest integers, halves away from zero."""
    return b(Mul, b(Sign, x), b(Floor, b(Add, b(Abs, x), b.like(x, 0.5))))
