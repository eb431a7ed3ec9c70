"""Losses in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.log_likelihood import negative_log_likelihood
from graphport.ops.views.loss import NegativeLogLikelihoodLossView, SoftmaxCrossEntropyLossView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"


@NegativeLogLikelihoodLossView.lift("openvino")
def lift_negative_log_likelihood(b: Builder, op: NegativeLogLikelihoodLossView) -> Lifted:
    return (negative_log_likelihood(b, op.input, op.target, op.weight, op.ignore_index, op.reduction),)


@SoftmaxCrossEntropyLossView.lift("openvino")
def lift_softmax_cross_entropy(b: Builder, op: SoftmaxCrossEntropyLossView) -> Lifted:
    logarithms = emit(b, "opset5.LogSoftmax", op.scores, axis=1)
    loss = negative_log_likelihood(b, logarithms, op.labels, op.weights, op.ignore_index, op.reduction)
    return (loss, logarithms)[: b.count]
