"""DetectionOutput of OpenVINO: decode priors, offsets and scores to detections (SSD)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.detection_boxes import LOWEST, Greedy, Overlap, best, grouped, narrowed, rows_of
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, GreaterOrEqual, Less, Not, Or, Where
from graphport.ops.definitions.indexing import Compress, GatherElements, ScatterElements, Slice
from graphport.ops.definitions.reduction import ArgMax, CumSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.extents import counted, cut, extent, fill, gather_index, joined
from graphport.ops.lowering.operands import cast, dtype_of, vector
from graphport.ops.view import Attributes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_CORNER, _CENTER = "caffe.priorboxparameter.corner", "caffe.priorboxparameter.center_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(Attributes):
    """Attributes of DetectionOutput."""

    background_label_id: int = 0
    top_k: int = -1
    variance_encoded_in_target: bool = False
    keep_top_k: tuple[int, ...] = ()
    code_type: str = "caffe.PriorBoxParameter.CORNER"
    share_location: bool = True
    nms_threshold: float = 0.0
    confidence_threshold: float = 0.0
    clip_after_nms: bool = False
    clip_before_nms: bool = False
    decrease_label_id: bool = False
    normalized: bool = False
    input_height: int = 1
    input_width: int = 1
    objectness_score: float = 0.0

    def check(self) -> None:
        if not self.keep_top_k:
            message = "keep_top_k is empty"
            raise ShapeError(message)
        if self.code_type.lower() not in (_CORNER, _CENTER):
            message = f"boxes of code_type {self.code_type!r}"
            raise UnsupportedError(message)

    @property
    def max_detections(self) -> int:
        """Detections of one picture, -1 for all."""
        return self.keep_top_k[0]


@Layer.lower("openvino", "opset1.DetectionOutput")
@Layer.lower("openvino", "opset8.DetectionOutput")
def detection_output(
    b: Builder,
    op: Layer,
    locations: Value,
    scores: Value,
    priors: Value,
    first_scores: Value | None = None,
    first_locations: Value | None = None,
    *,
    num_classes: int = 0,
) -> Value:
    """Return rows (image, class, score, corners) [1, 1, n, 7] of kept boxes; a row of -1 ends them."""
    del num_classes  # as many as there are scores of a prior
    op.check()
    dtype = dtype_of(locations)
    operands = [locations, scores, priors, first_scores, first_locations]
    wide = [None if x is None else cast(b, x, DType.FLOAT32) for x in operands]
    return cast(b, _Detector(b, op).detections(*wide), dtype)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, slots=True)
class _Detector:
    """Emits a DetectionOutput layer with the attributes `stated`."""

    b: Builder
    stated: Layer

    def detections(
        self, locations: Value, scores: Value, priors: Value, first_scores: Value | None, first_locations: Value | None
    ) -> Value:
        b, stated = self.b, self.stated
        width = 4 if stated.normalized else 5
        count = b(Div, extent(b, priors, 2), [width])
        boxes, variances, is_used = self._priors(priors, count, width)
        if first_locations is not None:
            boxes = self._decoded(boxes, self._offsets(first_locations, count), variances)
        boxes = self._decoded(boxes, self._offsets(locations, count), variances)
        marks = b(Transpose, b(Reshape, scores, joined(b, 0, count, -1)), perm=(0, 2, 1))
        if first_scores is not None:
            marks = self._refined(marks, b(Reshape, first_scores, joined(b, 0, count, 2)))
        if is_used is not None:
            marks = b(Where, is_used, marks, b.like(marks, LOWEST))
        shape = joined(b, b(Shape, marks), 4)
        table = b(Expand, boxes, shape)
        kept = self._suppress(table, self._candidates(marks))
        return self._rows(table, self._limited(kept))

    def _priors(self, priors: Value, count: Value, width: int) -> tuple[Value, Value | None, Value | None]:
        """Return normalized boxes [B, 1, P, 4], variances, and which boxes [B, 1, P] are valid."""
        b, stated = self.b, self.stated
        own = b(Reshape, cut(b, priors, 0, 1, 1), joined(b, 0, 1, count, width))
        variances = None
        if not stated.variance_encoded_in_target:
            flat = b(Slice, cut(b, priors, 1, 2, 1), vector(b, [0]), self._times(count, 4), [2])
            variances = b(Reshape, flat, joined(b, 0, 1, count, 4))
        if stated.normalized:
            return own, variances, None
        is_end = b(Equal, gather_index(b, own, 0), -1)
        ended = b(CumSum, cast(b, is_end, DType.INT64), 2)
        return cut(b, own, 1, 5, 3), variances, b(Equal, ended, 0)

    def _times(self, length: Value, factor: int) -> Value:
        return self.b(Mul, length, [factor])

    def _offsets(self, locations: Value, count: Value) -> Value:
        """Return offsets [N, L, P, 4], L being 1 if classes share locations."""
        b = self.b
        classes = 1 if self.stated.share_location else -1
        shape = joined(b, 0, *((-1, 1) if classes == 1 else (count, -1)), 4)
        return b(Transpose, b(Reshape, locations, shape), perm=(0, 2, 1, 3))

    def _decoded(self, boxes: Value, offsets: Value, variances: Value | None) -> Value:
        """Corners of boxes moved by offsets."""
        b, stated = self.b, self.stated
        if not stated.normalized:
            size = [stated.input_width, stated.input_height]
            boxes = b(Div, boxes, b.like(boxes, size * 2))
        if variances is not None:
            offsets = b(Mul, variances, offsets)
        found = b(Add, boxes, offsets) if stated.code_type.lower() == _CORNER else self._centered(boxes, offsets)
        return self._clipped(found) if stated.clip_before_nms else found

    def _centered(self, boxes: Value, offsets: Value) -> Value:
        b = self.b
        low, high = cut(b, boxes, 0, 2, 3), cut(b, boxes, 2, 4, 3)
        half = b.like(boxes, 0.5)
        size, middle = b(Sub, high, low), b(Mul, b(Add, low, high), half)
        middle = b(Add, b(Mul, cut(b, offsets, 0, 2, 3), size), middle)
        reach = b(Mul, b(Mul, b(Exp, cut(b, offsets, 2, 4, 3)), size), half)
        return b(Concat, b(Sub, middle, reach), b(Add, middle, reach), axis=3)

    def _clipped(self, boxes: Value) -> Value:
        return self.b(Clip, boxes, 0, 1)

    def _refined(self, marks: Value, first: Value) -> Value:
        """Refine scores [N, C, P]: boxes with low objectness [N, P, 2] are background."""
        b, stated = self.b, self.stated
        is_nothing = b(Less, gather_index(b, first, 1), b.like(first, stated.objectness_score))
        classes = b(Unsqueeze, counted(b, extent(b, marks, 1)), [1])
        background = cast(b, b(Equal, classes, stated.background_label_id), dtype_of(marks))
        return b(Where, b(Unsqueeze, is_nothing, [1]), background, marks)

    def _candidates(self, marks: Value) -> Value:
        """Return scores [N, C, P], with the lowest float32 for scores below the threshold and the background."""
        b, stated = self.b, self.stated
        classes = b(Unsqueeze, counted(b, extent(b, marks, 1)), [1])
        is_background = b(Equal, classes, stated.background_label_id)
        lowest = b.like(marks, LOWEST)
        if not stated.decrease_label_id:
            is_good = b(And, b(Greater, marks, b.like(marks, stated.confidence_threshold)), b(Not, is_background))
            return b(Where, is_good, marks, lowest)
        # Each box is of its best class alone, and the first class is never one.
        is_out = b(Or, is_background, b(Equal, classes, 0))
        open_ = b(Where, is_out, lowest, marks)
        is_best = b(Equal, classes, b(ArgMax, open_, axis=1))
        least = max(stated.confidence_threshold, float(np.nextafter(np.float32(-1), np.float32(0))))
        is_good = b(And, is_best, b(GreaterOrEqual, open_, b.like(marks, least)))
        found = b(Where, is_good, open_, lowest)
        return self._top(found, stated.top_k) if stated.top_k > -1 else found

    def _top(self, marks: Value, max_detections: int) -> Value:
        """Keep the largest `max_detections` scores over all classes [N, C, P]; set all others to the lowest number."""
        b = self.b
        permuted = b(Transpose, marks, perm=(0, 2, 1))
        flat = b(Reshape, permuted, joined(b, extent(b, marks, 0), -1))
        found, indices = best(b, flat, max_detections)
        nothing = b(Expand, b.like(marks, LOWEST), b(Shape, flat))
        left = b(Reshape, b(ScatterElements, nothing, indices, found, axis=1), b(Shape, permuted))
        return b(Transpose, left, perm=(0, 2, 1))

    def _suppress(self, table: Value, marks: Value) -> Value:
        """Apply greedy NMS to the scores [N, C, P] of each class; set suppressed scores to the lowest number."""
        b, stated = self.b, self.stated
        found, indices = best(b, marks, -1 if stated.decrease_label_id else stated.top_k)
        usable, found, indices = narrowed(b, b(Greater, found, b.like(found, LOWEST)), found, indices)
        boxes = rows_of(b, grouped(b, table, 2), grouped(b, indices, 1))
        greedy = Greedy(Overlap(shares_something=True), stated.nms_threshold)
        kept = greedy(b, boxes, cast(b, grouped(b, usable, 1), DType.FLOAT32))
        kept = b(Reshape, b(Greater, kept, 0), b(Shape, indices))
        nothing = b(Expand, b.like(marks, LOWEST), b(Shape, marks))
        return b(ScatterElements, nothing, indices, b(Where, kept, found, b.like(found, LOWEST)), axis=2)

    def _limited(self, marks: Value) -> Value:
        return self._top(marks, self.stated.max_detections) if self.stated.max_detections > -1 else marks

    def _rows(self, table: Value, marks: Value) -> Value:
        """Return the detections by image and class, descending by score: [1, 1, n, 7]."""
        b, stated = self.b, self.stated
        found, indices = best(b, marks)
        corners = b(GatherElements, table, b(Expand, b(Unsqueeze, indices, [3]), b(Shape, table)), axis=2)
        if stated.clip_after_nms:
            corners = self._clipped(corners)
        numbers = [counted(b, extent(b, marks, axis)) for axis in (0, 1)]
        if stated.decrease_label_id:
            numbers[1] = b(Sub, numbers[1], 1)
        named = [
            b(Unsqueeze, cast(b, each, DType.FLOAT32), axes) for each, axes in zip(numbers, ([1, 2], [1]), strict=True)
        ]
        columns = [b(Unsqueeze, b(Expand, each, b(Shape, found)), [3]) for each in named]
        scores = b(Unsqueeze, found, [3])
        rows = b(Reshape, b(Concat, *columns, scores, corners, axis=3), [-1, 7])
        is_there = b(Greater, b(Reshape, found, [-1]), b.like(found, LOWEST))
        rows = b(Compress, rows, is_there, axis=0)
        length = self._length(marks)
        end = b.constant(np.array([[-1, 0, 0, 0, 0, 0, 0]], np.float32))
        whole = b(Concat, rows, end, fill(b, 0.0, DType.FLOAT32, length, 7), axis=0)
        return b(Unsqueeze, b(Slice, whole, [0], length, [0]), [0, 1])

    def _length(self, marks: Value) -> Value:
        """Return the number of output rows."""
        b, stated = self.b, self.stated
        if stated.max_detections > 0:
            return self._times(extent(b, marks, 0), stated.max_detections)
        both = b(Mul, extent(b, marks, 0), extent(b, marks, 1))
        return self._times(both, stated.top_k) if stated.top_k > 0 else b(Mul, both, extent(b, marks, 2))
