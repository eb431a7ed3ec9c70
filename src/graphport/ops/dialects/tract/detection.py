"""Boxes in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.tract.binding import word

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@word("tract_onnx_non_max_suppression")
def non_max_suppression(
    b: Builder,
    boxes: Value,
    scores: Value,
    max_output_boxes_per_class: Value | None = None,
    iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *,
    center_point_box: int = 0,
) -> Value:
    """The boxes that overlap no better one too much."""
    emit = OpBuilder(b)
    most = None if max_output_boxes_per_class is None else emit("Cast", max_output_boxes_per_class, to=DType.INT64)
    return emit(
        "NonMaxSuppression", boxes, scores, most, iou_threshold, score_threshold, center_point_box=center_point_box
    )
