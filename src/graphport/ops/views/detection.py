"""Views of the pages of detection; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class NonMaxSuppressionView(View[T]):
    """A node of `NonMaxSuppression`."""

    operator = "NonMaxSuppression"

    boxes: T
    scores: T
    max_output_boxes_per_class: T | None = None
    iou_threshold: T | None = None
    score_threshold: T | None = None
    _: KW_ONLY
    center_point_box: int = 0


@dataclass(slots=True, eq=False, repr=False)
class RoiAlignView(View[T]):
    """A node of `RoiAlign`."""

    operator = "RoiAlign"

    x: T
    rois: T
    batch_indices: T
    _: KW_ONLY
    coordinate_transformation_mode: str = "half_pixel"
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0
