"""Views of the pages of detection; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class NonMaxSuppressionView(View):
    """A node of `NonMaxSuppression`."""

    operator = "NonMaxSuppression"

    boxes: Value
    scores: Value
    max_output_boxes_per_class: Value | None = None
    iou_threshold: Value | None = None
    score_threshold: Value | None = None
    _: KW_ONLY
    center_point_box: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RoiAlignView(View):
    """A node of `RoiAlign`."""

    operator = "RoiAlign"

    x: Value
    rois: Value
    batch_indices: Value
    _: KW_ONLY
    coordinate_transformation_mode: str = "half_pixel"
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0
