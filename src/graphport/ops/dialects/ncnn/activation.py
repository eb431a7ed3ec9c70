"""Activations of ncnn."""

from __future__ import annotations

from math import isinf
from typing import Any

import numpy as np

from graphport.core.budget import made_up
from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.ncnn.arithmetic import both
from graphport.ops.dialects.ncnn.binding import (
    Layer,
    batch_of,
    blob_axis,
    emitted,
    folded,
    laid,
    layer,
    lengths_of,
    numbers_of,
)
from graphport.ops.dialects.ncnn.places import along
from graphport.ops.dialects.operands import sizes
from graphport.ops.dialects.torch_functions import dtype_of, length, vector
from graphport.ops.dialects.torch_promotion import cast
from graphport.ops.pages.activation import (
    Celu,
    Clip,
    Dropout,
    Elu,
    Gelu,
    Hardmax,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    LogSoftmax,
    Mish,
    PRelu,
    Relu,
    Selu,
    Shrink,
    Sigmoid,
    Softmax,
    Softplus,
    Softsign,
    Swish,
    Tanh,
    ThresholdedRelu,
)
from graphport.ops.pages.arithmetic import Cast, Max, Min, Mul, Sub
from graphport.ops.pages.comparison import Equal, Greater
from graphport.ops.pages.reduction import ArgMax, ReduceLogSumExp, ReduceMax
from graphport.ops.pages.reshape import Split
from graphport.ops.pattern import constant_numbers


def activated(at: Layer, y: Value) -> Value:
    """The activation that is part of a layer with weights: its type is parameter 9, its numbers parameter 10."""
    b, numbers = at.b, at.array(10)
    match at.integer(9):
        case 0:
            return y
        case 1:
            return b(Relu, y)
        case 2:
            return b(LeakyRelu, y, alpha=float(numbers[0]))
        case 3:
            return b(Clip, y, b.like(y, numbers[0]), b.like(y, numbers[1]))
        case 4:
            return b(Sigmoid, y)
        case 5:
            return b(Mish, y)
        case 6:
            return b(Mul, y, b(HardSigmoid, y, alpha=float(numbers[0]), beta=float(numbers[1])))
        case other:
            message = f"there is no rule for the activation {other}"
            raise UnsupportedError(message)


@layer("ReLU")
def relu(at: Layer) -> Value:
    slope = at.real(0)
    return at.b(Relu, at.x) if slope == 0 else at.b(LeakyRelu, at.x, alpha=slope)


@layer("PReLU")
def prelu(at: Layer) -> Value:
    count = at.integer(0)
    shape = [1] if count == 1 else [count, *[1] * (at.rank - 1)]
    return at.b(PRelu, at.x, at.weight(0, shape))


_LARGEST = float(np.finfo(np.float32).max)


@layer("Clip")
def clip(at: Layer) -> Value:
    return at.b(Clip, at.x, at.b.like(at.x, at.real(0, -_LARGEST)), at.b.like(at.x, at.real(1, _LARGEST)))


@layer("ELU")
def elu(at: Layer) -> Value:
    return at.b(Elu, at.x, alpha=at.real(0, 0.1))


@layer("CELU")
def celu(at: Layer) -> Value:
    return at.b(Celu, at.x, alpha=at.real(0, 1.0))


@layer("SELU")
def selu(at: Layer) -> Value:
    return at.b(Selu, at.x, alpha=at.real(0, 1.67326324), gamma=at.real(1, 1.050700987))


@layer("GELU")
def gelu(at: Layer) -> Value:
    return at.b(Gelu, at.x, approximate="tanh" if at.integer(0) else None)


@layer("HardSigmoid")
def hard_sigmoid(at: Layer) -> Value:
    return at.b(HardSigmoid, at.x, alpha=at.real(0, 0.2), beta=at.real(1, 0.5))


@layer("HardSwish")
def hard_swish(at: Layer) -> Value:
    return at.b(Mul, at.x, hard_sigmoid(at))


@layer("Mish")
def mish(at: Layer) -> Value:
    return at.b(Mish, at.x)


@layer("Sigmoid")
def sigmoid(at: Layer) -> Value:
    return at.b(Sigmoid, at.x)


@layer("Shrink")
def shrink(at: Layer) -> Value:
    return at.b(Shrink, at.x, bias=at.real(0), lambd=at.real(1, 0.5))


@layer("Softmax")
def softmax(at: Layer) -> Value:
    return at.b(Softmax, at.x, axis=at.axis(at.integer(0)))


@layer("Softplus", "BNLL")
def softplus(at: Layer) -> Value:
    return at.b(Softplus, at.x)


@layer("Swish")
def swish(at: Layer) -> Value:
    return at.b(Swish, at.x)


@layer("TanH")
def tanh(at: Layer) -> Value:
    return at.b(Tanh, at.x)


@layer("Threshold")
def threshold(at: Layer) -> Value:
    """1 above the threshold, 0 elsewhere."""
    return cast(at.b, at.b(Greater, at.x, at.b.like(at.x, at.real(0))), dtype_of(at.x))


@layer("GLU")
def glu(at: Layer) -> Value:
    axis = at.axis(at.integer(0))
    half = length(at.b.dims(at.x), axis) // 2
    left, right = at.b.results(Split, 2, at.x, vector(at.b, [half, half]), axis=axis)
    return at.b(Mul, left, at.b(Sigmoid, right))


@layer("Dropout")
def dropout(at: Layer) -> Value:
    scale = at.real(0, 1.0)
    return at.x if scale == 1 else at.b(Mul, at.x, at.b.like(at.x, scale))


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@Relu.lift("ncnn")
def lift_relu(b: Builder, x: Value) -> Value:
    return emitted(b, "ReLU", x)


