"""Export rules of arithmetic, logic and comparisons to ATen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, EXPORT, aten, aten_results, with_fact
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, export_rule
from graphport.ops.definitions.arithmetic import BitShift, Div, Mean, Mod, Pow
from graphport.ops.definitions.arithmetic.bits import BitCast
from graphport.ops.definitions.arithmetic.cast import Cast, CastLike
from graphport.ops.definitions.comparison import IsInf
from graphport.ops.lowering.operands import cast, dtype_of

EXPORT.export_rules("""
Acos -> aten.acos(input)
Acosh -> aten.acosh(input)
Asin -> aten.asin(input)
Asinh -> aten.asinh(input)
Atan -> aten.atan(input)
Atanh -> aten.atanh(input)
Ceil -> aten.ceil(x)
Cos -> aten.cos(input)
Cosh -> aten.cosh(input)
Erf -> aten.erf(input)
Exp -> aten.exp(input)
Floor -> aten.floor(x)
Log -> aten.log(input)
Reciprocal -> aten.reciprocal(x)
Round -> aten.round(x)
Sin -> aten.sin(input)
Sinh -> aten.sinh(input)
Sqrt -> aten.sqrt(x)
Tan -> aten.tan(input)
And -> aten.logical_and(a, b)
Or -> aten.logical_or(a, b)
Xor -> aten.logical_xor(a, b)
Not -> aten.logical_not(x)
IsNaN -> aten.isnan(x)
""")

_UNSIGNED = {DType.UINT16: DType.INT32, DType.UINT32: DType.INT64, DType.UINT64: DType.INT64}
"""Element types without CPU kernels, and the type with the same arithmetic modulo 2^n."""


def _widened(b: Builder, name: str, *operands: Value) -> Value:
    """Emit an operator on tensors of one element type, in a wider type if torch has no kernel."""
    own = dtype_of(operands[0])
    wide = _UNSIGNED.get(own)
    if wide is None:
        return aten(b, name, *operands)
    found = aten(b, name, *(aten(b, "to.dtype", x, wide) for x in operands))
    return found if dtype_of(found) is DType.BOOL else aten(b, "to.dtype", found, own)


def _with_number(b: Builder, name: str, x: Value, y: Value) -> Value:
    """Emit a binary operator; a scalar constant is written as a Python number."""
    number = _literal(y) if b.dims(x) else None
    if number is None or dtype_of(x) in _UNSIGNED:
        return _widened(b, name, x, y)
    return aten(b, name, x, number)


def _literal(y: Value) -> float | None:
    if y.storage is None or not y.is_constant or y.storage.shape or y.storage.dtype.kind not in "if":
        return None
    number = y.storage.numpy().reshape(()).item()
    return number if isinstance(number, int | float) and math.isfinite(number) else None


_BINARY = {
    "Add": "add.Tensor",
    "Sub": "sub.Tensor",
    "Mul": "mul.Tensor",
}
_SAME_TYPE = {
    "Abs": "abs",
    "BitwiseAnd": "bitwise_and.Tensor",
    "BitwiseNot": "bitwise_not",
    "BitwiseOr": "bitwise_or.Tensor",
    "BitwiseXor": "bitwise_xor.Tensor",
    "Equal": "eq.Tensor",
    "Greater": "gt.Tensor",
    "GreaterOrEqual": "ge.Tensor",
    "Less": "lt.Tensor",
    "LessOrEqual": "le.Tensor",
    "Neg": "neg",
    "Sign": "sign",
}


def _register(operator: str, name: str, emit: Callable[..., Value]) -> None:
    export_rule(DIALECT, operator)(lambda b, *operands: emit(b, name, *operands))


for _operator, _target in _BINARY.items():
    _register(_operator, _target, _with_number)
for _operator, _target in _SAME_TYPE.items():
    _register(_operator, _target, _widened)


def _chained(b: Builder, name: str, *operands: Value) -> Value:
    if len(operands) == 1:
        return aten(b, "alias", operands[0])
    return reduce(lambda x, y: _widened(b, name, x, y), operands)


for _operator, _target in {"Max": "maximum", "Min": "minimum", "Sum": "add.Tensor"}.items():
    _register(_operator, _target, _chained)


@Mean.export_rule(DIALECT)
def export_mean(b: Builder, *operands: Value) -> Value:
    return aten(b, "div.Tensor", _chained(b, "add.Tensor", *operands), float(len(operands)))


@Div.export_rule(DIALECT)
def export_div(b: Builder, x: Value, y: Value) -> Value:
    """Export Div; integer division truncates toward zero."""
    own = dtype_of(x)
    if own.is_floating:
        return _with_number(b, "div.Tensor", x, y)
    wide = _UNSIGNED.get(own)
    if wide is None:
        return aten(b, "div.Tensor_mode", x, y, rounding_mode="trunc")
    if own is DType.UINT64:
        message = "PyTorch has no division of uint64"
        raise UnsupportedError(message)
    operands = (aten(b, "to.dtype", each, wide) for each in (x, y))
    return aten(b, "to.dtype", aten(b, "div.Tensor_mode", *operands, rounding_mode="trunc"), own)


@Pow.export_rule(DIALECT)
def export_pow(b: Builder, x: Value, y: Value) -> Value:
    """Export Pow; the result has the element type of the base."""
    base, exponent = dtype_of(x), dtype_of(y)
    number = _literal(y) if b.dims(x) and base.is_floating else None
    if number is not None:
        return aten(b, "pow.Tensor_Scalar", x, number)
    if base is exponent:
        return aten(b, "pow.Tensor_Tensor", x, y)
    if base.is_floating:
        return aten(b, "pow.Tensor_Tensor", x, cast(b, y, base))
    wide = DType.FLOAT64 if exponent.is_floating else DType.INT64
    return cast(b, aten(b, "pow.Tensor_Tensor", cast(b, x, wide), cast(b, y, wide)), base)


@Mod.export_rule(DIALECT)
def export_mod(b: Builder, x: Value, y: Value, *, fmod: int = 0) -> Value:
    """Export Mod: the result has the sign of the dividend with `fmod`, else of the divisor."""
    if dtype_of(x) is DType.UINT64:
        message = "PyTorch has no remainder of uint64"
        raise UnsupportedError(message)
    return _widened(b, "fmod.Tensor" if fmod else "remainder.Tensor", x, y)


@BitShift.export_rule(DIALECT)
def export_bit_shift(b: Builder, x: Value, y: Value, *, direction: str) -> Value:
    if dtype_of(x) is not DType.UINT64 or direction == "LEFT":
        return _widened(b, f"bitwise_{direction.lower()}_shift.Tensor", x, y)
    # For 64 bits, the arithmetic shift copies the sign bit, which is masked.
    long, count = (aten(b, "view.dtype", each, DType.INT64) for each in (x, y))
    shifted = aten(b, "bitwise_right_shift.Tensor", long, count)
    ones = aten(b, "full_like", long, -1)
    rest = aten(b, "rsub.Scalar", count, 64)
    mask = aten(b, "bitwise_not", aten(b, "bitwise_left_shift.Tensor", ones, rest))
    kept = aten(b, "where.self", aten(b, "eq.Scalar", count, 0), ones, mask)
    return aten(b, "view.dtype", aten(b, "bitwise_and.Tensor", shifted, kept), DType.UINT64)


@IsInf.export_rule(DIALECT)
def export_isinf(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Export IsInf; for one sign as a comparison."""
    if detect_negative and detect_positive:
        return aten(b, "isinf", x)
    if not (detect_negative or detect_positive):
        return aten(b, "zeros_like", x, dtype=DType.BOOL)
    return aten(b, "eq.Tensor", x, b.like(x, math.inf if detect_positive else -math.inf))


