"""Export rules of activations to ATen."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.emitting import DIALECT, EXPORT, aten, aten_results, element_of, size_of
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Clip, Hardmax, PRelu, Softplus
from graphport.ops.definitions.activation.dropout import Dropout
from graphport.ops.definitions.arithmetic import Max, Min, Mul
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.comparison import Less, Where
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.lowering.operands import dtype_of, float_element
from graphport.ops.pattern import constant_numbers


def _is_selu(b: Builder, alpha: float, gamma: float) -> bool:
    """Whether the constants are those of `aten.selu`."""
    del b
    return abs(alpha - 1.6732632423543772) < 1e-6 and abs(gamma - 1.0507009873554805) < 1e-6


EXPORT.having(is_selu=_is_selu).export_rules("""
Relu -> aten.relu(x)
Sigmoid -> aten.sigmoid(x)
Tanh -> aten.tanh(input)
Elu -> aten.elu(x, alpha)
Celu -> aten.celu(x, alpha)
Mish -> aten.mish(x)
HardSwish -> aten.hardswish(x)
LeakyRelu -> aten.leaky_relu(x, alpha)
Gelu -> aten.gelu(x, approximate=approximate)
HardSigmoid
    -> alpha == 1 / 6 and beta == 0.5: aten.hardsigmoid(x)
    -> aten.clamp(Add(Mul(x, alpha), beta), 0.0, 1.0)
Selu
    -> is_selu(alpha, gamma): aten.selu(x)
    -> Mul(Elu(x, alpha=alpha), gamma)
Swish
    -> alpha == 1: aten.silu(x)
    -> Mul(x, Sigmoid(Mul(x, alpha)))
Softmax -> aten.softmax.int(input, axis)
LogSoftmax -> aten.log_softmax.int(input, axis)
Shrink -> Where(Less(input, 0 - lambd), Add(input, bias), Where(Greater(input, lambd), Sub(input, bias), 0))
""")


@Softplus.export_rule(DIALECT)
def export_softplus(b: Builder, x: Value) -> Value:
    """Export Softplus with a threshold above which `x` equals the result in the element type's precision."""
    return aten(b, "softplus", x, 1.0, 40.0 if dtype_of(x) is DType.FLOAT64 else 20.0)


@Clip.export_rule(DIALECT)
def export_clip(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """Export Clip as one operator if the bounds are constants, else as maximum and minimum."""
    low, high = (_constant_bound(bound) for bound in (min, max))
    if (low, high) == (0, 6) and dtype_of(input).is_floating:
        # At its ends, ReLU6 has the gradient 0 and clamp the gradient 1.
        return aten(b, "hardtanh", input, 0.0, 6.0)
    is_known = (min is None or low is not None) and (max is None or high is not None)
    if is_known and dtype_of(input) not in _WITHOUT_KERNELS:
        return input if min is None and max is None else aten(b, "clamp", input, low, high)
    x = input if min is None else b(Max, input, min)
    return x if max is None else b(Min, x, max)


_WITHOUT_KERNELS = (DType.UINT16, DType.UINT32, DType.UINT64)


def _constant_bound(bound: Value | None) -> float | None:
    known = None if bound is None else constant_numbers(bound)
    if known is None and bound is not None and isinstance(bound.fact, TensorFact):
        known = bound.fact.reals
    return None if known is None or len(known) != 1 else known[0]


@PRelu.export_rule(DIALECT)
def export_prelu(b: Builder, x: Value, slope: Value) -> Value:
    """Export PRelu as `aten.prelu` for a single slope or per-channel slopes, else by broadcasting."""
    dims, slopes = b.dims(x), b.dims(slope)
    count = [dim for dim in slopes if dim != 1]
    is_by_channel = len(count) == 1 and len(dims) > 1 and len(slopes) == len(dims) - 1 and slopes[0] == count[0]
    if dtype_of(x).is_floating and (not count or is_by_channel):
        size = 1 if not count else count[0]
        if isinstance(size, int):
            flat = b.reshaped(slope, (size,))
            return aten(b, "prelu", x, b(Reshape, slope, b.constant([size])) if flat is None else flat)
    return b(Where, b(Less, x, 0), b(Mul, x, slope), x)


@Hardmax.export_rule(DIALECT)
def export_hardmax(b: Builder, input: Value, *, axis: int = -1) -> Value:
    """Export Hardmax: 1 at the first maximum along the axis, else 0; 1 for a scalar."""
    if not b.dims(input):
        return aten(b, "ones_like", input)
    place = axis % len(b.dims(input))
    first = aten(b, "argmax", input, place, keepdim=True)
    indices = aten(b, "arange.start_step", 0, size_of(b, input, place), 1)
    shape = [1] * len(b.dims(input))
    shape[place] = -1
    return b(Cast, aten(b, "eq.Tensor", first, aten(b, "reshape", indices, shape)), to=dtype_of(input))


@Dropout.export_rule(DIALECT)
def export_dropout(
    b: Builder,
    data: Value,
    ratio: Value | None = None,
    training_mode: Value | None = None,
    *,
    seed: int | None = None,
) -> tuple[Value, ...]:
    """Export inference Dropout as the identity, with a mask of ones; training is not supported."""
    del seed
    trains = False if training_mode is None else element_of(b, training_mode)
    if isinstance(trains, Value) or (ratio is not None and isinstance(element_of(b, ratio), Value) and trains):
        message = "training_mode is not constant"
        raise UnsupportedError(message)
    if trains:
        share = 0.5 if ratio is None else float_element(ratio)
        return aten_results(b, "native_dropout", 2, data, share, True)
    kept = aten(b, "ones_like", data, dtype=DType.BOOL) if b.wants(1) else None
    found = aten(b, "clone", data)
    return (found,) if kept is None else (found, kept)