@LeakyRelu.lift("ncnn")
def lift_leaky_relu(b: Builder, x: Value, *, alpha: float = 0.01) -> Value:
    return emitted(b, "ReLU", x, p0=alpha)


@Sigmoid.lift("ncnn")
def lift_sigmoid(b: Builder, x: Value) -> Value:
    return emitted(b, "Sigmoid", x)


@Tanh.lift("ncnn")
def lift_tanh(b: Builder, input: Value) -> Value:
    return emitted(b, "TanH", input)


@Mish.lift("ncnn")
def lift_mish(b: Builder, x: Value) -> Value:
    return emitted(b, "Mish", x)


@Softplus.lift("ncnn")
def lift_softplus(b: Builder, x: Value) -> Value:
    return emitted(b, "Softplus", x)


@Swish.lift("ncnn")
def lift_swish(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    if alpha == 1:
        return emitted(b, "Swish", x)
    scaled = emitted(b, "BinaryOp", x, p0=2, p1=1, p2=alpha)
    return emitted(b, "BinaryOp", x, emitted(b, "Sigmoid", scaled), p0=2)


@Gelu.lift("ncnn")
def lift_gelu(b: Builder, x: Value, *, approximate: str = "none") -> Value:
    return emitted(b, "GELU", x, p0=1 if approximate == "tanh" else None)


@HardSigmoid.lift("ncnn")
def lift_hard_sigmoid(b: Builder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return emitted(b, "HardSigmoid", x, p0=alpha, p1=beta)


@HardSwish.lift("ncnn")
def lift_hard_swish(b: Builder, x: Value) -> Value:
    return emitted(b, "HardSwish", x, p0=1 / 6, p1=0.5)


@Elu.lift("ncnn")
def lift_elu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return emitted(b, "ELU", x, p0=alpha)


@Celu.lift("ncnn")
def lift_celu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return emitted(b, "CELU", x, p0=alpha)


@Selu.lift("ncnn")
def lift_selu(b: Builder, x: Value, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Value:
    return emitted(b, "SELU", x, p0=alpha, p1=gamma)


@Shrink.lift("ncnn")
def lift_shrink(b: Builder, input: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    return emitted(b, "Shrink", input, p0=bias, p1=lambd)


@Clip.lift("ncnn")
def lift_clip(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Value | None:
    """Bounds are numbers there, and finite: of one that is infinite, the other one is an extreme."""
    bounds = [None if bound is None else constant_numbers(bound) for bound in (min, max)]
    if any(bound is not None and found is None for bound, found in zip((min, max), bounds, strict=True)):
        return None
    low, high = (None if found is None else float(found[0]) for found in bounds)
    ends = [(Max, -_LARGEST if low is None else low), (Min, _LARGEST if high is None else high)]
    finite = [(page, end) for page, end in ends if not isinf(end)]
    if len(finite) == len(ends):
        return emitted(b, "Clip", input, p0=low, p1=high)
    return b(finite[0][0], input, b.like(input, finite[0][1])) if finite else emitted(b, "Noop", input)


@PRelu.lift("ncnn")
def lift_prelu(b: Builder, x: Value, slope: Value) -> Value | None:
    """One slope, or one for each channel."""
    weights = numbers_of(slope)
    lengths = lengths_of(b, x)
    channels = [1] * (len(lengths) + 1 - len(weights.shape)) + list(weights.shape)
    if weights.count != 1 and channels != [1, lengths[0], *[1] * (len(lengths) - 1)]:
        return None
    return emitted(b, "PReLU", x, p0=weights.count, w0=weights)


@Softmax.lift("ncnn")
def lift_softmax(b: Builder, input: Value, *, axis: int = -1) -> Value:
    laid(b, input)
    if axis % max(len(b.dims(input)), 1) == batch_of(input):
        # Of one element it is 1, or what is no number.
        return emitted(b, "BinaryOp", both(b, 1, input, input), p0=0, p1=1, p2=1.0)
    return emitted(b, "Softmax", input, p0=blob_axis(axis, len(b.dims(input)), batch_of(input)), p1=1)


@LogSoftmax.lift("ncnn")
def lift_log_softmax(b: Builder, input: Value, *, axis: int = -1) -> Value:
    """Without the softmax in between, whose smallest shares single precision makes 0."""
    one = vector(b, [axis])
    low = b(Sub, input, b(ReduceMax, input, one))
    return b(Sub, low, b(ReduceLogSumExp, low, one))


@Hardmax.lift("ncnn")
def lift_hardmax(b: Builder, x: Value, *, axis: int = -1) -> Value:
    at, dims = axis % len(b.dims(x)), b.dims(x)
    (n,) = sizes(dims[at : at + 1], "the axis that is searched")
    place = b(ArgMax, x, axis=at)
    return b(Cast, b(Equal, place, along(b, np.arange(made_up(n)), at, len(dims), DType.INT64)), to=DType.FLOAT32)


@Dropout.lift("ncnn")
def lift_dropout(b: Builder, data: Value, *options: Value | None, **attributes: Any) -> Value | None:
    """Without training it does nothing; there is no mask."""
    del attributes
    trains = options[1] if len(options) > 1 else None
    if b.count > 1 or (trains is not None and (folded(trains) is None or constant_numbers(trains) != (0,))):
        return None
    return emitted(b, "Noop", data)


@Softsign.lift("ncnn")
def lift_softsign(b: Builder, input: Value) -> Value:
    size = emitted(b, "BinaryOp", emitted(b, "AbsVal", input), p0=0, p1=1, p2=1.0)
    return emitted(b, "BinaryOp", input, size, p0=3)


@ThresholdedRelu.lift("ncnn")
def lift_thresholded_relu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return emitted(b, "BinaryOp", x, emitted(b, "Threshold", x, p0=alpha), p0=2)
