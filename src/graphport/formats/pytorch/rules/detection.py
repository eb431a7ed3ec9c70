"""Operators of torchvision in exported programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.functions.reshape_shapes import extents
from graphport.formats.pytorch.rules.overloads import aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Cast
from graphport.ops.definitions.convolution import DeformConv
from graphport.ops.definitions.detection import NonMaxSuppression, RoiAlign
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.pooling import MaxRoiPool
from graphport.ops.definitions.reshape import Unsqueeze

_SPACE = "torchvision."


@aten(f"{_SPACE}nms")
def nms(b: Builder, dets: Value, scores: Value, iou_threshold: Any) -> Value:
    """Non-maximum suppression: indices of kept boxes, by descending score."""
    boxes = b(Unsqueeze, cast(b, dets, DType.FLOAT32), [0])
    weights = b(Unsqueeze, cast(b, scores, DType.FLOAT32), [0, 1])
    threshold = b.constant(np.array([scalar_of(iou_threshold)], np.float32))
    kept = b(NonMaxSuppression, boxes, weights, extents(b, scores), threshold)
    return b(Gather, kept, b.constant(2, DType.INT64), axis=1)


def _regions(b: Builder, rois: Value) -> tuple[Value, Value]:
    """Return the corners of regions, and the batch index of each."""
    corners = b(Slice, rois, [1], [5], [1])
    return corners, b(Cast, b(Gather, rois, b.constant(0, DType.INT64), axis=1), to=DType.INT64)


@aten(f"{_SPACE}roi_pool")
def roi_pool(
    b: Builder, input: Value, rois: Value, spatial_scale: Any, pooled_height: Any, pooled_width: Any
) -> tuple[Value, None]:
    """RoI max pooling; the result with the indices of the maxima is not supported."""
    sizes = (int(scalar_of(pooled_height)), int(scalar_of(pooled_width)))
    y = b(MaxRoiPool, input, rois, pooled_shape=sizes, spatial_scale=float(scalar_of(spatial_scale)))
    return y, None


@aten(f"{_SPACE}roi_align")
def roi_align(
    b: Builder,
    input: Value,
    rois: Value,
    spatial_scale: Any,
    pooled_height: Any,
    pooled_width: Any,
    sampling_ratio: Any,
    aligned: Any,
) -> Value:
    corners, images = _regions(b, rois)
    return b(
        RoiAlign,
        input,
        corners,
        images,
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        output_height=int(scalar_of(pooled_height)),
        output_width=int(scalar_of(pooled_width)),
        sampling_ratio=max(int(scalar_of(sampling_ratio)), 0),
        spatial_scale=float(scalar_of(spatial_scale)),
    )


@aten(f"{_SPACE}deform_conv2d")
def deform_conv2d(
    b: Builder,
    input: Value,
    weight: Value,
    offset: Value,
    mask: Value,
    bias: Value,
    stride_h: Any,
    stride_w: Any,
    pad_h: Any,
    pad_w: Any,
    dilation_h: Any,
    dilation_w: Any,
    groups: Any,
    offset_groups: Any,
    use_mask: Any,
) -> Value:
    if not all(isinstance(each, int) for each in (groups, offset_groups)):
        message = "the group counts depend on sizes that are not constant"
        raise UnsupportedError(message)
    pads = (int(scalar_of(pad_h)), int(scalar_of(pad_w)))
    return b(
        DeformConv,
        input,
        weight,
        offset,
        bias,
        mask if use_mask else None,
        strides=(int(scalar_of(stride_h)), int(scalar_of(stride_w))),
        pads=(*pads, *pads),
        dilations=(int(scalar_of(dilation_h)), int(scalar_of(dilation_w))),
        group=groups,
        offset_group=offset_groups,
    )
