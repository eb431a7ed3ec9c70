"""Older forms of the operators on boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import UNKNOWN
from graphport.formats.onnx.rules.older import RULES, unsupported
from graphport.ops.views.detection import RoiAlignView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


RULES.lower(
    """
# Pixels had their centres at whole numbers.
RoiAlign(x, rois, batch_indices, *, mode="avg", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0)
    -> RoiAlign(x, rois, batch_indices, coordinate_transformation_mode="output_half_pixel", mode=mode,
                output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
                spatial_scale=spatial_scale)
""",
    until=15,
)


@RoiAlignView.export_rule("onnx", until=15)
def roi_align_without_half_pixels(b: Builder, op: RoiAlignView) -> Value:
    """Export RoiAlign to opset 10, which samples without the shift by half a pixel (output_half_pixel)."""
    unsupported(
        (
            op.coordinate_transformation_mode != "output_half_pixel",
            "coordinate_transformation_mode half_pixel is not supported",
        )
    )
    stated = op.non_defaults()
    del stated["coordinate_transformation_mode"]
    return b.emit("RoiAlign", op.x, op.rois, op.batch_indices, facts=[UNKNOWN], **stated)[0]