# ── element types ─────────────────────────────────────────────────────────────────────────────────────────────────────

_SATURATED = {
    DType.FLOAT8E4M3FN: 448.0,
    DType.FLOAT8E4M3FNUZ: 240.0,
    DType.FLOAT8E5M2: 57344.0,
    DType.FLOAT8E5M2FNUZ: 57344.0,
}
_OVERFLOWS = {
    DType.FLOAT8E4M3FN: ("gt", 464.0),
    DType.FLOAT8E4M3FNUZ: ("ge", 248.0),
    DType.FLOAT8E5M2FNUZ: ("ge", 61440.0),
}
"""The comparison and the limit above which unsaturated values become NaN."""
_TORCH = frozenset(
    (
        *(DType.BOOL, DType.UINT8, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT16, DType.UINT32),
        *(DType.UINT64, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64, DType.FLOAT8E8M0, *_SATURATED),
    )
)
HELD_AS: Mapping[DType, DType] = MappingProxyType(
    {
        DType.INT2: DType.INT8,
        DType.INT4: DType.INT8,
        DType.UINT2: DType.UINT8,
        DType.UINT4: DType.UINT8,
        DType.FLOAT4E2M1: DType.FLOAT8E4M3FN,
    }
)
"""Types below a byte, and the type of torch that holds their elements; the graph pass `narrow_types` widens values."""
NARROW = "pt2.narrow"
"""The note of a value that has been widened."""


@Cast.export_rule(DIALECT)
def export_cast(b: Builder, input: Value, *, round_mode: str = "up", saturate: int = 1, to: DType) -> Value:
    own = dtype_of(input)
    if to in HELD_AS:
        return _cast_to_float4(b, input) if to.is_floating else _wrapped(b, input, to)
    for dtype in (own, to):
        if dtype not in _TORCH:
            message = f"PyTorch does not support tensors of {dtype}"
            raise UnsupportedError(message)
    if to is DType.FLOAT8E8M0:
        return _cast_to_exponent(b, input, round_mode, saturates=bool(saturate))
    most = _SATURATED.get(to)
    if most is not None and saturate:
        wide = own if own in (DType.FLOAT32, DType.FLOAT64) else DType.FLOAT32
        x = input if wide is own else aten(b, "to.dtype", input, wide)
        return aten(b, "to.dtype", aten(b, "clamp", x, -most, most), to)
    beyond = _OVERFLOWS.get(to)
    if beyond is not None:
        size = aten(b, "abs", input)
        input = aten(b, "masked_fill.Scalar", input, aten(b, f"{beyond[0]}.Scalar", size, beyond[1]), math.nan)
    return aten(b, "to.dtype", input, to)


