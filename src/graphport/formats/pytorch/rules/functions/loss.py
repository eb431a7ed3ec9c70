"""Losses of PyTorch."""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import DIALECT, called, emits, length, scalar_of
from graphport.formats.pytorch.rules.functions.reduction_norms import norm
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import LogSoftmax
from graphport.ops.definitions.arithmetic import Add, Cast, Div, Exp, Log, Max, Min, Mul, Neg, Sub
from graphport.ops.definitions.comparison import Equal, Less, Not, Where
from graphport.ops.definitions.indexing import Gather, GatherElements
from graphport.ops.definitions.loss import NegativeLogLikelihoodLoss
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Reshape, Shape, Unsqueeze
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.views.loss import NegativeLogLikelihoodLossView

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def _reduction(given: Any) -> str:
    """Return the reduction mode of a number or name."""
    found = str(given) if isinstance(given, str) else _REDUCTIONS.get(int(scalar_of(given)), "")
    if found not in _REDUCTIONS.values():
        message = f"unsupported reduction {given}"
        raise UnsupportedError(message)
    return found


def _reduced(b: Builder, loss: Value, reduction: Any) -> Value:
    match _reduction(reduction):
        case "none":
            return loss
        case "mean":
            return b(ReduceMean, loss, keepdims=0)
        case _:
            return b(ReduceSum, loss, keepdims=0)


def _per_item(b: Builder, loss: Value) -> Value:
    """Return the sum of a loss divided by the batch size."""
    count = b(Reshape, b(Shape, loss, end=1), [])
    return b(Div, b(ReduceSum, loss, keepdims=0), b(Cast, count, to=dtype_of(loss)))


def _divergence(b: Builder, loss: Value, reduction: Any) -> Value:
    return _per_item(b, loss) if reduction == "batchmean" else _reduced(b, loss, reduction)


def _weighted(b: Builder, loss: Value, weight: Any) -> Value:
    return b(Mul, loss, weight) if isinstance(weight, Value) else loss


PNNX.having(reduced=_reduced, weighted=_weighted, divergence=_divergence).lower("""
F.mse_loss, torch.mse_loss, aten::mse_loss(input, target, reduction=1)
    -> reduced(Mul(gap := Sub(input, target), gap), reduction)
F.l1_loss, torch.l1_loss, aten::l1_loss(input, target, reduction=1) -> reduced(Abs(Sub(input, target)), reduction)
# A parabola up to `beta`, a line beyond it.
F.smooth_l1_loss, aten::smooth_l1_loss(input, target, reduction=1, beta=1.0)
    -> beta == 0: reduced(Abs(Sub(input, target)), reduction)
    -> reduced(Where(Less(gap := Abs(Sub(input, target)), beta), Mul(Mul(gap, gap), 0.5 / beta), Sub(gap, 0.5 * beta)),
               reduction)
F.huber_loss, aten::huber_loss(input, target, reduction=1, delta=1.0)
    -> reduced(Where(Less(gap := Abs(Sub(input, target)), delta), Mul(Mul(gap, gap), 0.5),
                     Mul(Sub(gap, 0.5 * delta), delta)), reduction)
# Logarithms are -100 at least, as PyTorch has them.
F.binary_cross_entropy, aten::binary_cross_entropy(input, target, weight=None, reduction=1)
    -> reduced(weighted(Neg(Add(Mul(target, Max(Log(input), -100.0)),
                                Mul(Sub(1, target), Max(Log(Sub(1, input)), -100.0)))), weight), reduction)
# Nothing is lost where the target is 0.
F.kl_div, aten::kl_div(input, target, reduction=1, log_target=False)
    -> log_target: divergence(Mul(Exp(target), Sub(target, input)), reduction)
    -> divergence(Where(some := Less(0, target), Mul(target, Sub(Log(Where(some, target, 1)), input)), 0), reduction)
# `(1 - t) x + (1 + (p - 1) t) softplus(-x)`, which nothing overflows in.
F.binary_cross_entropy_with_logits,
    aten::binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=1)
    -> below = Softplus(Neg(input)); pos_weight is None:
       reduced(weighted(Add(Mul(Sub(1, target), input), below), weight), reduction)
    -> below = Mul(Add(Mul(Sub(pos_weight, 1), target), 1), below);
       reduced(weighted(Add(Mul(Sub(1, target), input), below), weight), reduction)
F.margin_ranking_loss, aten::margin_ranking_loss(input1, input2, target, margin=0.0, reduction=1)
    -> reduced(Max(Add(Mul(Neg(target), Sub(input1, input2)), margin), 0), reduction)
F.soft_margin_loss, aten::soft_margin_loss(input, target, reduction=1)
    -> reduced(Softplus(Neg(Mul(target, input))), reduction)
F.hinge_embedding_loss, aten::hinge_embedding_loss(input, target, margin=1.0, reduction=1)
    -> reduced(Where(Less(0, target), input, Max(Sub(margin, input), 0)), reduction)
""")


