"""Suppression of boxes in TFLite: of each class of each image on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.emitting import emit, emits
from graphport.ops.dialects.operands import sizes
from graphport.ops.dialects.tflite.emitting import cast_to, ints, shaped
from graphport.ops.views.detection import NonMaxSuppressionView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_MOST_CLASSES = 256


@NonMaxSuppressionView.lift("tflite")
def lift_non_max_suppression(b: Builder, op: NonMaxSuppressionView) -> Lifted:
    images, kinds, count = sizes(b.dims(op.scores), "images, classes and boxes")
    if op.max_output_boxes_per_class is None or not images * kinds or images * kinds > _MOST_CLASSES:
        message = f"{images * kinds} classes, or no number of boxes"
        raise UnsupportedError(message)
    told = emit(b, "MINIMUM", op.max_output_boxes_per_class, b.like(op.max_output_boxes_per_class, count))
    most = cast_to(b, shaped(b, told, ()), DType.INT32)
    share = b.constant(np.float32(0)) if op.iou_threshold is None else shaped(b, op.iou_threshold, ())
    # What overlaps just so much is suppressed there, and kept in ONNX: the next number above.
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
    """Boxes by two of their corners, in place of centre and extents."""
    x, y, width, height = emits(b, "SPLIT", 4, ints(b, 2), boxes, num_splits=4)
    half = [emit(b, "MUL", each, 0.5) for each in (width, height)]
    pairs = [emit(b, word, *pair) for word in ("SUB", "ADD") for pair in ((y, half[1]), (x, half[0]))]
    return emit(b, "CONCATENATION", *pairs, axis=2)
