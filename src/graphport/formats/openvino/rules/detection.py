"""Non-maximum suppression, region pooling and the last layer of YOLO in OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.detection_boxes import LOWEST, selected_boxes
from graphport.formats.openvino.rules.detection_matrix_nms import matrix_nms_scores
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.activation import Sigmoid, Softmax
from graphport.ops.definitions.arithmetic import Add, Max
from graphport.ops.definitions.detection import NonMaxSuppression, RoiAlign
from graphport.ops.definitions.indexing import Gather, GatherND
from graphport.ops.definitions.pooling import MaxPool
from graphport.ops.definitions.reduction import TopK
from graphport.ops.definitions.reshape import Concat, Shape, Unsqueeze
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.extents import cut
from graphport.ops.lowering.operands import (
    as_int64,
    as_vector,
    cast,
    dtype_of,
    float_element,
    reshaped,
    scalar,
    sizes,
)
from graphport.ops.shapes import axis_index
from graphport.ops.view import Attributes
from graphport.ops.views.detection import NonMaxSuppressionView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


def _suppressed(
    b: Builder,
    boxes: Value,
    scores: Value,
    most: Value | None,
    overlap: Value | None,
    least: Value | None,
    box_encoding: str,
) -> Value:
    """Return batch, class and box index of each selected box; absent operands are 0."""
    limits = _limits(b, most, overlap, least)
    corners, marks = (cast(b, each, DType.FLOAT32) for each in (boxes, scores))
    return b(NonMaxSuppression, corners, marks, *limits, center_point_box=int(box_encoding == "center"))


def _limits(b: Builder, most: Value | None, overlap: Value | None, least: Value | None) -> tuple[Value, Value, Value]:
    count = b.constant(np.zeros(1, np.int64)) if most is None else as_vector(b, most)
    first, second = (
        scalar(b, 0.0, DType.FLOAT32) if limit is None else cast(b, limit, DType.FLOAT32) for limit in (overlap, least)
    )
    return count, first, second


def _sorted(b: Builder, kept: Value, marks: Value) -> tuple[Value, Value]:
    """Sort rows by score, descending; return the rows and their scores."""
    count = b(Shape, marks)
    best, order = b.results(TopK, 2, marks, count)
    return b(Gather, kept, order), best


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression(Attributes):
    """Attributes of NonMaxSuppression."""

    box_encoding: str = "corner"
    sort_result_descending: bool = True
    output_type: DType = DType.INT64


@Suppression.lower("openvino", "opset1.NonMaxSuppression")
@Suppression.lower("openvino", "opset3.NonMaxSuppression")
@Suppression.lower("openvino", "opset4.NonMaxSuppression")
def suppression_4(
    b: Builder,
    op: Suppression,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
) -> Value:
    """Non-maximum suppression: rows (batch, class, box index), by descending score if the attribute requests it."""
    kept = _suppressed(b, boxes, scores, most, overlap, least, op.box_encoding)
    if op.sort_result_descending:
        kept, _ = _sorted(b, kept, b(GatherND, scores, kept))
    return cast(b, kept, op.output_type)


@Suppression.lower("openvino", "opset5.NonMaxSuppression")
@Suppression.lower("openvino", "opset9.NonMaxSuppression")
def suppression_9(
    b: Builder,
    op: Suppression,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
    soft_sigma: Value | None = None,
) -> tuple[Value, ...]:
    """Non-maximum suppression: rows (batch, class, box index), rows (batch, class, score), and their count."""
    sigma = 0.0 if soft_sigma is None else float_element(soft_sigma)
    if sigma is None:
        message = "a soft_nms_sigma that is not constant"
        raise UnsupportedError(message)
    if sigma > 0:
        count, _, floor = _limits(b, most, overlap, least)
        is_center = op.box_encoding == "center"
        found = matrix_nms_scores(b, boxes, scores, (count, floor), sigma, is_center=is_center)
        types = dtype_of(scores), op.output_type
        return selected_boxes(b, *found, *types, is_sorted=op.sort_result_descending)[: b.count]
    kept = _suppressed(b, boxes, scores, most, overlap, least, op.box_encoding)
    marks = b(GatherND, scores, kept)
    if op.sort_result_descending:
        kept, marks = _sorted(b, kept, marks)
    results = [cast(b, kept, op.output_type)]
    if b.count > 1:
        owners = cast(b, cut(b, kept, 0, 2, 1), dtype_of(marks))
        results.append(b(Concat, owners, b(Unsqueeze, marks, [1]), axis=1))
    if b.count > 2:
        results.append(cast(b, b(Shape, kept, start=0, end=1), op.output_type))
    return tuple(results)


@NonMaxSuppressionView.export_rule("openvino")
def export_suppression(b: Builder, op: NonMaxSuppressionView) -> Exported:
    if op.max_output_boxes_per_class is None:
        message = "selection of no boxes"
        raise UnsupportedError(message)
    least = scalar(b, LOWEST, DType.FLOAT32) if op.score_threshold is None else op.score_threshold
    return emits(
        b,
        "opset9.NonMaxSuppression",
        3,
        op.boxes,
        op.scores,
        op.max_output_boxes_per_class,
        _next_above(b, op.iou_threshold),
        least,
        box_encoding="center" if op.center_point_box else "corner",
        sort_result_descending=False,
        output_type=DType.INT64,
    )[:1]


def _next_above(b: Builder, overlap: Value | None) -> Value:
    """Return the next float above a threshold: OpenVINO's plugin drops a box if its overlap equals the threshold."""
    known = 0.0 if overlap is None else float_element(overlap)
    least = float(np.finfo(np.float32).tiny)
    if overlap is None or known is not None:
        return b.constant(np.maximum(np.nextafter(np.float32(known or 0), np.float32(2)), np.float32(least)))
    return emit(b, "opset1.Maximum", emit(b, "opset1.Multiply", overlap, 1 + float(np.finfo(np.float32).eps)), least)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionGrid(Attributes):
    """Pooling grid of a region, and samples per cell side; 0 samples means one per element of the cell."""

    pooled_h: int
    pooled_w: int
    sampling_ratio: int
    spatial_scale: float


