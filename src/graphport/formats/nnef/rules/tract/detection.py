"""Boxes in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.tract.binding import DIALECT, import_rule
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.views.detection import NonMaxSuppressionView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("tract_onnx_non_max_suppression")
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
    """Non-maximum suppression: rows (batch, class, box index)."""
    emit = OpBuilder(b)
    most = None if max_output_boxes_per_class is None else emit("Cast", max_output_boxes_per_class, to=DType.INT64)
    return emit(
        "NonMaxSuppression", boxes, scores, most, iou_threshold, score_threshold, center_point_box=center_point_box
    )


@NonMaxSuppressionView.export_rule(DIALECT)
def export_non_max_suppression(b: Builder, op: NonMaxSuppressionView) -> Any:
    """Export NonMaxSuppression with scalar limits."""
    most = _scalar_limit(b, op.max_output_boxes_per_class, np.int64(0))
    limits = [most, _scalar_limit(b, op.iou_threshold, np.float32(0))]
    if op.score_threshold is not None:
        limits.append(_scalar_limit(b, op.score_threshold, np.float32(0)))
    word_ = "tract_onnx_non_max_suppression"
    return b.emit(word_, op.boxes, op.scores, *limits, center_point_box=op.center_point_box)


def _scalar_limit(b: Builder, value: Value | None, default: Any) -> Value:
    if value is None:
        return b.constant(default)
    if not b.dims(value):
        return value
    return b.reshaped(value, ()) or b.emit("squeeze", value, facts=[TensorFact(None, ())], axes=(0,))[0]
