"""Loss functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import class_of_score
from graphport.ops.shapes import decided_equal_shapes, same_dim
from graphport.ops.special_functions import widened
from graphport.ops.types import FLOATS, INDICES, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.loss import NegativeLogLikelihoodLossView, SoftmaxCrossEntropyLossView

T = Annotated[Tensor, Types("T", FLOATS)]
Tind = Annotated[Tensor, Types("Tind", INDICES)]

_REDUCTIONS = ("none", "sum", "mean")


@viewed
def _loss_shape(op: NegativeLogLikelihoodLossView[TensorFact]) -> TensorFact:
    if op.reduction not in _REDUCTIONS:
        message = f"unknown reduction {op.reduction!r}"
        raise ShapeError(message, ", ".join(_REDUCTIONS))
    if op.input.shape is not None:
        if op.input.rank < 2:
            message = f"the scores have rank {op.input.rank}"
            raise ShapeError(message, "expected rank 2 or more: samples, classes, then other axes")
        if op.weight is not None and op.weight.shape is not None:
            same_dim(op.input.dims[1], op.weight.dims[0] if op.weight.rank else 1, "classes and weights")
        if op.target.shape is not None:
            expected = (op.input.dims[0], *op.input.dims[2:])
            decided_equal_shapes(op.target.shape, expected, "answers do not fit the scores")
    if op.reduction != "none":
        return op.input.with_shape(())
    if op.target.shape is not None or op.input.shape is None:
        return op.input.with_shape(op.target.shape)
    return op.input.with_shape((op.input.dims[0], *op.input.dims[2:]))


@op(
    shape=_loss_shape,
    since=12,
    outputs=("loss",),
    exactness="accumulation",
    holds={"target": class_of_score},
    ranks={"input": (2, None), "target": (1, None), "weight": 1},
)
def NegativeLogLikelihoodLoss(
    input: T, target: Tind, weight: T | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> T:
    """Logarithms of probabilities, negated, of the classes that `target` names, each times the class's `weight`.

    Where the class is `ignore_index` the loss and its weight are 0. `reduction` is `none`, `sum`, or `mean`: the sum by
    the sum of all weights.

    Shapes: input [N, C, *d], target [N, *d], weight [C] → [] or, without a reduction, [N, *d].

    Raises:
        ShapeError: an unknown reduction, or shapes that do not fit each other.
        IndexError: a class that is neither in the range nor ignored.

    Source: ONNX NegativeLogLikelihoodLoss-22.
    """
    return _loss(widened(input), target, weight, ignore_index, reduction).astype(input.dtype)


def _loss(
    logarithms: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int | None, reduction: str
) -> Tensor:
    ignored = np.zeros(target.shape, np.bool_) if ignore_index is None else target == ignore_index
    place = np.where(ignored, 0, target)
    if place.size and not 0 <= place.min() <= place.max() < logarithms.shape[1]:
        message = f"classes from {place.min()} to {place.max()} are not all below {logarithms.shape[1]}"
        raise IndexError(message)
    found = np.take_along_axis(logarithms, place[:, None], 1)[:, 0]
    weights = np.ones(1, logarithms.dtype) if weight is None else widened(weight)
    factor = np.where(ignored, 0, weights[place] if weight is not None else weights[0]).astype(logarithms.dtype)
    loss = np.where(ignored, 0, -found) * factor
    if reduction == "none":
        return loss
    total = np.sum(loss)
    return np.asarray(total if reduction == "sum" else total / np.sum(factor))


@viewed
def _entropy_shape(op: SoftmaxCrossEntropyLossView[TensorFact]) -> tuple[TensorFact, TensorFact]:
    loss = _loss_shape(op.scores, op.labels, op.weights, ignore_index=op.ignore_index, reduction=op.reduction)
    return loss, op.scores.with_shape(op.scores.shape)


@op(
    shape=_entropy_shape,
    since=12,
    outputs=("output", "log_prob"),
    exactness="accumulation",
    holds={"labels": class_of_score},
    # The logarithms of probabilities are a result of their own operator.
    decomposes="(NegativeLogLikelihoodLoss(logarithms := LogSoftmax(scores, axis=1), labels, weights, "
    "ignore_index=ignore_index, reduction=reduction), logarithms)",
    ranks={"scores": (2, None), "labels": (1, None), "weights": 1},
)
def SoftmaxCrossEntropyLoss(
    scores: T, labels: Tind, weights: T | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> tuple[T, T]:
    """`NegativeLogLikelihoodLoss` of `LogSoftmax` of the scores along the classes, and that logarithm.

    Shapes: scores [N, C, *d], labels [N, *d], weights [C] → [] or, without a reduction, [N, *d]; [N, C, *d].

    Raises:
        ShapeError: an unknown reduction, or shapes that do not fit each other.
        IndexError: a class that is neither in the range nor ignored.

    Source: ONNX SoftmaxCrossEntropyLoss-13.
    """
    wide = widened(scores)
    shifted = wide - np.max(wide, 1, keepdims=True, initial=-np.inf)
    logarithms = shifted - np.log(np.sum(np.exp(shifted), 1, keepdims=True))
    loss = _loss(logarithms, labels, weights, ignore_index, reduction)
    return loss.astype(scores.dtype), logarithms.astype(scores.dtype)
