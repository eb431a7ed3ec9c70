"""Losses in TFLite, which has no words for them: what stands at each answer is gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.ops.dialects.log_likelihood import negative_log_likelihood
from graphport.ops.pages.activation import LogSoftmax
from graphport.ops.pages.loss import NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"


@NegativeLogLikelihoodLoss.lift("tflite")
def lift_negative_log_likelihood(
    b: Builder,
    input: Value,
    target: Value,
    weight: Value | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Lifted:
    return (negative_log_likelihood(b, input, target, weight, ignore_index, reduction),)


@SoftmaxCrossEntropyLoss.lift("tflite")
def lift_softmax_cross_entropy(
    b: Builder,
    scores: Value,
    labels: Value,
    weights: Value | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Lifted:
    logarithms = b(LogSoftmax, scores, axis=1)
    return (negative_log_likelihood(b, logarithms, labels, weights, ignore_index, reduction), logarithms)[: b.count]
