"""Losses in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.openvino import loss_sequences as loss_sequences  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.openvino.arithmetic import emitted_cast
from graphport.ops.dialects.operands import dtype_of, vector
from graphport.ops.pages.loss import NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"


@NegativeLogLikelihoodLoss.lift("openvino")
def lift_negative_log_likelihood(
    b: Builder,
    input: Value,
    target: Value,
    weight: Value | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Lifted:
    return (_loss(b, input, target, weight, ignore_index, reduction),)


@SoftmaxCrossEntropyLoss.lift("openvino")
def lift_softmax_cross_entropy(
    b: Builder,
    scores: Value,
    labels: Value,
    weights: Value | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Lifted:
    logarithms = emit(b, "opset5.LogSoftmax", scores, axis=1)
    loss = _loss(b, logarithms, labels, weights, ignore_index, reduction)
    return (loss, logarithms)[: b.count]


def _loss(
    b: Builder, logarithms: Value, target: Value, weight: Value | None, ignore_index: int | None, reduction: str
) -> Value:
    """What stands at each answer, negated, times the weight of its class; what is ignored weighs nothing."""
    target = emitted_cast(b, target, DType.INT64)
    ignored = None if ignore_index is None else emit(b, "opset1.Equal", target, ignore_index)
    place = target if ignored is None else emit(b, "opset1.Select", ignored, b.like(target, 0), target)
    one = vector(b, [1])
    line = emit(b, "opset1.Unsqueeze", place, one)
    found = emit(b, "opset1.Squeeze", emit(b, "opset6.GatherElements", logarithms, line, axis=1), one)
    factor = _factor(b, logarithms, place, weight, ignored, reduction)
    loss = emit(b, "opset1.Negative", found)
    if factor is not None:
        loss = emit(b, "opset1.Multiply", loss, factor)
    if ignored is not None:
        loss = emit(b, "opset1.Select", ignored, b.like(loss, 0), loss)
    if reduction == "none":
        return loss
    every = vector(b, range(len(b.dims(loss))))
    if factor is None:
        word = "opset1.ReduceSum" if reduction == "sum" else "opset1.ReduceMean"
        return emit(b, word, loss, every, keep_dims=False)
    total = emit(b, "opset1.ReduceSum", loss, every, keep_dims=False)
    if reduction == "sum":
        return total
    return emit(b, "opset1.Divide", total, emit(b, "opset1.ReduceSum", factor, every, keep_dims=False))


def _factor(
    b: Builder, logarithms: Value, place: Value, weight: Value | None, ignored: Value | None, reduction: str
) -> Value | None:
    """The weight of each answer; `None` where all are 1 and nobody needs to know."""
    if weight is not None:
        zero = b.constant(np.array(0, np.int64))
        factor = emit(b, "opset8.Gather", emitted_cast(b, weight, dtype_of(logarithms)), place, zero)
        return factor if ignored is None else emit(b, "opset1.Select", ignored, b.like(logarithms, 0), factor)
    if ignored is None or reduction != "mean":
        return None
    return emitted_cast(b, emit(b, "opset1.LogicalNot", ignored), dtype_of(logarithms))
