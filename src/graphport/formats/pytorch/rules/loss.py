"""Losses of exported programs."""

from __future__ import annotations

import math
from typing import Any

from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.formats.pytorch.rules.promotion import cast, promoted
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.activation import LogSoftmax
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Log, Max, Mul, Neg, Sub
from graphport.ops.definitions.comparison import Equal, Greater, LessOrEqual, Not, Where
from graphport.ops.definitions.indexing import Gather, GatherElements
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Squeeze, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, vector

_MEAN, _SUM = 1, 2


def _reduced(b: Builder, x: Value, reduction: Any) -> Value:
    kind = int(scalar_of(reduction))
    return x if kind not in (_MEAN, _SUM) else b(ReduceMean if kind == _MEAN else ReduceSum, x, keepdims=0)


@aten("aten.cross_entropy_loss")
def cross_entropy(
    b: Builder,
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: Any = _MEAN,
    ignore_index: Any = -100,
    label_smoothing: Any = 0.0,
) -> Value:
    """Cross entropy of class indices or class probabilities; label smoothing mixes in the uniform distribution."""
    rank = len(b.dims(self))
    axis = 0 if rank == 1 else 1
    scores = b(LogSoftmax, self, axis=axis)
    smoothing = float(scalar_of(label_smoothing))
    if dtype_of(target).is_floating:
        return _loss_of_probabilities(b, scores, target, weight, int(scalar_of(reduction)), smoothing, axis)
    place = vector(b, [axis])
    ignored = b(Equal, target, b.like(target, int(scalar_of(ignore_index))))
    classes = b(Where, ignored, 0, target)
    picked = b(Squeeze, b(GatherElements, scores, b(Unsqueeze, classes, place), axis=axis), place)
    share = cast(b, b(Not, ignored), dtype_of(self))
    each = share if weight is None else b(Mul, share, b(Gather, weight, classes))
    loss = b(Neg, b(Mul, picked, each))
    if smoothing:
        wide = scores if weight is None else b(Mul, scores, _along(b, weight, rank, axis))
        smooth = b(Mul, b(Neg, b(ReduceSum, wide, place, keepdims=0)), share)
        count = b.dims(self)[axis]
        part = b.like(loss, smoothing / int(count)) if isinstance(count, int) else b.like(loss, smoothing)
        loss = b(Add, b(Mul, loss, b.like(loss, 1 - smoothing)), b(Mul, smooth, part))
    if int(scalar_of(reduction)) == _MEAN:
        return b(Div, b(ReduceSum, loss, keepdims=0), b(ReduceSum, each, keepdims=0))
    return _reduced(b, loss, reduction)


def _along(b: Builder, weight: Value, rank: int, axis: int) -> Value:
    return b(Unsqueeze, weight, list(range(1, rank - axis))) if rank - axis > 1 else weight


def _loss_of_probabilities(
    b: Builder, scores: Value, target: Value, weight: Value | None, reduction: int, smoothing: float, axis: int
) -> Value:
    shares = target
    if smoothing:
        count = b.dims(scores)[axis]
        rest = smoothing / int(count) if isinstance(count, int) else 0.0
        shares = b(Add, b(Mul, target, 1 - smoothing), b.like(target, rest))
    each = b(Mul, shares, scores)
    if weight is not None:
        each = b(Mul, each, _along(b, weight, len(b.dims(scores)), axis))
    loss = b(Neg, b(ReduceSum, each, [axis], keepdims=0))
    return _reduced(b, loss, reduction)


@aten("aten.cosine_embedding_loss")
def cosine_embedding_loss(
    b: Builder, input1: Value, input2: Value, target: Value, margin: Any = 0.0, reduction: Any = _MEAN
) -> Value:
    found = PNNX.read("F.cosine_similarity", b, input1, input2, len(b.dims(input1)) - 1, 1e-8)
    zero = b.like(found, 0)
    hinge = b(Max, b(Sub, found, float(scalar_of(margin))), zero)
    near = b(Sub, 1, found)
    sign = cast(b, target, dtype_of(found))
    chosen = b(Where, b(Greater, sign, zero), near, b(Where, b(Equal, sign, -1), hinge, zero))
    return _reduced(b, chosen, reduction)


RULES.lower("aten.triplet_margin_loss -> aten::triplet_margin_loss")


@aten("aten.poisson_nll_loss")
def poisson_nll_loss(
    b: Builder, input: Value, target: Value, log_input: Any, full: Any, eps: Any, reduction: Any
) -> Value:
    """Poisson loss: exp(x) - t * x, or x - t * log(x); `full` adds Stirling's approximation of log(t!)."""
    x, t = promoted(b, input, target)
    if scalar_of(log_input):
        loss = b(Sub, b(Exp, x), b(Mul, t, x))
    else:
        loss = b(Sub, x, b(Mul, t, b(Log, b(Add, x, float(scalar_of(eps))))))
    if scalar_of(full):
        term = b(Add, b(Sub, b(Mul, t, b(Log, t)), t), b(Mul, b(Log, b(Mul, t, 2 * math.pi)), 0.5))
        is_small = b(LessOrEqual, t, 1)
        loss = b(Add, loss, b(Where, is_small, 0, term))
    return _reduced(b, loss, reduction)