@emits("F.nll_loss", "aten::nll_loss", "aten::nll_loss_nd", "aten::nll_loss2d")
def nll_loss(
    b: Builder, input: Value, target: Value, weight: Any = None, reduction: Any = 1, ignore_index: Any = -100
) -> Value:
    given = weight if isinstance(weight, Value) else None
    ignored = int(scalar_of(ignore_index))
    return b(NegativeLogLikelihoodLoss, input, target, given, ignore_index=ignored, reduction=_reduction(reduction))


@emits("F.cross_entropy", "aten::cross_entropy_loss")
def cross_entropy(
    b: Builder,
    input: Value,
    target: Value,
    weight: Any = None,
    reduction: Any = 1,
    ignore_index: Any = -100,
    label_smoothing: Any = 0.0,
) -> Value:
    """Cross entropy of class indices or class probabilities."""
    smoothing = float(scalar_of(label_smoothing))
    axis = 1 if len(b.dims(input)) > 1 else 0
    logarithm = b(LogSoftmax, input, axis=axis)
    if not dtype_of(target).is_floating:
        loss = nll_loss(b, logarithm, target, weight, reduction, ignore_index)
        if not smoothing:
            return loss
        even = _smoothed(b, logarithm, target, weight, reduction, ignore_index)
        rest = smoothing / length(b.dims(input), axis)
        return b(Add, b(Mul, loss, b.like(loss, 1 - smoothing)), b(Mul, even, b.like(even, rest)))
    if smoothing:
        share = b(Mul, target, b.like(target, 1 - smoothing))
        target = b(Add, share, b.like(share, smoothing / length(b.dims(input), axis)))
    if isinstance(weight, Value):
        message = "class probabilities as target together with class weights"
        raise UnsupportedError(message)
    loss = b(Neg, b(ReduceSum, b(Mul, logarithm, target), [axis], keepdims=0))
    if _reduction(reduction) != "mean" or axis == 0:
        return _reduced(b, loss, "sum" if axis == 0 else reduction)
    total = b(ReduceSum, loss, keepdims=0)
    return b(Mul, total, b.like(total, 1 / length(b.dims(input), 0)))


def _smoothed(b: Builder, logarithm: Value, target: Value, weight: Any, reduction: Any, ignore_index: Any) -> Value:
    """Return the uniform part of smoothed labels: nll_loss summed over all classes."""
    if isinstance(weight, Value) or len(b.dims(logarithm)) < 2:
        message = "label smoothing together with class weights, or without a batch"
        raise UnsupportedError(message)
    loss = b(Neg, b(ReduceSum, logarithm, [1], keepdims=0))
    counts = b(Not, b(Equal, target, b.like(target, int(scalar_of(ignore_index)))))
    kept = b(Where, counts, loss, 0)
    match _reduction(reduction):
        case "none":
            return kept
        case "sum":
            return b(ReduceSum, kept, keepdims=0)
        case _:
            number_of = b(ReduceSum, b(Cast, counts, to=dtype_of(loss)), keepdims=0)
            return b(Div, b(ReduceSum, kept, keepdims=0), number_of)


