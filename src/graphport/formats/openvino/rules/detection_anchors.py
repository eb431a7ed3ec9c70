"""Proposal-1 of OpenVINO: region proposals from anchor boxes at every cell of a feature map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.detection_boxes import Greedy, Overlap, best, rows_of
from graphport.formats.openvino.rules.detection_proposals import are_large, grown, inside, per_cell, ranked
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Sub
from graphport.ops.definitions.comparison import Equal, Greater, Where
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Squeeze, Unsqueeze
from graphport.ops.lowering.extents import counted, cut, extent, fill
from graphport.ops.lowering.operands import cast, dtype_of, sizes, vector
from graphport.ops.view import Attributes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Reals = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors(Attributes):
    """Anchor boxes with the area base_size², one per ratio (height / width) and scale.

    Caffe counts the last pixel of a box as inside, and rounds sides; TensorFlow does neither, has the middle of boxes
    at 0, and exchanges the axes of the map.
    """

    base_size: int
    ratio: Reals
    scale: Reals
    framework: str = ""

    @property
    def is_tensorflow(self) -> bool:
        """Whether the anchors use TensorFlow's conventions."""
        return self.framework == "tensorflow"

    @property
    def count(self) -> int:
        """Number of anchors per cell."""
        return len(self.ratio) * len(self.scale)

    @property
    def offset(self) -> float:
        """Offset added to the difference of two corners for a side length."""
        return 0.0 if self.is_tensorflow else 1.0

    def corners(self) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """Return the corners [count, 4] of the anchors of the first cell."""
        ratios = np.array(self.ratio, np.float32)
        if not (ratios > 0).all():
            message = f"ratio is {list(self.ratio)}"
            raise ShapeError(message, "expected positive values")
        w = np.sqrt(np.float32(self.base_size * self.base_size) / ratios)
        if not self.is_tensorflow:
            w = np.floor(w + np.float32(0.5))
        h = w * ratios
        if not self.is_tensorflow:
            h = np.floor(h + np.float32(0.5))
        sides = np.stack([w, h], -1)[:, None] * np.array(self.scale, np.float32)[:, None]
        reach = np.float32(0.5) * (sides.reshape(-1, 2) - np.float32(self.offset))
        middle = np.float32(0.0 if self.is_tensorflow else 0.5 * (self.base_size - 1))
        return np.concatenate([middle - reach, middle + reach], axis=-1)


@Anchors.lower("openvino", "opset1.Proposal")
@Anchors.lower("openvino", "opset4.Proposal")
def proposal(
    b: Builder,
    anchors: Anchors,
    scores: Value,
    deltas: Value,
    picture: Value,
    *,
    pre_nms_topn: int,
    post_nms_topn: int,
    nms_thresh: float,
    feat_stride: int,
    min_size: int,
    clip_before_nms: bool = True,
    clip_after_nms: bool = False,
    normalize: bool = False,
    box_size_scale: float = 1.0,
    box_coordinate_scale: float = 1.0,
) -> tuple[Value, ...]:
    """Region proposals of all images, each with its batch index, and their scores.

    If an image has fewer than `post_nms_topn`, a row that starts with -1 and rows of zeros follow.
    """
    if anchors.framework not in ("", "tensorflow"):
        message = f"proposals of the framework {anchors.framework!r}"
        raise UnsupportedError(message)
    dtype = dtype_of(scores)
    scores, deltas, picture = (cast(b, x, DType.FLOAT32) for x in (scores, deltas, picture))
    _check(b, scores, anchors, pre_nms_topn, post_nms_topn)
    size = b(Gather, picture, [0, 1] if anchors.is_tensorflow else [1, 0], axis=0)
    start = _around_cells(b, scores, anchors, feat_stride)
    if anchors.is_tensorflow:
        start = inside(b, start, size)
    moves = per_cell(b, deltas, 4)
    shifts, growth = cut(b, moves, 0, 2, -1), cut(b, moves, 2, 4, -1)
    shifts = b(Div, shifts, box_coordinate_scale)
    growth = b(Div, growth, box_size_scale)
    boxes = b(Concat, *grown(b, start, shifts, growth, anchors.offset), axis=-1)
    if clip_before_nms:
        boxes = inside(b, boxes, b(Sub, size, b.like(size, anchors.offset)))
    # One scale for both axes, or one for each, of which height is the first.
    scales = b(Concat, *(b(Gather, picture, [place], axis=0) for place in (-1, 2)), axis=0)
    least = b(Mul, scales, min_size)
    marks = b(Squeeze, per_cell(b, cut(b, scores, anchors.count, 2 * anchors.count, 1), 1), [2])
    marks = b(Mul, marks, cast(b, are_large(b, boxes, anchors.offset, least), DType.FLOAT32))
    found, indices = best(b, marks, pre_nms_topn)
    boxes = rows_of(b, boxes, indices)
    every = b(Expand, b.like(found, 1), b(Shape, found))
    is_kept = ranked(b, Greedy(Overlap(anchors.offset), nms_thresh)(b, boxes, every), post_nms_topn)
    if clip_after_nms:
        boxes = inside(b, boxes, size)
    if normalize:
        boxes = b(Div, boxes, b(Concat, size, size, axis=0))
    made = _listed(b, is_kept, boxes, found, post_nms_topn)
    return tuple(cast(b, each, dtype) for each in made[: b.count])


