"""Regions read from pyramids of feature maps in OpenVINO."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError, lower
from graphport.ops.dialects.extents import cut, entry, extent, fill
from graphport.ops.dialects.operands import cast, dtype_of, vector
from graphport.ops.pages.arithmetic import Add, Div, Floor, Log, Max, Min, Mul, Sqrt, Sub
from graphport.ops.pages.comparison import And, Equal, Greater, Where
from graphport.ops.pages.detection import RoiAlign
from graphport.ops.pages.reshape import Identity, Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_USUAL_SIDE = 224.0
_USUAL_LEVEL = 2
"""A region of this side is read from this level, and from one level on for each time that it doubles."""


@lower("openvino", "opset6.ExperimentalDetectronROIFeatureExtractor")
def pyramid_features(
    b: Builder,
    regions: Value,
    *maps: Value,
    output_size: int = 0,
    sampling_ratio: int = 0,
    pyramid_scales: tuple[int, ...] = (),
    aligned: bool = False,
) -> tuple[Value, ...]:
    """A grid of means of each region [n, 4], from the map that fits its size, and the regions once more.

    Regions without an area have zeros.
    """
    if not maps or len(pyramid_scales) < len(maps) or min(pyramid_scales) < 1:
        message = f"{len(maps)} maps with the scales {list(pyramid_scales)}"
        raise ShapeError(message, "one positive scale for each map, and at least one map")
    dtype = dtype_of(regions)
    rois = cast(b, regions, DType.FLOAT32)
    levels, has_area = _levels(b, rois, len(maps))
    total = b.like(rois, 0)
    for level, (features, scale) in enumerate(zip(maps, pyramid_scales, strict=False)):
        # The least size of a region is a pixel here also where its middle is moved by half of one.
        moved = b(Sub, rois, b.like(rois, 0.5 * scale)) if aligned else rois
        found = _roi_samples(b, features, moved, scale, output_size, sampling_ratio)
        is_own = b(And, has_area, b(Equal, levels, b.like(levels, level)))
        total = b(Where, b(Unsqueeze, is_own, vector(b, [1, 2, 3])), found, total)
    return (cast(b, total, dtype), b(Identity, regions))[: b.count]


def _roi_samples(b: Builder, features: Value, rois: Value, scale: int, side: int, ratio: int) -> Value:
    """Every region as a grid of means of one map."""
    return b(
        RoiAlign,
        cast(b, features, DType.FLOAT32),
        rois,
        fill(b, 0, DType.INT64, extent(b, rois, 0)),
        coordinate_transformation_mode="output_half_pixel",
        mode="avg",
        output_height=side,
        output_width=side,
        sampling_ratio=ratio,
        spatial_scale=float(np.float32(1) / np.float32(scale)),
    )


def _levels(b: Builder, rois: Value, count: int) -> tuple[Value, Value]:
    """Which map each region is read from, and whether it has an area."""
    sides = b(Sub, cut(b, rois, 2, 4, 1), cut(b, rois, 0, 2, 1))
    area = b(Mul, entry(b, sides, 0), entry(b, sides, 1))
    has_area = b(Greater, area, b.like(area, 0))
    side = b(Div, b(Sqrt, b(Where, has_area, area, b.like(area, 1))), b.like(area, _USUAL_SIDE))
    octaves = b(Div, b(Log, b(Add, side, b.like(side, 1e-6))), b.like(side, log(2)))
    level = b(Floor, b(Add, octaves, b.like(side, _USUAL_LEVEL)))
    return b(Max, b(Min, level, b.like(level, count - 1)), b.like(level, 0)), has_area
