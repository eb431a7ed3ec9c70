"""Boxes in TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.dialects.operands import as_int64, as_scalar, as_vector, cast, real, reshaped, vector
from graphport.ops.dialects.tflite.binding import Operator, word
from graphport.ops.dialects.tflite.detection_soft_nms import soft_nms
from graphport.ops.pages.arithmetic import Mul
from graphport.ops.pages.detection.suppression import NonMaxSuppression
from graphport.ops.pages.indexing.gathering import Gather
from graphport.ops.pages.indexing.slicing import Slice
from graphport.ops.pages.reshape import Shape, Unsqueeze
from graphport.ops.pages.reshape.pieces import Concat, Expand

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _chosen(op: Operator) -> tuple[Value, Value, Value]:
    """The numbers of the boxes that are kept, how many are wanted and how many there are."""
    b = op.b
    boxes, scores = b(Unsqueeze, op[0], vector(b, [0])), b(Unsqueeze, op[1], vector(b, [0, 1]))
    most = as_vector(b, op.raw(2))
    # What overlaps just so much is kept in ONNX, and suppressed here: the next number below.
    overlap = b(Mul, as_scalar(b, op.raw(3)), b.like(op.raw(3), 1 - 2.0**-24))
    told = b(NonMaxSuppression, boxes, scores, most, overlap, as_scalar(b, op.raw(4)))
    numbers = reshaped(b, b(Slice, told, vector(b, [2]), vector(b, [3]), vector(b, [1])), (-1,))
    return numbers, most, b(Shape, numbers)


def _zero_padded(b: Builder, x: Value, most: Value) -> Value:
    """x with zeros behind it, as many as there are to be."""
    zeros = b(Expand, b.like(x, 0), most)
    return b(Slice, b(Concat, x, zeros, axis=0), vector(b, [0]), most, vector(b, [0]))


@word("NON_MAX_SUPPRESSION_V4")
def non_max_suppression_v4(op: Operator) -> tuple[Value, Value]:
    """The numbers of the boxes that are kept, zeros behind them, and how many they are."""
    b = op.b
    numbers, most, count = _chosen(op)
    return cast(b, _zero_padded(b, numbers, most), DType.INT32), as_scalar(b, cast(b, count, DType.INT32))


@word("NON_MAX_SUPPRESSION_V5")
def non_max_suppression_v5(op: Operator) -> tuple[Value, Value, Value]:
    """The same with the scores of the boxes."""
    b = op.b
    if real(op.raw(5)) != 0:
        return soft_nms(op)
    numbers, most, count = _chosen(op)
    scores = _zero_padded(b, b(Gather, op[1], numbers, axis=0), most)
    kept = cast(b, _zero_padded(b, as_int64(b, numbers), most), DType.INT32)
    return kept, scores, as_scalar(b, cast(b, count, DType.INT32))