def _check(b: Builder, scores: Value, anchors: Anchors, before: int, after: int) -> None:
    """Check counts against the shape of the scores, and side lengths."""
    count, base = anchors.count, anchors.base_size
    (channels,) = sizes(b.dims(scores, 4)[1:2], "the number of scores per position")
    if channels != 2 * count or not count:
        message = f"{channels} scores per position for {count} boxes"
        raise ShapeError(message, "expected two scores for each pair of a ratio and a scale")
    if not 0 < base < 1 << 31:
        message = f"base_size is {base}"
        raise ShapeError(message, "a positive number")
    if before < 1 or after < 1:
        message = f"pre_nms_topn is {before}, post_nms_topn {after}"
        raise UnsupportedError(message)


def _around_cells(b: Builder, scores: Value, anchors: Anchors, stride: int) -> Value:
    """Return the anchors of every cell: [1, H * W * count, 4]."""
    axes: list[Value] = []
    for axis, shape in ((2, [-1, 1, 1, 1]), (3, [1, -1, 1, 1])):
        steps = cast(b, counted(b, extent(b, scores, axis)), DType.FLOAT32)
        axes.append(b(Reshape, b(Mul, steps, stride), shape))
    # [H, 1, 1, 1] and [1, W, 1, 1]; boxes begin with x.
    x, y = axes if anchors.is_tensorflow else reversed(axes)
    columns = [np.array([number, 1 - number] * 2, np.float32) for number in (1, 0)]
    shifts = b(Add, *(b(Mul, side, b.constant(column)) for side, column in zip((x, y), columns, strict=True)))
    return b(Reshape, b(Add, shifts, b.constant(anchors.corners())), [1, -1, 4])


def _listed(b: Builder, is_kept: Value, boxes: Value, scores: Value, most: int) -> tuple[Value, Value]:
    """Return the kept boxes [N, K, 4] and scores [N, K], in `most` rows per image."""
    batch = extent(b, scores, 0)
    marks = cast(b, is_kept, DType.FLOAT32)
    padded = [
        b(Concat, each, fill(b, 0.0, DType.FLOAT32, batch, most, *tail), axis=1)
        for each, tail in ((marks, ()), (scores, ()), (boxes, (4,)))
    ]
    # TopK puts the first of equal elements first, so the order is preserved.
    found, indices = best(b, padded[0], most)
    is_there = b(Greater, found, 0)
    column = vector(b, [2])
    chosen = b(Squeeze, rows_of(b, b(Unsqueeze, padded[1], column), indices), column)
    chosen = b(Where, is_there, chosen, 0)
    rows = rows_of(b, padded[2], indices)
    rows = b(Where, b(Unsqueeze, is_there, column), rows, 0)
    count = b(ReduceSum, marks, [1])
    steps = cast(b, counted(b, vector(b, [most])), DType.FLOAT32)
    is_end = b(Equal, steps, count)
    owners = b(Unsqueeze, cast(b, counted(b, batch), DType.FLOAT32), [1])
    owners = b(Where, is_there, owners, b(Where, is_end, b.like(found, -1), b.like(found, 0)))
    rows = b(Concat, b(Unsqueeze, owners, column), rows, axis=2)
    return b(Reshape, rows, [-1, 5]), b(Reshape, chosen, [-1])
