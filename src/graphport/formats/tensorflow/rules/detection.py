"""Detection in TensorFlow: suppression of boxes that overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import by_tflite, operator
from graphport.ops.definitions.detection import NonMaxSuppression
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Reshape, Shape, Unsqueeze
from graphport.ops.lowering.operands import (
    as_int64,
    as_scalar,
    as_vector,
    cast,
    dtype_of,
    float_element,
    scalar,
    zero_padded,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _selected(
    b: Builder, boxes: Value, scores: Value, count: Value, overlap: Value | float, least: Value | None
) -> Value:
    """Return the int64 indices of the selected boxes, highest score first."""
    if dtype_of(boxes) is not DType.FLOAT32:
        boxes, scores = cast(b, boxes, DType.FLOAT32), cast(b, scores, DType.FLOAT32)
    limit = (
        scalar(b, overlap, DType.FLOAT32) if isinstance(overlap, (int, float)) else _float32(b, as_scalar(b, overlap))
    )
    lowest = [] if least is None else [as_scalar(b, _float32(b, least))]
    images, classes = b(Unsqueeze, boxes, [0]), b(Unsqueeze, scores, [0, 1])
    found = b(NonMaxSuppression, images, classes, as_vector(b, count), limit, *lowest)
    column = b(Slice, found, [2], [3], [1])
    return b(Reshape, column, [-1])


def _float32(b: Builder, x: Value) -> Value:
    return x if dtype_of(x) is DType.FLOAT32 else cast(b, x, DType.FLOAT32)


@operator("NonMaxSuppression")
def nms(b: Builder, boxes: Value, scores: Value, count: Value, *, iou_threshold: float = 0.5) -> Value:
    """Return the indices of the selected boxes."""
    return cast(b, _selected(b, boxes, scores, count, iou_threshold, None), DType.INT32)


@operator("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def nms_v3(b: Builder, boxes: Value, scores: Value, count: Value, overlap: Value, least: Value | None = None) -> Value:
    """Return the indices of the selected boxes with scores above `least`."""
    return cast(b, _selected(b, boxes, scores, count, overlap, least), DType.INT32)


@operator("NonMaxSuppressionV4")
def nms_v4(
    b: Builder,
    boxes: Value,
    scores: Value,
    count: Value,
    overlap: Value,
    least: Value,
    *,
    pad_to_max_output_size: bool = False,
) -> list[Value]:
    """Return the indices of the selected boxes, optionally padded by zeros, and their count."""
    found = _selected(b, boxes, scores, count, overlap, least)
    number = as_scalar(b, cast(b, b(Shape, found), DType.INT32))
    kept = zero_padded(b, found, as_vector(b, count)) if pad_to_max_output_size else found
    return [cast(b, kept, DType.INT32), number]


@operator("NonMaxSuppressionV5")
def nms_v5(
    b: Builder,
    boxes: Value,
    scores: Value,
    count: Value,
    overlap: Value,
    least: Value,
    sigma: Value,
    *,
    pad_to_max_output_size: bool = False,
) -> list[Value]:
    """Return indices, scores and count of the selected boxes; soft suppression if `sigma` is above 0."""
    if float_element(sigma) != 0:
        kept, lowered, number = by_tflite(
            b, "NON_MAX_SUPPRESSION_V5", boxes, scores, count, overlap, least, sigma, count=3
        )
        if pad_to_max_output_size:
            return [kept, lowered, number]
        end = as_vector(b, as_int64(b, number))
        return [*(b(Slice, each, [0], end, [0]) for each in (kept, lowered)), number]
    found = _selected(b, boxes, scores, count, overlap, least)
    number = as_scalar(b, cast(b, b(Shape, found), DType.INT32))
    own = b(Gather, scores, as_int64(b, found), axis=0)
    if pad_to_max_output_size:
        found, own = (zero_padded(b, each, as_vector(b, count)) for each in (found, own))
    return [cast(b, found, DType.INT32), own, number]
