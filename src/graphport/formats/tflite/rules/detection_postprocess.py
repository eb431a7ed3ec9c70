"""TFLite_Detection_PostProcess: decode boxes from anchors and suppress overlapping ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.flexbuffers import FlexBufferError, read_numbers
from graphport.formats.tflite.rules.binding import Operator, import_rule
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Min, Mul, Sub
from graphport.ops.definitions.detection.suppression import NonMaxSuppression
from graphport.ops.definitions.indexing.gathering import Gather, GatherND
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reduction.indices import ArgMax, TopK
from graphport.ops.definitions.reduction.reduce import ReduceMax
from graphport.ops.definitions.reshape import Shape, Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat
from graphport.ops.lowering.operands import cast, reshaped, sizes, transposed, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_PER_CLASS = 100
"""Default maximum number of boxes per class."""


@dataclass(frozen=True, slots=True)
class _Options:
    most: int
    classes: int
    per_class: int
    overlap: float
    score: float
    scales: tuple[float, float, float, float]
    is_regular: bool


@import_rule("custom.TFLite_Detection_PostProcess")
def detection_post_process(op: Operator) -> tuple[Value, Value, Value, Value]:
    """Return boxes (y, x, y, x), classes, scores and count, zero-padded.

    Operands: boxes [1, n, 4] as center and size offsets from anchors (y, x, height, width), scores [1, n, classes],
    optionally with a background class first, anchors [n, 4].
    """
    b, options = op.b, _options(op)
    _, n, columns = sizes(op.dims(1, 3), "the scores")
    if columns not in (options.classes, options.classes + 1) or sizes(op.dims(0), "the boxes") != (1, n, 4):
        message = f"boxes {list(op.dims(0))} and scores {list(op.dims(1))} do not match {options.classes} classes"
        raise ShapeError(message, "expected boxes [1, n, 4], scores [1, n, classes] or [1, n, classes + 1]")
    corners = _corners(b, reshaped(b, op[0], (n, 4)), reshaped(b, op[2], (n, 4)), options.scales)
    scores = op[1]
    if columns > options.classes:
        scores = b(Slice, scores, [1], [columns], [2])
    scores = reshaped(b, scores, (n, options.classes))
    found = _regular(b, corners, scores, options) if options.is_regular else _fast(b, corners, scores, options)
    return _zero_padded(b, *found, options.most)


def _options(op: Operator) -> _Options:
    try:
        options: dict[str, Any] = read_numbers(bytes(op.option("custom_options", b"")))
        most, classes = int(options["max_detections"]), int(options["num_classes"])
        # Kernels compute in float32, where large values are infinite.
        with np.errstate(over="ignore"):
            scales = tuple(float(np.float32(float(options[f"{name}_scale"]))) for name in "yxhw")
            limits = [float(np.float32(float(options[f"nms_{name}_threshold"]))) for name in ("iou", "score")]
        kinds = int(options.get("max_classes_per_detection", 1))
    except (FlexBufferError, KeyError, TypeError) as error:
        message = f"custom_options: {error}"
        raise ShapeError(message, "custom_options must be a FlexBuffer map from names to scalars") from error
    is_regular = bool(options.get("use_regular_nms", False))
    per_class = int(options.get("detections_per_class", _PER_CLASS))
    if not is_regular and kinds != 1:
        message = f"max_classes_per_detection is {kinds}, expected 1 without use_regular_nms"
        raise UnsupportedError(message)
    if min(most, classes, per_class) < 1 or not 0 < limits[0] <= 1 or 0 in scales:
        message = f"custom_options is {options}"
        raise ShapeError(message, "expected positive counts, nms_iou_threshold above 0 and at most 1, nonzero scales")
    return _Options(most, classes, per_class, *limits, scales, is_regular)  # type: ignore[arg-type]


def _corners(b: Builder, boxes: Value, anchors: Value, scales: tuple[float, float, float, float]) -> Value:
    """Return the corners of boxes as ONNX expects: y, x, y, x."""
    near, size, anchor, extent = (b(Slice, x, [start], [start + 2], [1]) for x in (boxes, anchors) for start in (0, 2))
    steps = [b.constant(np.array(pair, np.float32)) for pair in (scales[:2], scales[2:])]
    centre = b(Add, b(Mul, b(Div, near, steps[0]), extent), anchor)
    half = b(Mul, b(Mul, b(Exp, b(Div, size, steps[1])), extent), 0.5)
    return b(Concat, b(Sub, centre, half), b(Add, centre, half), axis=1)


def _suppressed_rows(b: Builder, corners: Value, scores: Value, most: int, options: _Options) -> Value:
    """Return rows (batch, class, box) of selected boxes for scores [classes, n].

    A score equal to the threshold passes.
    """
    # ONNX requires scores above the threshold.
    least = np.nextafter(np.float32(options.score), np.float32(-np.inf))
    limits = b.constant(np.array([options.overlap], np.float32)), b.constant(np.array([least], np.float32))
    given = (b(Unsqueeze, x, [0]) for x in (corners, scores))
    return b(NonMaxSuppression, *given, vector(b, [most]), *limits)


def _column(b: Builder, rows: Value, place: int) -> Value:
    return reshaped(b, b(Slice, rows, [place], [place + 1], [1]), (-1,))


def _fast(b: Builder, corners: Value, scores: Value, options: _Options) -> tuple[Value, Value, Value]:
    """Fast mode: select boxes by the best class of each."""
    best = b(ReduceMax, scores, [1], keepdims=0)
    kinds = b(ArgMax, scores, axis=1, keepdims=0)
    rows = _suppressed_rows(b, corners, b(Unsqueeze, best, [0]), options.most, options)
    boxes = _column(b, rows, 2)
    return b(Gather, corners, boxes, axis=0), b(Gather, kinds, boxes, axis=0), b(Gather, best, boxes, axis=0)


def _regular(b: Builder, corners: Value, scores: Value, options: _Options) -> tuple[Value, Value, Value]:
    """Regular mode: select boxes per class, then the best of all classes."""
    rows = _suppressed_rows(b, corners, transposed(b, scores, (1, 0)), options.per_class, options)
    kinds, boxes = _column(b, rows, 1), _column(b, rows, 2)
    pairs = b(Concat, b(Unsqueeze, boxes, [1]), b(Unsqueeze, kinds, [1]), axis=1)
    found = b(GatherND, scores, pairs)
    count = b(Min, b(Shape, found), [options.most])
    best, order = b.results(TopK, 2, found, count, axis=0)
    return b(Gather, corners, b(Gather, boxes, order, axis=0), axis=0), b(Gather, kinds, order, axis=0), best


def _zero_padded(b: Builder, boxes: Value, kinds: Value, scores: Value, most: int) -> tuple[Value, Value, Value, Value]:
    count = b(Shape, scores)
    zeros = [b.constant(np.zeros(shape, np.float32)) for shape in ((most, 4), (most,), (most,))]
    kept = (boxes, cast(b, kinds, DType.FLOAT32), scores)
    first = [b(Slice, b(Concat, x, zero, axis=0), [0], [most], [0]) for x, zero in zip(kept, zeros, strict=True)]
    results = [b(Unsqueeze, x, [0]) for x in first]
    return results[0], results[1], results[2], cast(b, count, DType.FLOAT32)
