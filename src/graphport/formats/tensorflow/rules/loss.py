"""Losses of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.definitions.activation import LogSoftmax, Softmax
from graphport.ops.definitions.arithmetic import Mul, Neg, Sub
from graphport.ops.definitions.indexing import OneHot
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.lowering.extents import extent
from graphport.ops.lowering.operands import as_int64, dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _cross_entropy(b: Builder, logits: Value, labels: Value) -> list[Value]:
    """The losses of rows, and their gradients."""
    loss = b(Neg, b(ReduceSum, b(Mul, labels, b(LogSoftmax, logits, axis=1)), [1], keepdims=0))
    return [loss, b(Sub, b(Softmax, logits, axis=1), labels)][: b.count]


@operator("SoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy(b: Builder, logits: Value, labels: Value) -> list[Value]:
    """Cross entropy of rows with probabilities."""
    return _cross_entropy(b, logits, labels)


@operator("SparseSoftmaxCrossEntropyWithLogits")
def sparse_softmax_cross_entropy(b: Builder, logits: Value, labels: Value) -> list[Value]:
    """Cross entropy of rows with the index of a class."""
    values = b.constant([0, 1], dtype_of(logits))
    return _cross_entropy(b, logits, b(OneHot, as_int64(b, labels), extent(b, logits, 1), values, axis=1))
