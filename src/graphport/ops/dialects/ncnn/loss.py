"""Losses in ncnn, which has no words for them: what stands at each answer is gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.ops.dialects.log_likelihood import negative_log_likelihood
from graphport.ops.pages.activation import LogSoftmax
from graphport.ops.views.loss import NegativeLogLikelihoodLossView, SoftmaxCrossEntropyLossView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"


@NegativeLogLikelihoodLossView.lift("ncnn")
def lift_negative_log_likelihood(b: Builder, op: NegativeLogLikelihoodLossView) -> Lifted:
    return (negative_log_likelihood(b, op.input, op.target, op.weight, op.ignore_index, op.reduction),)


@SoftmaxCrossEntropyLossView.lift("ncnn")
def lift_softmax_cross_entropy(b: Builder, op: SoftmaxCrossEntropyLossView) -> Lifted:
    logarithms = b(LogSoftmax, op.scores, axis=1)
    return (negative_log_likelihood(b, logarithms, op.labels, op.weights, op.ignore_index, op.reduction), logarithms)[
        : b.count
    ]