def _wrapped(b: Builder, x: Value, to: DType) -> Value:
    """Return the low `to.bits` bits of integers in two's complement, stored in the wider type that replaces `to`."""
    if dtype_of(x) is DType.BOOL:
        return cast(b, x, HELD_AS[to])
    # Towards zero as for all integers; torch converts floats to int64, of which the low bits remain.
    bits = aten(b, "bitwise_and.Scalar", aten(b, "to.dtype", x, DType.INT64), (1 << to.bits) - 1)
    if to.kind == "i":
        sign = 1 << (to.bits - 1)
        bits = aten(b, "sub.Scalar", aten(b, "bitwise_xor.Scalar", bits, sign), sign)
    return aten(b, "to.dtype", bits, HELD_AS[to])


def _cast_to_float4(b: Builder, x: Value) -> Value:
    """Round to the nearest float4e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6 with sign), ties to even; NaN becomes -0."""
    clamped = aten(b, "clamp", cast(b, x, DType.FLOAT32), -6.0, 6.0)
    magnitude = aten(b, "abs", clamped)
    increment = aten(b, "mul.Scalar", aten(b, "ge.Scalar", magnitude, 4.0), 1.0)
    step = aten(b, "add.Tensor", aten(b, "mul.Scalar", aten(b, "ge.Scalar", magnitude, 2.0), 0.5), increment)
    step = aten(b, "add.Scalar", step, 0.5)
    y = aten(b, "mul.Tensor", aten(b, "round", aten(b, "div.Tensor", clamped, step)), step)
    y = aten(b, "masked_fill.Scalar", y, aten(b, "isnan", clamped), -0.0)
    return aten(b, "to.dtype", y, HELD_AS[DType.FLOAT4E2M1])


def _cast_to_exponent(b: Builder, x: Value, round_mode: str, *, saturates: bool) -> Value:
    """Convert to float8e8m0: the biased exponents of the magnitudes, rounded by `round_mode`; code 255 is NaN."""
    magnitude = aten(b, "abs", aten(b, "to.dtype", cast(b, x, DType.FLOAT32), DType.FLOAT64))
    # The magnitude is mantissa * 2 ** power, with the mantissa in [0.5, 1).
    mantissa, power = aten_results(b, "frexp.Tensor", 2, magnitude)
    with_fact(mantissa, DType.FLOAT64, b.dims(x))
    with_fact(power, DType.INT32, b.dims(x))
    name, threshold = {"up": ("gt", 0.5), "nearest": ("ge", 0.75), "down": ("ge", 1.0)}[round_mode]
    exponent = aten(b, "sub.Scalar", aten(b, "add.Tensor", power, aten(b, f"{name}.Scalar", mantissa, threshold)), 1)
    exponent = aten(b, "masked_fill.Scalar", exponent, aten(b, "isinf", magnitude), 1024)
    is_nan = aten(b, "isnan", magnitude)
    if not saturates:
        is_outside = aten(
            b, "logical_or", aten(b, "gt.Scalar", exponent, 127), aten(b, "lt.Scalar", magnitude, 2.0**-127)
        )
        is_nan = aten(b, "logical_or", is_nan, is_outside)
    exponent = aten(b, "masked_fill.Scalar", exponent, aten(b, "eq.Scalar", magnitude, 0.0), -127)
    codes = aten(b, "add.Scalar", aten(b, "clamp", exponent, -127, 127), 127)
    codes = aten(b, "to.dtype", aten(b, "masked_fill.Scalar", codes, is_nan, 255), DType.UINT8)
    return aten(b, "view.dtype", codes, DType.FLOAT8E8M0)


@CastLike.export_rule(DIALECT)
def export_cast_like(
    b: Builder, input: Value, target_type: Value, *, round_mode: str = "up", saturate: int = 1
) -> Value:
    return b(Cast, input, to=dtype_of(target_type), round_mode=round_mode, saturate=saturate)


@BitCast.export_rule(DIALECT)
def export_bit_cast(b: Builder, input: Value, *, to: DType) -> Value:
    for dtype in (dtype_of(input), to):
        if dtype not in _TORCH or input.note(NARROW) is not None:
            message = f"PyTorch does not support tensors of {input.note(NARROW) or dtype}"
            raise UnsupportedError(message)
    return aten(b, "view.dtype", input, to)