@RegionGrid.lower("openvino", "opset3.ROIAlign")
@RegionGrid.lower("openvino", "opset9.ROIAlign")
def roi_align(
    b: Builder,
    op: RegionGrid,
    x: Value,
    rois: Value,
    batches: Value,
    *,
    mode: str,
    aligned_mode: str = "asymmetric",
) -> Value:
    """ROI Align: pool each region to a grid of cells by mean or maximum of bilinear samples."""
    if mode != "avg" and op.sampling_ratio == 0:
        message = "max pooling with a sample count that depends on the region size"
        raise UnsupportedError(message)
    if aligned_mode == "half_pixel":
        rois = b(Add, rois, 0.5)
    # OpenVINO takes the maximum of samples, ONNX of their terms: so each sample is its own cell first.
    finer = 1 if mode == "avg" else op.sampling_ratio
    found = b(
        RoiAlign,
        x,
        rois,
        as_int64(b, batches),
        coordinate_transformation_mode="output_half_pixel" if aligned_mode == "asymmetric" else "half_pixel",
        mode="avg",
        output_height=op.pooled_h * finer,
        output_width=op.pooled_w * finer,
        sampling_ratio=op.sampling_ratio if mode == "avg" else 1,
        spatial_scale=op.spatial_scale,
    )
    if mode == "avg":
        return found
    sides = (finer, finer)
    return b(Max, b(MaxPool, found, kernel_shape=sides, strides=sides), 0)


RULES.export_rules("""
RoiAlign
    -> mode == "avg":
       opset9.ROIAlign(x, rois, batch_indices, pooled_h=output_height, pooled_w=output_width,
                       sampling_ratio=sampling_ratio, spatial_scale=spatial_scale, mode=mode,
                       aligned_mode="half_pixel_for_nn" if coordinate_transformation_mode == "half_pixel"
                                    else "asymmetric")
    -> unsupported("the largest of what is sampled, which OpenVINO does not take as ONNX does")
""")


@lower("openvino", "opset1.RegionYolo")
def region_yolo(
    b: Builder,
    x: Value,
    *,
    anchors: tuple[float, ...] = (),
    axis: int,
    coords: int,
    classes: int,
    end_axis: int,
    num: int,
    do_softmax: bool = True,
    mask: tuple[int, ...] = (),
) -> Value:
    """YOLO region layer: sigmoid of positions, confidence and classes (or softmax of classes)."""
    del anchors
    n, channels, *spatial = sizes(b.dims(x, at_least=2), "the shape of a region layer")
    boxes = num if do_softmax else len(mask)
    parts = coords + 1 + classes
    split = reshaped(b, x, [n, boxes, parts, prod(spatial)])
    pieces = [
        b(Sigmoid, cut(b, split, 0, 2, 2)),
        cut(b, split, 2, coords, 2),
        b(Sigmoid, cut(b, split, coords, coords + 1, 2)),
    ]
    kinds = cut(b, split, coords + 1, parts, 2)
    pieces.append(b(Softmax, kinds, axis=2) if do_softmax else b(Sigmoid, kinds))
    whole = b(Concat, *pieces, axis=2)
    dims = [n, channels, *spatial]
    if not do_softmax:
        return reshaped(b, whole, dims)
    first, last = axis_index(axis, len(dims)), axis_index(end_axis, len(dims))
    return reshaped(b, whole, [*dims[:first], prod(dims[first : last + 1]), *dims[last + 1 :]])
