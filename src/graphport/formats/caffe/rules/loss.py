"""Loss and accuracy layers of Caffe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.caffe.rules.binding import Layer, layer
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import LogSoftmax, Softmax, Softplus
from graphport.ops.definitions.arithmetic import Add, Div, Log, Max, Mul, Neg, Sqrt, Sub
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.comparison import Equal, GreaterOrEqual, LessOrEqual, Not, Where
from graphport.ops.definitions.indexing.gathering import GatherElements
from graphport.ops.definitions.reduction import ReduceSum, ReduceSumSquare
from graphport.ops.definitions.reshape import Flatten, Reshape, Shape, Size, Squeeze

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value

_LEAST = 1e-20
"""Lower bound of probabilities in logarithms."""


@layer("EuclideanLoss", "loss_param", bottoms=2)
def euclidean_loss(at: Layer) -> Value:
    """Euclidean loss: Σ (x - y)² / (2 * batch size)."""
    difference = at.b(Sub, *at.bottoms)
    total = at.b(ReduceSumSquare, difference, keepdims=0)
    return at.b(Div, total, at.b(Mul, _batch(at), at.float_scalar(2)))


def _batch(at: Layer) -> Value:
    return at.b(Squeeze, at.b(Cast, at.b(Shape, at.x, end=1), to=DType.FLOAT32))


@layer("SoftmaxWithLoss", "softmax_param", "loss_param", bottoms=2)
def softmax_with_loss(
    at: Layer,
    *,
    axis: int = 1,
    ignore_label: int | None = None,
    normalize: bool | None = None,
    normalization: str | None = None,
) -> tuple[Value, ...]:
    """Softmax cross entropy, the mean of -log(p[label]); the second top is the softmax."""
    place, x = at.axis(axis), at.x
    labels, ignored = _labels(at, place, ignore_label)
    chosen = labels if ignored is None else at.b(Where, ignored, 0, labels)
    losses = at.b(Neg, at.b(GatherElements, at.b(LogSoftmax, x, axis=place), chosen, axis=place))
    if ignored is not None:
        losses = at.b(Where, ignored, at.float_scalar(0), losses)
    total = at.b(ReduceSum, losses, keepdims=0)
    mode = normalization or ("BATCH_SIZE" if normalize is False else "VALID")
    loss = _normalized(at, total, labels, ignored, mode)
    return (loss, at.b(Softmax, x, axis=place))[: at.tops]


def _normalized(at: Layer, total: Value, labels: Value, ignored: Value | None, mode: str) -> Value:
    match mode:
        case "NONE":
            return total
        case "BATCH_SIZE":
            return at.b(Div, total, _batch(at))
        case "VALID" if ignored is not None:
            valid = at.b(ReduceSum, at.b(Cast, at.b(Not, ignored), to=DType.FLOAT32), keepdims=0)
            return at.b(Div, total, at.b(Max, valid, at.float_scalar(1)))
        case "VALID" | "FULL":
            return at.b(Div, total, at.b(Cast, at.b(Size, labels), to=DType.FLOAT32))
        case _:
            message = f"normalization is {mode}"
            raise UnsupportedError(message)


def _labels(at: Layer, place: int, ignore_label: int | None) -> tuple[Value, Value | None]:
    """Return the labels as integers with an axis of length 1 at `place`, and which are ignored."""
    # The class axis of the labels is optional.
    others: list[Dim] = [1 if index == place else dim for index, dim in enumerate(at.dims())]
    shape = [dim for dim in others if isinstance(dim, int)]
    if len(shape) != len(others):
        message = "labels of unknown shape"
        raise UnsupportedError(message)
    labels = at.b(Reshape, at.b(Cast, at.bottoms[1], to=DType.INT64), at.integers(*shape))
    ignored = None if ignore_label is None else at.b(Equal, labels, ignore_label)
    return labels, ignored


@layer("SigmoidCrossEntropyLoss", "loss_param", bottoms=2)
def sigmoid_cross_entropy_loss(
    at: Layer, *, ignore_label: int | None = None, normalize: bool | None = None, normalization: str | None = None
) -> tuple[Value, ...]:
    """Sigmoid cross entropy: `log(1 + exp(x)) - x * t`, normalized by the batch size by default."""
    x, target = at.bottoms
    losses = at.b(Sub, at.b(Softplus, x), at.b(Mul, x, target))
    ignored = None if ignore_label is None else at.b(Equal, target, at.float_scalar(ignore_label))
    if ignored is not None:
        losses = at.b(Where, ignored, at.float_scalar(0), losses)
    mode = normalization or ("VALID" if normalize else "BATCH_SIZE")
    loss = _normalized(at, at.b(ReduceSum, losses, keepdims=0), target, ignored, mode)
    if at.tops > 1:
        message = "probabilities as a second top"
        raise UnsupportedError(message)
    return (loss,)


@layer("MultinomialLogisticLoss", "loss_param", bottoms=2)
def multinomial_logistic_loss(at: Layer) -> Value:
    """Mean of -log(p[label])."""
    labels, _ = _labels(at, 1, None)
    chosen = at.b(Max, at.b(GatherElements, at.x, labels, axis=1), at.float_scalar(_LEAST))
    return at.b(Div, at.b(ReduceSum, at.b(Neg, at.b(Log, chosen)), keepdims=0), _batch(at))


@layer("HingeLoss", "hinge_loss_param", "loss_param", bottoms=2)
def hinge_loss(at: Layer, *, norm: str = "L1") -> Value:
    """Hinge loss: mean of max(0, 1 - x) for the label and max(0, 1 + x) for other classes, or of its squares (L2)."""
    flat = at.b(Flatten, at.x)
    classes = at.b.dims(flat, at_least=2)[1]
    if norm not in ("L1", "L2") or not isinstance(classes, int):
        message = f"norm {norm} of {classes} classes, expected L1 or L2 and a static number of classes"
        raise UnsupportedError(message)
    label = at.b(Reshape, at.b(Cast, at.bottoms[1], to=DType.INT64), at.integers(-1, 1))
    is_right = at.b(Equal, label, at.b.constant(np.arange(at.bounded(classes), dtype=np.int64)[None]))
    margin = at.b(Add, at.b(Where, is_right, at.b(Neg, flat), flat), at.float_scalar(1))
    over = at.b(Max, margin, at.float_scalar(0))
    total = at.b(ReduceSum if norm == "L1" else ReduceSumSquare, over, keepdims=0)
    return at.b(Div, total, _batch(at))


@layer("ContrastiveLoss", "contrastive_loss_param", "loss_param", bottoms=3)
def contrastive_loss(at: Layer, *, margin: float = 1.0, legacy_version: bool = False) -> Value:
    """Contrastive loss: squared distance of similar pairs, squared margin deficit of others."""
    a, other, similar = at.bottoms
    squares = at.b(ReduceSumSquare, at.b(Flatten, at.b(Sub, a, other)), at.integers(1), keepdims=0)
    reach = squares if legacy_version else at.b(Sqrt, squares)
    short = at.b(Max, at.b(Sub, at.float_scalar(margin), reach), at.float_scalar(0))
    hinge = short if legacy_version else at.b(Mul, short, short)
    together = at.b(Cast, at.b(Reshape, similar, at.integers(-1)), to=DType.BOOL)
    total = at.b(ReduceSum, at.b(Where, together, squares, hinge), keepdims=0)
    return at.b(Div, total, at.b(Mul, _batch(at), at.float_scalar(2)))


@layer("Accuracy", "accuracy_param", bottoms=2)
def accuracy(at: Layer, *, top_k: int = 1, axis: int = 1, ignore_label: int | None = None) -> Value:
    """Top-k accuracy: the share of labels for which fewer than `top_k` other scores are equal or larger."""
    if at.tops > 1:
        message = "the accuracy of each class"
        raise UnsupportedError(message)
    place = at.axis(axis)
    labels, ignored = _labels(at, place, ignore_label)
    chosen = labels if ignored is None else at.b(Where, ignored, 0, labels)
    own = at.b(GatherElements, at.x, chosen, axis=place)
    # The count includes the score of the label.
    ahead = at.b(Cast, at.b(GreaterOrEqual, at.x, own), to=DType.FLOAT32)
    is_right = at.b(LessOrEqual, at.b(ReduceSum, ahead, at.integers(place)), at.float_scalar(top_k))
    right = at.b(Cast, is_right, to=DType.FLOAT32)
    if ignored is not None:
        right = at.b(Where, ignored, at.float_scalar(0), right)
    return _normalized(at, at.b(ReduceSum, right, keepdims=0), labels, ignored, "VALID")