@emits("F.multi_margin_loss", "aten::multi_margin_loss")
def multi_margin_loss(
    b: Builder, input: Value, target: Value, p: Any = 1, margin: Any = 1.0, weight: Any = None, reduction: Any = 1
) -> Value:
    """Multi-class margin loss: the mean of max(0, margin - x[target] + x[i]) ** p over the other classes."""
    power = int(scalar_of(p))
    if power not in (1, 2) or len(b.dims(input)) != 2:
        message = f"multi_margin_loss with p={power} and rank {len(b.dims(input))}, expected p=1 or 2 and rank 2"
        raise UnsupportedError(message)
    column = b(Unsqueeze, target, [1])
    own = b(GatherElements, input, column, axis=1)
    gap = b(Max, b(Add, b(Sub, input, own), float(scalar_of(margin))), 0)
    if power == 2:
        gap = b(Mul, gap, gap)
    if isinstance(weight, Value):
        gap = b(Mul, gap, b(Gather, weight, column))
    classes = length(b.dims(input), 1)
    others = b(Not, b(Equal, b.constant(np.arange(classes), dtype_of(target)), column))
    total = b(ReduceSum, b(Where, others, gap, 0), [1], keepdims=0)
    return _reduced(b, b(Div, total, b.like(total, classes)), reduction)


@emits("F.triplet_margin_loss", "aten::triplet_margin_loss")
def triplet_margin_loss(
    b: Builder,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: Any = 1.0,
    p: Any = 2.0,
    eps: Any = 1e-6,
    swap: Any = False,
    reduction: Any = 1,
) -> Value:
    """Triplet margin loss: max(0, d(anchor, positive) - d(anchor, negative) + margin)."""

    def distance(x: Value, y: Value) -> Value:
        return norm(b, b(Add, b(Sub, x, y), float(scalar_of(eps))), scalar_of(p), -1, False)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if scalar_of(swap):
        far = b(Min, far, distance(positive, negative))
    gap = b(Add, b(Sub, near, far), float(scalar_of(margin)))
    return _reduced(b, b(Max, gap, 0), reduction)


@emits("F.poisson_nll_loss", "aten::poisson_nll_loss")
def poisson_nll_loss(
    b: Builder,
    input: Value,
    target: Value,
    log_input: Any = True,
    full: Any = False,
    eps: Any = 1e-8,
    reduction: Any = 1,
) -> Value:
    if scalar_of(log_input):
        loss = b(Sub, b(Exp, input), b(Mul, target, input))
    else:
        loss = b(Sub, input, b(Mul, target, b(Log, b(Add, input, float(scalar_of(eps))))))
    if scalar_of(full):
        # Stirling's formula, for targets above 1.
        known = b(Where, b(Less, 1, target), target, 1)
        half = b(Mul, b(Log, b(Mul, known, b.like(known, 2 * pi))), 0.5)
        stirling = b(Add, b(Sub, b(Mul, known, b(Log, known)), known), half)
        loss = b(Add, loss, b(Where, b(Less, 1, target), stirling, 0))
    return _reduced(b, loss, reduction)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────

_NEVER = -100
"""PyTorch's default `ignore_index`, which no class has."""


@NegativeLogLikelihoodLossView.export_rule(DIALECT)
def export_nll_loss(b: Builder, op: NegativeLogLikelihoodLossView) -> Value:
    """Export NegativeLogLikelihoodLoss; PyTorch's targets are int64."""
    dims = b.dims(op.input)
    shape = (dims[0], *dims[2:]) if op.reduction == "none" else ()
    wide = op.target if dtype_of(op.target) is DType.INT64 else b(Cast, op.target, to=DType.INT64)
    return called(
        b,
        "F.nll_loss",
        TensorFact(dtype_of(op.input), shape),
        input=op.input,
        target=wide,
        weight=op.weight,
        ignore_index=_NEVER if op.ignore_index is None else op.ignore_index,
        reduction=op.reduction,
    )
