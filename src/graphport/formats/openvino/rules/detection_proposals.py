"""Region proposals of two-stage detectors in OpenVINO, and their detection output."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.detection_boxes import LOWEST, Greedy, Overlap, best, rows_of
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Floor, Log, Max, Min, Mul, Sqrt, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, Less, LessOrEqual, Where
from graphport.ops.definitions.detection import RoiAlign
from graphport.ops.definitions.indexing import Compress, Gather, ScatterElements
from graphport.ops.definitions.reduction import CumSum, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Identity, Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.extents import counted, cut, extent, fill, gather_index, joined
from graphport.ops.lowering.operands import cast, dtype_of, scalar, transposed, vector
from graphport.ops.view import Attributes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Reals = tuple[float, ...]

_MOST_GROWTH = log(1000 / 16)
"""The largest logarithm by which a box may grow."""


def _moved(b: Builder, boxes: Value, deltas: Value, offset: float, most: float = _MOST_GROWTH) -> Value:
    """Apply deltas [..., 4] (shift, log growth up to `most`) to corners [..., 4]; `offset` is the size of a pixel."""
    growth = b(Min, cut(b, deltas, 2, 4, -1), most)
    low, high = grown(b, boxes, cut(b, deltas, 0, 2, -1), growth, offset)
    return b(Concat, low, b(Sub, high, offset), axis=-1)


def grown(b: Builder, boxes: Value, shifts: Value, growth: Value, offset: float) -> tuple[Value, Value]:
    """Apply box deltas: return the first corners and the last corners (minus `offset`)."""
    low, high = cut(b, boxes, 0, 2, -1), cut(b, boxes, 2, 4, -1)
    half, pixel = b.like(boxes, 0.5), b.like(boxes, offset)
    size = b(Add, b(Sub, high, low), pixel)
    middle = b(Add, low, b(Mul, half, size))
    middle = b(Add, b(Mul, shifts, size), middle)
    reach = b(Mul, half, b(Mul, b(Exp, growth), size))
    return b(Sub, middle, reach), b(Add, middle, reach)


def inside(b: Builder, boxes: Value, size: Value) -> Value:
    """Clip corners [..., 4] to images of size (width, height) [..., 2]."""
    ends = b(Concat, size, size, axis=-1)
    return b(Max, b(Min, boxes, ends), 0)


def are_large(b: Builder, boxes: Value, offset: float, least: Value) -> Value:
    """Return which boxes [N, K, 4] are at least as wide and as high as `least` [N, 1, 2]."""
    sides = b(Add, b(Sub, cut(b, boxes, 2, 4, -1), cut(b, boxes, 0, 2, -1)), offset)
    is_large = b(LessOrEqual, least, sides)
    return b(And, gather_index(b, is_large, 0), gather_index(b, is_large, 1))


def ranked(b: Builder, kept: Value, most: int) -> Value:
    """Keep only the first `most` of the kept boxes [N, K]."""
    ranks = b(CumSum, kept, 1)
    return b(And, b(Greater, kept, 0), b(LessOrEqual, ranks, most))


def per_cell(b: Builder, x: Value, parts: int) -> Value:
    """Rearrange [N, A * parts, H, W] to [N, H * W * A, parts]."""
    shape = joined(b, 0, -1, parts, extent(b, x, 2), extent(b, x, 3))
    split = b(Transpose, b(Reshape, x, shape), perm=(0, 3, 4, 1, 2))
    return b(Reshape, split, joined(b, 0, -1, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Attributes):
    """Selection attributes of proposals."""

    min_size: float = 0.0
    nms_threshold: float = 0.0
    post_nms_count: int = 0
    pre_nms_count: int = 0


@Choice.lower("openvino", "opset9.GenerateProposals")
def generate_proposals(
    b: Builder,
    op: Choice,
    pictures: Value,
    anchors: Value,
    deltas: Value,
    scores: Value,
    *,
    normalized: bool = True,
    nms_eta: float = 1.0,
    roi_num_type: DType = DType.INT64,
) -> tuple[Value, ...]:
    """Region proposals of all images, their scores, and their number per image."""
    if nms_eta != 1:
        message = "an adaptive threshold (nms_eta below 1)"
        raise UnsupportedError(message)
    dtype, offset = dtype_of(anchors), 0.0 if normalized else 1.0
    pictures, anchors, deltas, scores = (cast(b, x, DType.FLOAT32) for x in (pictures, anchors, deltas, scores))
    boxes = _moved(b, b(Reshape, anchors, [1, -1, 4]), per_cell(b, deltas, 4), offset)
    image_sizes = b(Unsqueeze, b(Gather, pictures, [1, 0], axis=1), [1])
    boxes = inside(b, boxes, b(Sub, image_sizes, b.like(boxes, offset)))
    marks = b(Squeeze, per_cell(b, scores, 1), [2])
    found, indices = best(b, marks, op.pre_nms_count)
    boxes = rows_of(b, boxes, indices)
    is_large = are_large(b, boxes, offset, _least(b, pictures, op.min_size))
    kept = Greedy(Overlap(offset), op.nms_threshold)(b, boxes, cast(b, is_large, DType.FLOAT32))
    is_kept = ranked(b, kept, op.post_nms_count)
    counts = b(ReduceSum, cast(b, is_kept, DType.INT64), [1], keepdims=0)
    every = b(Reshape, is_kept, [-1])
    rows = b(Compress, b(Reshape, boxes, [-1, 4]), every, axis=0)
    marks = b(Compress, b(Reshape, found, [-1]), every, axis=0)
    return cast(b, rows, dtype), cast(b, marks, dtype), cast(b, counts, roi_num_type)


def _least(b: Builder, pictures: Value, size: float) -> Value:
    """Return the minimum width and height [N, 1, 2] of a box, scaled by the image info [N, 3 or 4]."""
    columns = b.dims(pictures, at_least=2)[1]
    if columns not in (2, 3, 4):
        message = f"image info with {columns} columns; 2, 3 or 4 are supported"
        raise UnsupportedError(message)
    indices = [3, 2] if columns == 4 else [2, 2]
    if columns == 2:
        return b(Reshape, b.like(pictures, [size, size]), [1, 1, 2])
    scales = b(Gather, pictures, indices, axis=1)
    return b(Unsqueeze, b(Mul, scales, size), [1])


@Choice.lower("openvino", "opset6.ExperimentalDetectronGenerateProposalsSingleImage")
def single_image_proposals(
    b: Builder, op: Choice, picture: Value, anchors: Value, deltas: Value, scores: Value
) -> tuple[Value, ...]:
    """Region proposals of one image and their scores, padded with zeros."""
    dtype = dtype_of(anchors)
    front = vector(b, [0])
    picture, anchors, deltas, scores = (cast(b, x, DType.FLOAT32) for x in (picture, anchors, deltas, scores))
    moves = per_cell(b, b(Unsqueeze, deltas, front), 4)
    boxes = _moved(b, b(Reshape, anchors, [1, -1, 4]), moves, 1.0)
    size = b(Gather, picture, [1, 0], axis=0)
    boxes = inside(b, boxes, b(Sub, size, 1))
    marks = b(Squeeze, per_cell(b, b(Unsqueeze, scores, front), 1), [2])
    least = b(Reshape, b.like(boxes, [op.min_size, op.min_size]), [1, 1, 2])
    marks = b(Mul, marks, cast(b, are_large(b, boxes, 1.0, least), DType.FLOAT32))
    found, indices = best(b, marks, op.pre_nms_count)
    boxes = rows_of(b, boxes, indices)
    kept = Greedy(Overlap(), op.nms_threshold)(b, boxes, b(Expand, b.like(found, 1), b(Shape, found)))
    every = b(Reshape, ranked(b, kept, op.post_nms_count), [-1])
    rows = b(Compress, b(Squeeze, boxes, front), every, axis=0)
    chosen = b(Compress, b(Squeeze, found, front), every, axis=0)
    rows = _zero_padded(b, rows, op.post_nms_count, 4)
    chosen = _zero_padded(b, chosen, op.post_nms_count)
    return cast(b, rows, dtype), cast(b, chosen, dtype)


def _zero_padded(b: Builder, x: Value, count: int, *rest: int) -> Value:
    """Return the first `count` rows; missing rows are zeros."""
    zeros = fill(b, 0.0, dtype_of(x), count, *rest)
    return cut(b, b(Concat, x, zeros, axis=0), 0, count, 0)


@lower("openvino", "opset6.ExperimentalDetectronPriorGridGenerator")
def prior_grid(
    b: Builder,
    priors: Value,
    feature_map: Value,
    picture: Value,
    *,
    flatten: bool = False,
    h: int = 0,
    w: int = 0,
    stride_x: float = 0.0,
    stride_y: float = 0.0,
) -> Value:
    """Return prior boxes around the center of each map cell: [H, W, n, 4], or [H * W * n, 4] if `flatten`."""
    dtype = dtype_of(priors)
    sides: list[Value] = []
    for axis, count, stride in ((3, w, stride_x), (2, h, stride_y)):
        length = vector(b, [count]) if count else extent(b, feature_map, axis)
        whole = cast(b, extent(b, picture, axis), DType.FLOAT32)
        step = b.constant(np.array([stride], np.float32)) if stride else b(Div, whole, cast(b, length, DType.FLOAT32))
        every = cast(b, counted(b, length), DType.FLOAT32)
        sides.append(b(Mul, b(Add, every, 0.5), step))
    x, y = b(Reshape, sides[0], [1, -1, 1, 1]), b(Reshape, sides[1], [-1, 1, 1, 1])
    shape = b(Concat, b(Shape, y, start=0, end=1), b(Shape, x, start=1, end=2), [1, 1], axis=0)
    middles = [b(Expand, side, shape) for side in (x, y)]
    found = b(Add, cast(b, priors, DType.FLOAT32), b(Concat, *middles, *middles, axis=3))
    return cast(b, b(Reshape, found, [-1, 4]) if flatten else found, dtype)


@lower("openvino", "opset6.ExperimentalDetectronTopKROIs")
def best_regions(b: Builder, regions: Value, scores: Value, *, max_rois: int = 0) -> Value:
    """Return the `max_rois` regions [n, 4] with the largest scores; missing rows are zeros."""
    _, indices = best(b, scores, max_rois)
    return _zero_padded(b, b(Gather, regions, indices, axis=0), max_rois, 4)


@lower("openvino", "opset6.ExperimentalDetectronDetectionOutput")
def detectron_output(
    b: Builder,
    regions: Value,
    deltas: Value,
    scores: Value,
    picture: Value,
    *,
    score_threshold: float = 0.0,
    nms_threshold: float = 0.0,
    max_delta_log_wh: float = 0.0,
    num_classes: int = 0,
    post_nms_count: int = 0,
    max_detections_per_image: int = 0,
    class_agnostic_box_regression: bool = False,
    deltas_weights: Reals = (),
) -> tuple[Value, ...]:
    """Return boxes, classes and scores of the detections in regions, padded with zeros; class 0 is background."""
    if class_agnostic_box_regression or len(deltas_weights) != 4:
        message = "class-agnostic box deltas, or other than four delta weights"
        raise UnsupportedError(message)
    del picture
    dtype = dtype_of(regions)
    regions, deltas, scores = (cast(b, x, DType.FLOAT32) for x in (regions, deltas, scores))
    moves = b(Reshape, deltas, [-1, num_classes, 4])
    moves = b(Div, moves, b.constant(np.array(deltas_weights, np.float32)))
    boxes = _moved(b, b(Unsqueeze, regions, [1]), moves, 1.0, max_delta_log_wh)
    boxes = b(Max, boxes, 0)
    sides = b(Sub, cut(b, regions, 2, 4, 1), cut(b, regions, 0, 2, 1))
    is_box = b(Greater, sides, 0)
    is_box = b(Unsqueeze, b(And, gather_index(b, is_box, 0), gather_index(b, is_box, 1)), [1])
    marks = b(Where, is_box, b(Reshape, scores, [-1, num_classes]), 0)
    boxes = b(Where, b(Unsqueeze, is_box, [2]), boxes, 0)
    boxes, marks = transposed(b, boxes, [1, 0, 2]), b(Transpose, marks, perm=(1, 0))
    is_class = b.constant(np.arange(num_classes)[:, None] > 0)
    usable = b(And, b(Greater, marks, score_threshold), is_class)
    marks = b(Where, usable, marks, b.like(marks, LOWEST))
    found, indices = best(b, marks)
    is_good = cast(b, b(Greater, found, b.like(found, LOWEST)), DType.FLOAT32)
    kept = Greedy(Overlap(1.0, shares_something=True), nms_threshold)(b, rows_of(b, boxes, indices), is_good)
    is_kept = ranked(b, kept, post_nms_count) if post_nms_count >= 0 else b(Greater, kept, 0)
    found = b(Where, is_kept, found, b.like(found, LOWEST))
    return _detected(b, boxes, found, indices, max_detections_per_image, dtype)


def _detected(b: Builder, boxes: Value, found: Value, indices: Value, most: int, dtype: DType) -> tuple[Value, ...]:
    """Return the kept boxes class by class [C, K], or the best of all if there are more than `most`."""
    nothing = b(Expand, b.like(found, LOWEST), b(Shape, found))
    by_region = b(Transpose, b(ScatterElements, nothing, indices, found, axis=1), perm=(1, 0))
    classes = extent(b, by_region, 1)
    flat = b(Reshape, by_region, [-1])
    count = b(ReduceSum, cast(b, b(Greater, flat, b.like(flat, LOWEST)), DType.INT64), [0], keepdims=0)
    top, spots = best(b, flat, most)
    # Sorted by score if boxes are dropped, else class by class.
    own = b(Reshape, b(Expand, b(Unsqueeze, counted(b, classes), [1]), b(Shape, found)), [-1])
    listed = b(Concat, b(Reshape, found, [-1]), fill(b, LOWEST, DType.FLOAT32, most), axis=0)
    regions = b(Concat, b(Reshape, indices, [-1]), fill(b, 0, DType.INT64, most), axis=0)
    own = b(Concat, own, fill(b, 0, DType.INT64, most), axis=0)
    is_there = b(Greater, listed, b.like(listed, LOWEST))
    in_turn = [_zero_padded(b, b(Compress, each, is_there, axis=0), most) for each in (listed, own, regions)]
    limit = scalar(b, most, DType.INT64)
    is_over = b(Greater, count, limit)
    ranked = [top, b(Sub, spots, b(Mul, b(Div, spots, classes), classes)), b(Div, spots, classes)]
    ranked = [_zero_padded(b, each, most) for each in ranked]
    scores, kinds, indices = (b(Where, is_over, a, c) for a, c in zip(ranked, in_turn, strict=True))
    exists = b(Less, counted(b, vector(b, [most])), b(Min, count, limit))
    spots = b(Add, b(Mul, kinds, extent(b, boxes, 1)), indices)
    rows = b(Gather, b(Reshape, boxes, [-1, 4]), spots, axis=0)
    rows = b(Where, b(Unsqueeze, exists, [1]), rows, 0)
    scores = b(Where, exists, scores, 0)
    kinds = b(Where, exists, kinds, 0)
    return cast(b, rows, dtype), cast(b, kinds, DType.INT32), cast(b, scores, dtype)


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
    """ROI Align of each region [n, 4] on the pyramid level that fits its size; the regions are returned, too.

    Regions without an area have zeros.
    """
    if not maps or len(pyramid_scales) < len(maps) or min(pyramid_scales) < 1:
        message = f"{len(maps)} maps with the scales {list(pyramid_scales)}"
        raise ShapeError(message, "give one positive scale per feature map, and at least one feature map")
    dtype = dtype_of(regions)
    rois = cast(b, regions, DType.FLOAT32)
    levels, has_area = _levels(b, rois, len(maps))
    total = b.like(rois, 0)
    for level, (features, scale) in enumerate(zip(maps, pyramid_scales, strict=False)):
        # The least size of a region is a pixel here also where its middle is moved by half of one.
        moved = b(Sub, rois, b.like(rois, 0.5 * scale)) if aligned else rois
        found = _roi_samples(b, features, moved, scale, output_size, sampling_ratio)
        is_own = b(And, has_area, b(Equal, levels, b.like(levels, level)))
        total = b(Where, b(Unsqueeze, is_own, [1, 2, 3]), found, total)
    return (cast(b, total, dtype), b(Identity, regions))[: b.count]


def _roi_samples(b: Builder, features: Value, rois: Value, scale: int, side: int, ratio: int) -> Value:
    """ROI Align (mean) of all regions on one feature map: [n, C, side, side]."""
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
    """Return the pyramid level of each region (by the logarithm of its size), and whether its area is positive."""
    sides = b(Sub, cut(b, rois, 2, 4, 1), cut(b, rois, 0, 2, 1))
    area = b(Mul, gather_index(b, sides, 0), gather_index(b, sides, 1))
    has_area = b(Greater, area, 0)
    side = b(Div, b(Sqrt, b(Where, has_area, area, 1)), _USUAL_SIDE)
    octaves = b(Div, b(Log, b(Add, side, 1e-6)), b.like(side, log(2)))
    level = b(Floor, b(Add, octaves, _USUAL_LEVEL))
    return b(Max, b(Min, level, count - 1), 0), has_area
