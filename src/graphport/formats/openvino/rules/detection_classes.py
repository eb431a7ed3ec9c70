"""Detections of many classes in OpenVINO: by suppression, or with scores that fall with the overlap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.detection_boxes import (
    LOWEST,
    Greedy,
    Overlap,
    best,
    grouped,
    in_order,
    narrowed,
    rows_of,
)
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, GreaterOrEqual, IsNaN, Less, Not, Where
from graphport.ops.definitions.indexing import Compress, Gather, GatherElements, ScatterElements
from graphport.ops.definitions.reduction import CumSum, ReduceMax, ReduceMin, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.extents import counted, extent, joined
from graphport.ops.lowering.operands import as_int64, cast, dtype_of, index, vector
from graphport.ops.view import Attributes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_MANY = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Attributes):
    """Attributes of MatrixNms and MulticlassNms: selection of boxes and order of detections."""

    sort_result_type: str = "none"
    output_type: DType = DType.INT64
    nms_top_k: int = -1
    keep_top_k: int = -1
    sort_result_across_batch: bool = False
    score_threshold: float = 0.0
    background_class: int = -1
    normalized: bool = True

    @property
    def overlap(self) -> Overlap:
        """Return the IoU function; corners that are not normalized are inclusive pixel indices."""
        return Overlap(offset=0.0 if self.normalized else 1.0)


@Listing.lower("openvino", "opset8.MatrixNms")
def matrix_suppression(
    b: Builder,
    op: Listing,
    boxes: Value,
    scores: Value,
    *,
    decay_function: str = "linear",
    gaussian_sigma: float = 2.0,
    post_threshold: float = 0.0,
) -> tuple[Value, ...]:
    """Matrix NMS: keep boxes whose decayed score is above `post_threshold`."""
    found, indices = best(b, scores, op.nms_top_k)
    usable, found, indices = narrowed(b, b(Greater, found, b.like(found, op.score_threshold)), found, indices)
    candidates = rows_of(b, boxes, b(Reshape, indices, joined(b, extent(b, indices, 0), -1)))
    candidates = b(Reshape, candidates, joined(b, b(Shape, indices), 4))
    overlap = replace(op.overlap, inverted_is_empty=True)
    marks = b(Mul, found, _decay(b, candidates, overlap, decay_function, gaussian_sigma))
    kept = b(And, usable, b(Greater, marks, post_threshold))
    across = op.sort_result_type if op.sort_result_across_batch else "none"
    table = _Table.shared(b, boxes, scores)
    marks = table.marks(b, scores, indices, marks, kept, op.background_class)
    return table.detections(b, marks, op.keep_top_k, "none", across, op.output_type)


def _decay(b: Builder, boxes: Value, overlap: Overlap, function: str, sigma: float) -> Value:
    """Return the decay factors of the scores [N, C, K] of sorted boxes, at most 1."""
    area = overlap.area(b, boxes)
    row, column = vector(b, [-2]), vector(b, [-1])
    pairs = [(b(Unsqueeze, boxes, [at]), b(Unsqueeze, area, along)) for at, along in ((3, column), (2, row))]
    shared = overlap(b, *pairs[0], *pairs[1])
    every = counted(b, extent(b, boxes, 2))
    is_better = b(Less, every, b(Unsqueeze, every, [1]))
    counts = b(And, is_better, b(Not, b(IsNaN, shared)))
    worst = b(ReduceMax, b(Where, counts, shared, 0), column, keepdims=0)
    limit = b(Unsqueeze, worst, row)
    one = b.like(shared, 1)
    if function == "gaussian":
        gap = b(Sub, b(Mul, limit, limit), b(Mul, shared, shared))
        each = b(Exp, b(Mul, gap, sigma))
    else:
        each = b(Div, b(Sub, one, shared), b(Add, b(Sub, one, limit), 1e-10))
    return b(ReduceMin, b(Where, counts, each, one), column, keepdims=0)


@Listing.lower("openvino", "opset8.MulticlassNms")
@Listing.lower("openvino", "opset9.MulticlassNms")
def multiclass_suppression(
    b: Builder,
    op: Listing,
    boxes: Value,
    scores: Value,
    owned: Value | None = None,
    *,
    iou_threshold: float = 0.0,
    nms_eta: float = 1.0,
) -> tuple[Value, ...]:
    """Non-maximum suppression per class."""
    if owned is None:
        table = _Table.shared(b, boxes, scores)
    else:
        table, scores = _Table.owned(b, boxes, scores, owned)
    found, indices = best(b, scores, op.nms_top_k)
    usable, found, indices = narrowed(b, b(GreaterOrEqual, found, b.like(found, op.score_threshold)), found, indices)
    candidates = rows_of(b, grouped(b, table.boxes, 2), grouped(b, indices, 1))
    overlap = replace(op.overlap, must_touch=False, must_have_area=True)
    greedy = Greedy(overlap, iou_threshold, at_threshold=True, eta=nms_eta)
    kept = greedy(b, candidates, cast(b, grouped(b, usable, 1), dtype_of(boxes)))
    kept = b(Reshape, b(Greater, kept, 0), b(Shape, indices))
    marks = table.marks(b, scores, indices, found, kept, op.background_class)
    order = op.sort_result_type
    within, across = ("none", order) if op.sort_result_across_batch else (order, "none")
    return table.detections(b, marks, op.keep_top_k, within, across, op.output_type)


@dataclass(frozen=True, slots=True)
class _Table:
    """The boxes of each class [N, C, M, 4]; `per_class` means that boxes are not shared by classes."""

    boxes: Value
    per_class: bool

    @classmethod
    def shared(cls, b: Builder, boxes: Value, scores: Value) -> _Table:
        """Create a table from boxes [N, M, 4] that all classes of scores [N, C, M] share."""
        shape = joined(b, b(Shape, scores), 4)
        return cls(b(Expand, b(Unsqueeze, boxes, [1]), shape), per_class=False)

    @classmethod
    def owned(cls, b: Builder, boxes: Value, scores: Value, counts: Value) -> tuple[_Table, Value]:
        """Split boxes [C, M, 4] and scores [C, M] by image; the first `counts[0]` belong to image 0, and so on.

        Scores are returned as [N, C, M]; boxes of other images get the lowest score.
        """
        counts = as_int64(b, counts)
        ends = b(CumSum, counts, 0)
        starts = b(Sub, ends, counts)
        every = counted(b, extent(b, scores, 1))
        column = vector(b, [1])
        is_begun = b(GreaterOrEqual, every, b(Unsqueeze, starts, column))
        is_own = b(And, b(Less, every, b(Unsqueeze, ends, column)), is_begun)
        found = b(Where, b(Unsqueeze, is_own, column), b(Unsqueeze, scores, [0]), b.like(scores, LOWEST))
        shape = joined(b, b(Shape, found), 4)
        return cls(b(Expand, b(Unsqueeze, boxes, [0]), shape), per_class=True), found

    def marks(self, b: Builder, scores: Value, indices: Value, found: Value, kept: Value, background: int) -> Value:
        """Return scores [N, C * M] of kept boxes; all others get the lowest score."""
        nothing = b(Expand, b.like(scores, LOWEST), b(Shape, scores))
        marks = b(ScatterElements, nothing, indices, b(Where, kept, found, b.like(found, LOWEST)), axis=2)
        if background >= 0:
            is_background = b(Equal, counted(b, extent(b, scores, 1)), index(b, background))
            marks = b(Where, b(Unsqueeze, is_background, [1]), b.like(marks, LOWEST), marks)
        return b(Reshape, marks, joined(b, extent(b, marks, 0), -1))

    def detections(
        self, b: Builder, marks: Value, keep_top_k: int, within: str, across: str, output_type: DType
    ) -> tuple[Value, ...]:
        """Return rows of class, score and corners; box indices; and the number of detections per image."""
        if within not in ("none", "score", "classid") or across not in ("none", "score", "classid"):
            message = f"detections sorted by {within} within a class or {across} across classes"
            raise UnsupportedError(message)
        length = extent(b, self.boxes, 2)
        found, indices = best(b, marks, keep_top_k)
        if within == "classid":
            order = in_order(b, self._classes(b, found, indices, length), largest=False)
            found, indices = (b(GatherElements, each, order, axis=1) for each in (found, indices))
        is_there = b(Greater, found, b.like(found, LOWEST))
        counts = b(ReduceSum, cast(b, is_there, DType.INT64), [1], keepdims=0)
        boxes = b(Reshape, self.boxes, joined(b, extent(b, self.boxes, 0), -1, 4))
        corners = b(Reshape, rows_of(b, boxes, indices), [-1, 4])
        pictures = b(Unsqueeze, counted(b, extent(b, found, 0)), [1])
        numbers = b(Reshape, self._box_numbers(b, pictures, indices, length), [-1])
        classes = b(Reshape, self._classes(b, found, indices, length), [-1])
        found = b(Reshape, found, [-1])
        columns = [cast(b, classes, dtype_of(found)), found]
        rows = b(Concat, *(b(Unsqueeze, each, [1]) for each in columns), corners, axis=1)
        is_there = b(Greater, found, b.like(found, LOWEST))
        if across != "none":
            order = in_order(b, *((found,) if across == "score" else (classes,)), largest=across == "score")
            rows, numbers, is_there = (b(Gather, each, order) for each in (rows, numbers, is_there))
        rows, numbers = (b(Compress, each, is_there, axis=0) for each in (rows, numbers))
        numbers = cast(b, b(Unsqueeze, numbers, [1]), output_type)
        return rows, numbers, cast(b, counts, output_type)

    def _classes(self, b: Builder, found: Value, indices: Value, length: Value) -> Value:
        """Return the class of each index; discarded boxes sort last."""
        classes = b(Div, indices, length)
        return b(Where, b(Greater, found, b.like(found, LOWEST)), classes, index(b, _MANY))

    def _box_numbers(self, b: Builder, pictures: Value, indices: Value, length: Value) -> Value:
        """Number boxes over all images, or class by class if `per_class`."""
        box = b(Sub, indices, b(Mul, b(Div, indices, length), length))
        if not self.per_class:
            return b(Add, b(Mul, pictures, length), box)
        return b(Add, b(Mul, box, extent(b, self.boxes, 1)), b(Div, indices, length))
