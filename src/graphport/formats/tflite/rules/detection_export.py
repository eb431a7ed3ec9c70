"""Export rules of NonMaxSuppression and RoiAlign to TFLite."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.emitting import cast_to, ints, shaped
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Relu
from graphport.ops.definitions.arithmetic import Abs, Add, Floor, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, LessOrEqual
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceMax, ReduceMean
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, transposed
from graphport.ops.views.detection import NonMaxSuppressionView, RoiAlignView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


Exported: TypeAlias = "tuple[Value, ...] | None"
_MAX_SAMPLES = 1 << 16
"""Maximum number of samples of a region along one axis, whose positions are a constant."""
_MAX_CLASSES = 256


@NonMaxSuppressionView.export_rule("tflite")
def export_non_max_suppression(b: Builder, op: NonMaxSuppressionView) -> Exported:
    images, kinds, count = sizes(b.dims(op.scores), "images, classes and boxes")
    if op.max_output_boxes_per_class is None or not images * kinds or images * kinds > _MAX_CLASSES:
        message = f"{images * kinds} classes, or a missing number of boxes"
        raise UnsupportedError(message)
    most_boxes = emit(b, "MINIMUM", op.max_output_boxes_per_class, b.like(op.max_output_boxes_per_class, count))
    most = cast_to(b, shaped(b, most_boxes, ()), DType.INT32)
    share = b.constant(np.float32(0)) if op.iou_threshold is None else shaped(b, op.iou_threshold, ())
    # TFLite suppresses boxes with an overlap equal to the threshold, ONNX keeps them: use the next larger float.
    overlap = emit(b, "MAXIMUM", emit(b, "MUL", share, 1 + 2.0**-23), float(np.finfo(np.float32).tiny))
    lowest = b.constant(np.finfo(np.float32).min)
    least = lowest if op.score_threshold is None else shaped(b, op.score_threshold, ())
    corners = _corners(b, op.boxes) if op.center_point_box else op.boxes
    rows: list[Value] = []
    for image in range(images):
        own = emit(b, "GATHER", corners, ints(b, image), axis=0)
        scored = emit(b, "GATHER", op.scores, ints(b, image), axis=0)
        for kind in range(kinds):
            given = own, emit(b, "GATHER", scored, ints(b, kind), axis=0), most, overlap, least
            chosen, number = emits(b, "NON_MAX_SUPPRESSION_V4", 2, *given, types=(DType.INT32, DType.INT32))
            kept = emit(b, "SLICE", chosen, ints(b, [0]), shaped(b, number, (1,)))
            column = emit(b, "EXPAND_DIMS", kept, ints(b, 1))
            zeros = emit(b, "SUB", column, column)
            parts = emit(b, "ADD", zeros, ints(b, image)), emit(b, "ADD", zeros, ints(b, kind)), column
            rows.append(emit(b, "CONCATENATION", *parts, axis=1))
    every = rows[0] if len(rows) == 1 else emit(b, "CONCATENATION", *rows, axis=0)
    return (cast_to(b, every, DType.INT64),)


def _corners(b: Builder, boxes: Value) -> Value:
    """Convert boxes from center and size to two corners."""
    x, y, width, height = emits(b, "SPLIT", 4, ints(b, 2), boxes, num_splits=4)
    half = [emit(b, "MUL", each, 0.5) for each in (width, height)]
    pairs = [emit(b, op_type, *pair) for op_type in ("SUB", "ADD") for pair in ((y, half[1]), (x, half[0]))]
    return emit(b, "CONCATENATION", *pairs, axis=2)


@RoiAlignView.export_rule("tflite")
def export_roi_align(b: Builder, op: RoiAlignView) -> Exported:
    """Export RoiAlign (average) as row weights x image x column weights; a bilinear sample mixes four pixels."""
    if not op.sampling_ratio:
        message = "a sampling_ratio of 0: the number of samples depends on the regions"
        raise UnsupportedError(message, help="set sampling_ratio")
    if dtype_of(op.x) is not DType.FLOAT32:
        return None
    height, width = sizes(b.dims(op.x)[2:], "the image")
    shift = 0.5 if op.coordinate_transformation_mode == "half_pixel" else 0.0
    corners = b(Sub, b(Mul, op.rois, b.like(op.rois, op.spatial_scale)), b.like(op.rois, shift))
    left, top, right, bottom = (b(Gather, corners, b.constant(np.array([place])), axis=1) for place in range(4))
    sides = [b(Sub, far, near) for near, far in ((top, bottom), (left, right))]
    if not shift:
        sides = [b(Max, side, 1) for side in sides]
    each = op.sampling_ratio
    if each * max(op.output_height, op.output_width) > _MAX_SAMPLES:
        samples = each * max(op.output_height, op.output_width)
        message = (
            f"sampling_ratio {each}: {samples} samples along one axis of a region, expected at most {_MAX_SAMPLES}"
        )
        raise UnsupportedError(message)
    rows = _points(b, top, sides[0], op.output_height * each, height)
    columns = _points(b, left, sides[1], op.output_width * each, width)
    images = b(Gather, op.x, op.batch_indices, axis=0)
    if op.mode == "avg":
        cells = (
            _averaging_weights(b, rows, op.output_height, height),
            _averaging_weights(b, columns, op.output_width, width),
        )
        return (_weighted(b, images, *cells),)
    # Maximum mode: the largest weighted neighbour of a sample; the matrices select one neighbour per axis.
    corners = [_weighted(b, images, *pair) for pair in product(_sides(b, rows, height), _sides(b, columns, width))]
    (channels,) = sizes(b.dims(op.x)[1:2], "the channels")
    shape = (-1, channels, op.output_height, each, op.output_width, each)
    return (b(ReduceMax, reshaped(b, b(Max, *corners), shape), [3, 5], keepdims=0),)


def _weighted(b: Builder, images: Value, rows: Value, columns: Value) -> Value:
    """Row weights x image x column weights.  Shapes: [R, C, H, W], [R, h, H], [R, w, W] → [R, C, h, w]."""
    mixed = b(MatMul, b(Unsqueeze, rows, [1]), images)
    return b(MatMul, mixed, b(Unsqueeze, transposed(b, columns, (0, 2, 1)), [1]))


def _points(b: Builder, start: Value, side: Value, count: int, n: int) -> tuple[Value, Value]:
    """Return sample positions at the centers of equal intervals, clamped to `n` pixels, and whether they are inside.

    Shapes: start, side [R, 1] → [R, count, 1] twice.
    """
    steps = (np.arange(count, dtype=np.float32) + np.float32(0.5)) / np.float32(count)
    points = b(Add, start, b(Mul, side, b.constant(steps[None])))
    is_inside = b(And, b(LessOrEqual, -1, points), b(LessOrEqual, points, n))
    kept = b(Min, b(Max, points, 0), n - 1)
    found = (kept, cast(b, is_inside, DType.FLOAT32))
    return b(Unsqueeze, found[0], [2]), b(Unsqueeze, found[1], [2])


def _averaging_weights(b: Builder, points: tuple[Value, Value], cells: int, n: int) -> Value:
    """Return the average weight of each of `n` pixels in each cell: [R, cells, n]."""
    place, is_inside = points
    offsets = b(Sub, place, b.constant(np.arange(n, dtype=np.float32)))
    weights = b(Mul, b(Relu, b(Sub, b.like(offsets, 1), b(Abs, offsets))), is_inside)
    (count,) = sizes(b.dims(place)[1:2], "the points")
    return b(ReduceMean, reshaped(b, weights, (-1, cells, count // cells, n)), [2], keepdims=0)


def _sides(b: Builder, points: tuple[Value, Value], n: int) -> list[Value]:
    """Return the weights of the lower and of the upper neighbour of each sample: [R, count, n] twice."""
    place, is_inside = points
    pixels, low = b.constant(np.arange(n, dtype=np.float32)), b(Floor, place)
    far = b(Sub, place, low)
    found: list[Value] = []
    high = b(Min, b(Add, low, 1), n - 1)
    for pixel, share in ((low, b(Sub, 1, far)), (high, far)):
        found.append(b(Mul, cast(b, b(Equal, pixel, pixels), DType.FLOAT32), b(Mul, share, is_inside)))
    return found
