"""Older forms of the operators on boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import UNKNOWN
from graphport.ops.dialects.onnx.older import unsupported
from graphport.ops.pages.detection.roi_align import RoiAlign
from graphport.ops.views.detection import RoiAlignView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@RoiAlign.lower("onnx", until=15)
def roi_align_10(
    b: Builder,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:
    """Pixels had their centres at whole numbers."""
    return b(
        RoiAlign,
        x,
        rois,
        batch_indices,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


@RoiAlignView.lift("onnx", until=15)
def roi_align_without_half_pixels(b: Builder, op: RoiAlignView) -> Value:
    """Places were not shifted by half a pixel."""
    unsupported((op.coordinate_transformation_mode != "output_half_pixel", "places were not shifted by half a pixel"))
    stated = op.stated()
    del stated["coordinate_transformation_mode"]
    return b.word("RoiAlign", op.x, op.rois, op.batch_indices, facts=[UNKNOWN], **stated)[0]
