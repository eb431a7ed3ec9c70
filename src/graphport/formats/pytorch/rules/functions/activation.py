"""Activations of PyTorch."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    axis_of,
    called,
    emits,
    length,
    named_dtype,
    scalar_of,
)
from graphport.formats.pytorch.rules.functions.arithmetic_export import NAMES, expressed
from graphport.formats.pytorch.rules.promotion import cast, promoted
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.activation import (
    Clip,
    Hardmax,
    HardSigmoid,
    PRelu,
    Selu,
)
from graphport.ops.definitions.arithmetic import Max, Min
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.lowering.operands import dtype_of

PNNX.lower("""
# ONNX Runtime has no Relu of integers of 64 bits.
aten::relu, torch.relu, aten::relu_(input)
    -> dtype(input) is int64: Max(input, 0)
    -> Relu(input)
aten::sigmoid, torch.sigmoid(input) -> Sigmoid(floating(input))
aten::silu, torch.silu(input) -> Swish(input)
aten::mish(input) -> Mish(input)
aten::hardswish(input) -> HardSwish(input)
aten::leaky_relu(input, negative_slope=0.01) -> LeakyRelu(input, alpha=negative_slope)
F.celu, nn.CELU, aten::celu(input, alpha=1.0) <-> Celu(input, alpha=alpha)
F.elu, nn.ELU(input, alpha=1.0) <-> Elu(input, alpha=alpha)
nn.SELU, F.selu, aten::selu(input) -> Selu(input)
nn.GELU, F.gelu, aten::gelu(input, approximate="none")
    -> approximate == "none": Gelu(input)
    -> Gelu(input, approximate=approximate)
nn.Hardshrink, F.hardshrink, aten::hardshrink(input, lambd=0.5) -> Shrink(input, lambd=lambd)
nn.Softshrink, F.softshrink, aten::softshrink(input, lambd=0.5) -> Shrink(input, lambd=lambd, bias=lambd)
nn.Hardsigmoid, F.hardsigmoid, aten::hardsigmoid(input) -> HardSigmoid(input, alpha=1 / 6, beta=0.5)
nn.Hardtanh, F.hardtanh, aten::hardtanh(input, min_val=-1.0, max_val=1.0) -> Clip(input, min_val, max_val)
nn.ReLU6, F.relu6, aten::relu6(input) -> Clip(input, 0, 6)
# Linear where `beta * x` is above the threshold.
nn.Softplus, F.softplus, aten::softplus(input, beta: float = 1, threshold: float = 20)
    -> beta == 1: Where(Greater(input, threshold), input, Softplus(input))
    -> Where(Greater(scaled := Mul(input, beta), threshold), input, Mul(Softplus(scaled), 1 / beta))
F.softsign, nn.Softsign(input) <-> Softsign(input)
nn.Tanhshrink, F.tanhshrink(input) -> Sub(input, Tanh(input))
nn.Threshold, F.threshold, aten::threshold(input, threshold: number, value: number)
    -> Where(Greater(input, threshold), input, value)
nn.Softmax2d(input) -> Softmax(input, axis=-3)
nn.Softmin, F.softmin(input, dim=None, dtype=None) -> F.softmax(Neg(input), dim=dim, dtype=dtype)
torch.clamp_min, aten::clamp_min(input, min) -> torch.clamp(input, min=min)
torch.clamp_max, aten::clamp_max(input, max) -> torch.clamp(input, max=max)
""")


PNNX.lower("""
nn.GLU, F.glu, aten::glu(input, dim=-1)
    -> half = length(input, place := axis(dim, input)) // 2; left, right = Split(input, [half, half], axis=place);
       Mul(left, Sigmoid(right))
nn.LogSigmoid, F.logsigmoid, aten::log_sigmoid(input) -> Neg(Softplus(Neg(input)))
# Without training, the slope is the middle of its range.
nn.RReLU, F.rrelu(input, lower=0.125, upper=1 / 3) -> Where(Greater(input, 0), input, Mul(input, (lower + upper) / 2))
""")


@emits("nn.PReLU", "F.prelu", "aten::prelu", ignores=("num_parameters",))
def prelu(b: Builder, input: Value, weight: Value) -> Value:
    """PReLU with per-channel slopes, or a single slope."""
    slopes = b.dims(weight)
    rank = len(b.dims(input))
    if len(slopes) != 1 or slopes[0] == 1 or rank < 2:
        return b(PRelu, input, weight)
    shape = [length(slopes, 0), *[1] * (rank - 2)]
    slope = b.reshaped(weight, shape)
    if slope is None:
        slope = b(Reshape, weight, shape)
    return b(PRelu, input, slope)


# ── over an axis ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _implicit_axis(b: Builder, dim: Any, x: Value) -> int:
    """Return the axis; by default the first for tensors of rank 0, 1 and 3, else the second."""
    rank = len(b.dims(x))
    return axis_of(scalar_of(dim), rank) if dim is not None else (0 if rank in (0, 1, 3) else 1)


def _converted(b: Builder, x: Value, dtype: Any) -> Value:
    # A boolean argument is `half_to_float`, not a dtype.
    wanted = None if isinstance(dtype, bool) else named_dtype(dtype)
    return x if wanted is None else cast(b, x, wanted)


PNNX.having(converted=_converted, implicit_axis=_implicit_axis).lower("""
nn.Softmax, F.softmax, torch.softmax, aten::softmax, aten::_softmax(input, dim=None, dtype=None)
    -> Softmax(x := converted(input, dtype), axis=implicit_axis(dim, x))
