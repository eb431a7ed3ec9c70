"""Losses in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.log_likelihood import negative_log_likelihood
from graphport.ops.dialects.openvino import loss_sequences as loss_sequences  # noqa: PLC0414  registers its rules
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
    return (negative_log_likelihood(b, input, target, weight, ignore_index, reduction),)


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
    loss = negative_log_likelihood(b, logarithms, labels, weights, ignore_index, reduction)
    return (loss, logarithms)[: b.count]
