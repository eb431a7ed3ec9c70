"""Poolings of regions by position in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.dialects.operands import sizes
from graphport.ops.dialects.pooling_by_position import position_sensitive_mean

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("openvino", "opset1.PSROIPooling")
def position_sensitive_pooling(
    b: Builder,
    x: Value,
    rois: Value,
    *,
    output_dim: int,
    group_size: int,
    spatial_scale: float,
    mode: str = "average",
    spatial_bins_x: int = 0,
    spatial_bins_y: int = 0,
) -> Value:
    """The mean of each cell of a region, of a map of its own for each cell; regions are given in pixels."""
    del spatial_bins_x, spatial_bins_y
    if mode != "average":
        message = f"pooling of regions by position of mode {mode!r}"
        raise UnsupportedError(message)
    _, channels, *_ = sizes(b.dims(x), "the shape that is pooled")
    if channels != output_dim * group_size**2:
        message = f"{channels} maps for {output_dim} times {group_size} by {group_size} cells"
        raise UnsupportedError(message)
    return position_sensitive_mean(
        b, x, rois, output_dim=output_dim, group_size=group_size, spatial_scale=spatial_scale
    )
