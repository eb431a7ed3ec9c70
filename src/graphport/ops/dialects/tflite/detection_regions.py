"""Regions of images in TFLite: what each pixel weighs in each cell, by rows and by columns, as two matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.operands import cast, dtype_of, reshaped, sizes, transposed, vector
from graphport.ops.pages.activation import Relu
from graphport.ops.pages.arithmetic import Abs, Add, Max, Min, Mul, Sub
from graphport.ops.pages.comparison import And, LessOrEqual
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.matmul import MatMul
from graphport.ops.pages.reduction import ReduceMean
from graphport.ops.pages.reshape import Unsqueeze
from graphport.ops.views.detection import RoiAlignView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"


@RoiAlignView.lift("tflite")
def lift_roi_align(b: Builder, op: RoiAlignView) -> Lifted:
    """Means of points in cells, each of which mixes four pixels: rows times the image times columns."""
    if op.mode != "avg" or not op.sampling_ratio:
        message = "the largest pixel of a cell" if op.mode != "avg" else "as many points as the region has pixels"
        raise UnsupportedError(message, help="mode avg and a sampling_ratio are written")
    if dtype_of(op.x) is not DType.FLOAT32:
        return None
    height, width = sizes(b.dims(op.x)[2:], "the image")
    shift = 0.5 if op.coordinate_transformation_mode == "half_pixel" else 0.0
    corners = b(Sub, b(Mul, op.rois, b.like(op.rois, op.spatial_scale)), b.like(op.rois, shift))
    left, top, right, bottom = (b(Gather, corners, b.constant(np.array([place])), axis=1) for place in range(4))
    sides = [b(Sub, far, near) for near, far in ((top, bottom), (left, right))]
    if not shift:
        sides = [b(Max, side, b.like(side, 1)) for side in sides]
    rows = _shares(b, top, sides[0], op.output_height, op.sampling_ratio, height)
    columns = _shares(b, left, sides[1], op.output_width, op.sampling_ratio, width)
    images = b(Gather, op.x, op.batch_indices, axis=0)
    mixed = b(MatMul, b(Unsqueeze, rows, vector(b, [1])), images)
    return (b(MatMul, mixed, b(Unsqueeze, transposed(b, columns, (0, 2, 1)), vector(b, [1]))),)


def _shares(b: Builder, start: Value, side: Value, cells: int, each: int, n: int) -> Value:
    """What each of `n` pixels weighs in each cell: [regions, cells, n].  Shapes: start, side [regions, 1]."""
    steps = (np.arange(cells * each, dtype=np.float32) + np.float32(0.5)) / np.float32(cells * each)
    points = b(Add, start, b(Mul, side, b.constant(steps[None])))
    is_inside = b(And, b(LessOrEqual, b.like(points, -1), points), b(LessOrEqual, points, b.like(points, n)))
    kept = b(Min, b(Max, points, b.like(points, 0)), b.like(points, n - 1))
    apart = b(Sub, b(Unsqueeze, kept, vector(b, [2])), b.constant(np.arange(n, dtype=np.float32)))
    weights = b(Relu, b(Sub, b.like(apart, 1), b(Abs, apart)))
    weights = b(Mul, weights, b(Unsqueeze, cast(b, is_inside, DType.FLOAT32), vector(b, [2])))
    return b(ReduceMean, reshaped(b, weights, (-1, cells, each, n)), vector(b, [2]), keepdims=0)
