"""Activations of PyTorch."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.pnnx.arithmetic_lifts import NAMES, expressed
from graphport.ops.dialects.torch_functions import (
    DIALECT,
    axis_of,
    called,
    dtype_of,
    emits,
    length,
    named_dtype,
    number,
    vector,
)
from graphport.ops.dialects.torch_promotion import cast, floating, promoted
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
from graphport.ops.pages.arithmetic import Max, Min, Mul, Neg, Sub
from graphport.ops.pages.comparison import Greater, Where
from graphport.ops.pages.reshape import Reshape, Split


@emits("aten::relu", "torch.relu", "aten::relu_")
def relu(b: Builder, input: Value) -> Value:
    return b(Relu, input)


@emits("aten::sigmoid", "torch.sigmoid")
def sigmoid(b: Builder, input: Value) -> Value:
    return b(Sigmoid, floating(b, input))


@emits("nn.CELU", "F.celu", "aten::celu")
def celu(b: Builder, input: Value, alpha: Any = 1.0) -> Value:
    return b(Celu, input, alpha=float(number(alpha)))


@emits("nn.ELU", "F.elu")
def elu(b: Builder, input: Value, alpha: Any = 1.0) -> Value:
    return b(Elu, input, alpha=float(number(alpha)))


@emits("nn.SELU", "F.selu", "aten::selu")
def selu(b: Builder, input: Value) -> Value:
    return b(Selu, input)


@emits("nn.GELU", "F.gelu", "aten::gelu")
def gelu(b: Builder, input: Value, approximate: str = "none") -> Value:
    return b(Gelu, input, approximate=None if approximate == "none" else approximate)


@emits("nn.GLU", "F.glu", "aten::glu")
def glu(b: Builder, input: Value, dim: Any = -1) -> Value:
    dims = b.dims(input)
    axis = axis_of(number(dim), len(dims))
    half = length(dims, axis) // 2
    left, right = b.results(Split, 2, input, vector(b, [half, half]), axis=axis)
    return b(Mul, left, b(Sigmoid, right))


@emits("nn.Hardshrink", "F.hardshrink", "aten::hardshrink")
def hardshrink(b: Builder, input: Value, lambd: Any = 0.5) -> Value:
    return b(Shrink, input, lambd=float(number(lambd)))


@emits("nn.Softshrink", "F.softshrink", "aten::softshrink")
def softshrink(b: Builder, input: Value, lambd: Any = 0.5) -> Value:
    return b(Shrink, input, lambd=float(number(lambd)), bias=float(number(lambd)))


@emits("nn.Hardsigmoid", "F.hardsigmoid", "aten::hardsigmoid")
def hardsigmoid(b: Builder, input: Value) -> Value:
    return b(HardSigmoid, input, alpha=1 / 6, beta=0.5)


@emits("nn.Hardtanh", "F.hardtanh", "aten::hardtanh")
def hardtanh(b: Builder, input: Value, min_val: Any = -1.0, max_val: Any = 1.0) -> Value:
    return b(Clip, input, b.like(input, number(min_val)), b.like(input, number(max_val)))


@emits("nn.ReLU6", "F.relu6", "aten::relu6")
def relu6(b: Builder, input: Value) -> Value:
    return b(Clip, input, b.like(input, 0), b.like(input, 6))


@emits("nn.LogSigmoid", "F.logsigmoid", "aten::log_sigmoid")
def logsigmoid(b: Builder, input: Value) -> Value:
    return b(Neg, b(Softplus, b(Neg, input)))


@emits("nn.RReLU", "F.rrelu")
def rrelu(b: Builder, input: Value, lower: float = 0.125, upper: float = 1 / 3) -> Value:
    """Without training, the slope is the middle of its range."""
    return _sloped(b, input, (lower + upper) / 2)


def _sloped(b: Builder, x: Value, slope: float) -> Value:
    zero = b.like(x, 0)
    return b(Where, b(Greater, x, zero), x, b(Mul, x, b.like(x, slope)))


@emits("nn.Softplus", "F.softplus", "aten::softplus")
def softplus(b: Builder, input: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    """Linear where `beta * x` is above the threshold."""
    beta, threshold = float(number(beta)), float(number(threshold))
    scaled = input if beta == 1 else b(Mul, input, b.like(input, beta))
    soft = b(Softplus, scaled)
    soft = soft if beta == 1 else b(Mul, soft, b.like(input, 1 / beta))
    return b(Where, b(Greater, scaled, b.like(input, threshold)), input, soft)


@emits("nn.Softsign", "F.softsign")
def softsign(b: Builder, input: Value) -> Value:
    return b(Softsign, input)


@emits("nn.Tanhshrink", "F.tanhshrink")
def tanhshrink(b: Builder, input: Value) -> Value:
    return b(Sub, input, b(Tanh, input))


@emits("nn.Threshold", "F.threshold", "aten::threshold")
def threshold(b: Builder, input: Value, threshold: Any, value: Any) -> Value:
    return b(Where, b(Greater, input, b.like(input, number(threshold))), input, b.like(input, number(value)))


@emits("nn.PReLU", "F.prelu", "aten::prelu", ignores=("num_parameters",))
def prelu(b: Builder, input: Value, weight: Value) -> Value:
    """A slope for each channel, or one for all."""
    slopes = b.dims(weight)
    rank = len(b.dims(input))
    if len(slopes) != 1 or slopes[0] == 1 or rank < 2:
        return b(PRelu, input, weight)
    shape = [length(slopes, 0), *[1] * (rank - 2)]
    slope = b.reshaped(weight, shape)
    if slope is None:
        slope = b(Reshape, weight, vector(b, shape))
    return b(PRelu, input, slope)


# ── over an axis ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _implicit_axis(dim: Any, rank: int) -> int:
    """The axis; where none is given, the first of tensors of rank 0, 1 and 3, else the second."""
    return axis_of(number(dim), rank) if dim is not None else (0 if rank in (0, 1, 3) else 1)


@emits("nn.Softmax", "F.softmax", "torch.softmax", "aten::softmax", "aten::_softmax")
def softmax(b: Builder, input: Value, dim: Any = None, dtype: Any = None) -> Value:
    x = _converted(b, input, dtype)
    return b(Softmax, x, axis=_implicit_axis(dim, len(b.dims(x))))


@emits("nn.Softmax2d")
def softmax2d(b: Builder, input: Value) -> Value:
    return b(Softmax, input, axis=-3)


@emits("nn.Softmin", "F.softmin")
def softmin(b: Builder, input: Value, dim: Any = None, dtype: Any = None) -> Value:
    return softmax(b, b(Neg, input), dim, dtype)


@emits("nn.LogSoftmax", "F.log_softmax", "torch.log_softmax", "aten::log_softmax", "aten::_log_softmax")
def log_softmax(b: Builder, input: Value, dim: Any = None, dtype: Any = None) -> Value:
    x = _converted(b, input, dtype)
    return b(LogSoftmax, x, axis=_implicit_axis(dim, len(b.dims(x))))


def _converted(b: Builder, x: Value, dtype: Any) -> Value:
    wanted = named_dtype(dtype) if isinstance(dtype, str) else None
    if dtype is not None and wanted is None and not isinstance(dtype, bool):
        message = f"the element type is {dtype}"
        raise UnsupportedError(message)
    return x if wanted is None else cast(b, x, wanted)


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@emits("torch.clamp", "aten::clamp", "torch.clip", "aten::clip", "Tensor.clamp")
def clamp(b: Builder, input: Value, min: Any = None, max: Any = None) -> Value:
    """Not below one bound, then not above the other, which wins where they cross."""
    x, *bounds = promoted(b, input, *(bound for bound in (min, max) if bound is not None))
    low = bounds.pop(0) if min is not None else None
    high = bounds.pop(0) if max is not None else None
    if all(bound is None or (bound.storage is not None and not b.dims(bound)) for bound in (low, high)):
        return b(Clip, x, low, high)
    x = x if low is None else b(Max, x, low)
    return x if high is None else b(Min, x, high)


@emits("torch.clamp_min", "aten::clamp_min")
def clamp_min(b: Builder, input: Value, min: Any) -> Value:
    return clamp(b, input, min)


@emits("torch.clamp_max", "aten::clamp_max")
def clamp_max(b: Builder, input: Value, max: Any) -> Value:
    return clamp(b, input, None, max)


@emits(
    *("nn.Dropout", "nn.Dropout1d", "nn.Dropout2d", "nn.Dropout3d", "nn.AlphaDropout", "nn.FeatureAlphaDropout"),
    *("F.dropout", "F.dropout1d", "F.dropout2d", "F.dropout3d", "F.alpha_dropout", "F.feature_alpha_dropout"),
    *("aten::dropout", "aten::feature_dropout"),
    ignores=("p", "inplace"),
)
def dropout(b: Builder, input: Value, training: Any = False) -> Value:
    del b
    if training is True:
        message = "a dropout that is training"
        raise UnsupportedError(message)
    return input


@emits("aten::silu", "torch.silu")
def silu(b: Builder, input: Value) -> Value:
    return b(Swish, input)


@emits("aten::leaky_relu")
def leaky_relu(b: Builder, input: Value, negative_slope: Any = 0.01) -> Value:
    return b(LeakyRelu, input, alpha=float(number(negative_slope)))


@emits("aten::hardswish")
def hardswish(b: Builder, input: Value) -> Value:
    return b(HardSwish, input)


@emits("aten::mish")
def mish(b: Builder, input: Value) -> Value:
    return b(Mish, input)


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@Celu.lift(DIALECT)
def lift_celu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return called(b, "F.celu", input=x, alpha=alpha)


@Elu.lift(DIALECT)
def lift_elu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return called(b, "F.elu", input=x, alpha=alpha)


@Selu.lift(DIALECT)
def lift_selu(
    b: Builder, x: Value, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323
) -> Value | None:
    if abs(alpha - 1.6732631921768188) < 1e-6 and abs(gamma - 1.0507010221481323) < 1e-6:
        return called(b, "F.selu", input=x)
    return expressed(b, f"mul(@0,{gamma!r})", called(b, "F.elu", input=x, alpha=alpha))


@Gelu.lift(DIALECT)
def lift_gelu(b: Builder, x: Value, *, approximate: str = "none") -> Value:
    return called(b, "F.gelu", input=x, approximate=approximate)


@HardSigmoid.lift(DIALECT)
def lift_hard_sigmoid(b: Builder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value | None:
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return called(b, "F.hardsigmoid", input=x)
    return expressed(b, f"minimum(maximum(add(mul(@0,{alpha!r}),{beta!r}),0.0),1.0)", x)


@Softplus.lift(DIALECT)
def lift_softplus(b: Builder, x: Value) -> Value:
    return called(b, "F.softplus", input=x, beta=1, threshold=20)


@Softsign.lift(DIALECT)
def lift_softsign(b: Builder, input: Value) -> Value:
    return called(b, "F.softsign", input=input)


@Shrink.lift(DIALECT)
def lift_shrink(b: Builder, input: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value | None:
    if bias not in (0.0, lambd) or lambd < 0 or not dtype_of(input).is_floating:
        return None
    return called(b, "F.softshrink" if bias else "F.hardshrink", input=input, lambd=lambd)


@PRelu.lift(DIALECT)
def lift_prelu(b: Builder, x: Value, slope: Value) -> Value | None:
    """One slope, or one for each channel."""
    dims, slopes = b.dims(x), b.dims(slope)
    aligned = (1,) * (len(dims) - len(slopes)) + slopes
    is_wide = len(dims) >= 2 and len(slopes) <= len(dims)
    if is_wide and slope.storage is not None and all(n == 1 for axis, n in enumerate(aligned) if axis != 1):
        return called(b, "F.prelu", input=x, weight=b.reshaped(slope, [length(aligned, 1)]))
    return expressed(b, "add(maximum(@0,0),mul(@1,minimum(@0,0)))", x, slope)


@ThresholdedRelu.lift(DIALECT)
def lift_thresholded_relu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return called(b, "F.threshold", input=x, threshold=alpha, value=0.0)


@Hardmax.lift(DIALECT)
def lift_hardmax(b: Builder, input: Value, *, axis: int = -1) -> Value | None:
    """The first of the largest, one among as many as there are."""
    dims = b.dims(input)
    place = axis % max(len(dims), 1)
    if not dims or not isinstance(dims[place], int):
        return None
    fact = TensorFact(DType.INT64, (*dims[:place], *dims[place + 1 :]))
    best = called(b, "torch.argmax", fact, input=input, dim=place, keepdim=False)
    wide = TensorFact(DType.INT64, (*fact.dims, dims[place]))
    hot = called(b, "aten::one_hot", wide, input=best, num_classes=dims[place])
    perm = [*range(place), len(dims) - 1, *range(place, len(dims) - 1)]
    moved = called(b, "Tensor.permute", TensorFact(DType.INT64, dims), input=hot, dims=tuple(perm))
    return called(
        b, "Tensor.to", TensorFact(dtype_of(input), dims), input=moved, copy=False, dtype=NAMES[dtype_of(input)]
    )


@Softmax.lift(DIALECT)
def lift_softmax(b: Builder, input: Value, *, axis: int = -1) -> Value:
    return called(b, "F.softmax", input=input, dim=axis)


@LogSoftmax.lift(DIALECT)
def lift_log_softmax(b: Builder, input: Value, *, axis: int = -1) -> Value:
    return called(b, "F.log_softmax", input=input, dim=axis)


@Clip.lift(DIALECT)
def lift_clip(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Value:
    bounds = [None if each is None else _bound(each) for each in (min, max)]
    return called(b, "torch.clamp", input.fact, input=input, min=bounds[0], max=bounds[1])


def _bound(bound: Value) -> Value | float | int:
    return number(bound) if bound.storage is not None and bound.storage.count == 1 else bound


@Dropout.lift(DIALECT)
def lift_dropout(b: Builder, data: Value, *options: Value | None, seed: int | None = None) -> Value | None:
    del seed
    return called(b, "nn.Identity", input=data) if b.count == 1 and len(options) < 2 else None
