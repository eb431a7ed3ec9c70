"""Regions of an image, sampled between its pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import same_dim
from graphport.ops.special_functions import widened
from graphport.ops.types import FLOATS, INT64, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.detection import RoiAlignView

T1 = Annotated[Tensor, Types("T1", FLOATS)]
T2 = Annotated[Tensor, Types("T2", INT64)]


@viewed
def _roi_align_shape(op: RoiAlignView[TensorFact]) -> TensorFact:
    if op.mode not in ("avg", "max") or op.coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        message = f"mode is {op.mode!r}, coordinate_transformation_mode {op.coordinate_transformation_mode!r}"
        raise ShapeError(message, "avg or max; half_pixel or output_half_pixel")
    if min(op.output_height, op.output_width) < 1 or op.sampling_ratio < 0:
        message = f"the output is {op.output_height} by {op.output_width}, sampling_ratio {op.sampling_ratio}"
        raise ShapeError(message, "sizes are positive, a sampling_ratio of 0 adapts to the region")
    for name, fact, rank in (("X", op.x, 4), ("rois", op.rois, 2), ("batch_indices", op.batch_indices, 1)):
        if fact.shape is not None and fact.rank != rank:
            message = f"{name} has rank {fact.rank}, {rank} is needed"
            raise ShapeError(message)
    count = OPEN
    if op.rois.shape is not None:
        same_dim(4, op.rois.dims[1], "numbers that describe a region")
        count = op.rois.dims[0]
    if op.batch_indices.shape is not None:
        images = op.batch_indices.dims[0]
        count = images if count is OPEN else same_dim(count, images, "number of regions")
    channels = OPEN if op.x.shape is None else op.x.dims[1]
    return op.x.with_shape((count, channels, op.output_height, op.output_width))


@op(
    shape=_roi_align_shape,
    since=16,
    exactness="accumulation",
    role="pointwise",
    index_operands=("batch_indices",),
    ranks={"x": 4, "rois": 2, "batch_indices": 1},
)
def RoiAlign(
    x: T1,
    rois: T1,
    batch_indices: T2,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> T1:
    """Pool each region of interest to a grid; a cell is the mean (or maximum) of bilinearly interpolated samples.

    Each sample is interpolated from four pixels. `sampling_ratio` samples lie along each side of a cell, about one per
    pixel if it is 0. In `max` mode a cell is the largest weighted pixel, not the largest sample. With `half_pixel`
    pixel centres have half-integer coordinates; without it a region is at least one pixel long.

    Shapes: x [N, C, H, W], rois [R, 4] as x1, y1, x2, y2 times `spatial_scale`, batch_indices [R] →
    [R, C, output_height, output_width].

    Raises:
        ShapeError: an unknown mode, a wrong rank, or different numbers of regions.

    Source: ONNX RoiAlign-22.
    """
    wide = widened(x)
    number = wide.dtype.type
    shift = number(0.5 if coordinate_transformation_mode == "half_pixel" else 0)
    corners = widened(rois) * number(spatial_scale) - shift
    y = np.zeros((len(rois), x.shape[1], output_height, output_width), wide.dtype)
    for place, (left, top, right, bottom) in enumerate(corners):
        sides = bottom - top, right - left
        if not shift:
            sides = max(sides[0], number(1)), max(sides[1], number(1))
        rows = _Points.along(top, sides[0], output_height, sampling_ratio, x.shape[2])
        columns = _Points.along(left, sides[1], output_width, sampling_ratio, x.shape[3])
        if rows.low.size and columns.low.size:
            y[place] = _cells(wide[int(batch_indices[place])], rows, columns, mode, (output_height, output_width))
    return y.astype(x.dtype)


class _Points(NamedTuple):
    """Sampling points along one axis: the two neighbouring pixels of each point, and their interpolation weights."""

    low: Tensor
    high: Tensor
    below: Tensor
    above: Tensor

    @classmethod
    def along(cls, start: np.generic, side: np.generic, cells: int, ratio: int, length: int) -> _Points:
        """Return the sampling points of all cells along one axis; points outside the image get weight 0."""
        number = side.dtype.type
        cell = side / number(cells)
        each = ratio or max(int(np.ceil(cell)), 0)
        points = start + (np.arange(cells * each).astype(side.dtype) + number(0.5)) * (cell / number(max(each, 1)))
        is_inside = (points >= -1) & (points <= length)
        points = np.maximum(points, 0)
        low = np.minimum(np.where(is_inside, points, 0).astype(np.int64), length - 1)
        high = np.minimum(low + 1, length - 1)
        fraction = np.where(low >= length - 1, 0, points - low).astype(side.dtype)
        return cls(low, high, np.where(is_inside, 1 - fraction, 0), np.where(is_inside, fraction, 0))


def _cells(image: Tensor, rows: _Points, columns: _Points, mode: str, shape: tuple[int, int]) -> Tensor:
    """Pool the samples of one region to its grid: [C, *shape]."""
    corners = [
        image[:, y[:, None], x] * (p[:, None] * q)
        for y, p in ((rows.low, rows.below), (rows.high, rows.above))
        for x, q in ((columns.low, columns.below), (columns.high, columns.above))
    ]
    cells = (image.shape[0], shape[0], -1, shape[1], len(columns.low) // shape[1])
    if mode == "max":
        return np.max(np.max(corners, 0).reshape(cells), (2, 4))
    return np.mean(np.sum(corners, 0).reshape(cells), (2, 4))