nn.LogSoftmax, F.log_softmax, torch.log_softmax, aten::log_softmax, aten::_log_softmax(input, dim=None, dtype=None)
    -> LogSoftmax(x := converted(input, dtype), axis=implicit_axis(dim, x))
""")


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@emits("torch.clamp", "aten::clamp", "torch.clip", "aten::clip", "Tensor.clamp")
def clamp(b: Builder, input: Value, min: Any = None, max: Any = None) -> Value:
    """min(max(x, lower), upper): the upper bound has priority if the bounds cross."""
    x, *bounds = promoted(b, input, *(bound for bound in (min, max) if bound is not None))
    low = bounds.pop(0) if min is not None else None
    high = bounds.pop(0) if max is not None else None
    if all(bound is None or (bound.storage is not None and not b.dims(bound)) for bound in (low, high)):
        return b(Clip, x, low, high)
    x = x if low is None else b(Max, x, low)
    return x if high is None else b(Min, x, high)


PNNX.lower(
    """
nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout,
    aten::dropout, aten::feature_dropout(input, training: any = False)
    -> training is True: unsupported("a dropout that is training")
    -> input
""",
    ignores=("p", "inplace"),
)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


PNNX.export_rules("""
Gelu -> F.gelu(input=x, approximate=approximate)
Softplus -> F.softplus(input=x, beta=1, threshold=20)
Softmax -> F.softmax(input=input, dim=axis)
LogSoftmax -> F.log_softmax(input=input, dim=axis)
Shrink
    -> lambd >= 0 and bias == 0 and is_floating(input): F.hardshrink(input=input, lambd=lambd)
    -> lambd >= 0 and bias == lambd and is_floating(input): F.softshrink(input=input, lambd=lambd)
ThresholdedRelu -> F.threshold(input=x, threshold=alpha, value=0.0)
Dropout(ratio: ignored, seed: ignored) -> training_mode is None: nn.Identity(input=data)
""")


@Selu.export_rule(DIALECT)
def export_selu(
    b: Builder, x: Value, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323
) -> Value | None:
    if abs(alpha - 1.6732631921768188) < 1e-6 and abs(gamma - 1.0507010221481323) < 1e-6:
        return called(b, "F.selu", input=x)
    return expressed(b, f"mul(@0,{gamma!r})", called(b, "F.elu", input=x, alpha=alpha))


@HardSigmoid.export_rule(DIALECT)
def export_hard_sigmoid(b: Builder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value | None:
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return called(b, "F.hardsigmoid", input=x)
    return expressed(b, f"minimum(maximum(add(mul(@0,{alpha!r}),{beta!r}),0.0),1.0)", x)


@PRelu.export_rule(DIALECT)
def export_prelu(b: Builder, x: Value, slope: Value) -> Value | None:
    """Export PRelu with a single slope or per-channel slopes."""
    dims, slopes = b.dims(x), b.dims(slope)
    aligned = (1,) * (len(dims) - len(slopes)) + slopes
    is_wide = len(dims) >= 2 and len(slopes) <= len(dims)
    if is_wide and slope.storage is not None and all(n == 1 for axis, n in enumerate(aligned) if axis != 1):
        return called(b, "F.prelu", input=x, weight=b.reshaped(slope, [length(aligned, 1)]))
    return expressed(b, "add(maximum(@0,0),mul(@1,minimum(@0,0)))", x, slope)


@Hardmax.export_rule(DIALECT)
def export_hardmax(b: Builder, input: Value, *, axis: int = -1) -> Value | None:
    """Export Hardmax as a one-hot encoding of the first maximum."""
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
    return called(b, "Tensor.to", input=moved, copy=False, dtype=NAMES[dtype_of(input)])


@Clip.export_rule(DIALECT)
def export_clip(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Value:
    bounds = [None if each is None else _bound(each) for each in (min, max)]
    return called(b, "torch.clamp", input=input, min=bounds[0], max=bounds[1])


def _bound(bound: Value) -> Value | float | int:
    return scalar_of(bound) if bound.storage is not None and bound.storage.count == 1 else bound
