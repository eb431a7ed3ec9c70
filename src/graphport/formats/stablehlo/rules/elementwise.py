"""Element-wise operations of numeric and boolean tensors: arithmetic, comparisons, bits, conversions."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.emitter import RULES, Emitter, element_type, rule
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.stablehlo.program import Operation

_NARROW_FLOATS = frozenset(
    {
        DType.BFLOAT16,
        DType.FLOAT8E4M3FN,
        DType.FLOAT8E4M3FNUZ,
        DType.FLOAT8E5M2,
        DType.FLOAT8E5M2FNUZ,
        DType.FLOAT8E8M0,
        DType.FLOAT4E2M1,
    }
)
_NARROW_INTEGERS = {
    DType.INT2: DType.INT8,
    DType.INT4: DType.INT8,
    DType.UINT2: DType.UINT8,
    DType.UINT4: DType.UINT8,
}
UNSIGNED = {
    DType.INT8: DType.UINT8,
    DType.INT16: DType.UINT16,
    DType.INT32: DType.UINT32,
    DType.INT64: DType.UINT64,
}
SIGNED = {unsigned: signed for signed, unsigned in UNSIGNED.items()}

Function = "Callable[..., Value]"


def wide_type(dtype: DType) -> DType:
    """The type in which elements of `dtype` are computed: a runtime has no arithmetic of the narrow ones."""
    if dtype in _NARROW_FLOATS:
        return DType.FLOAT32
    return _NARROW_INTEGERS.get(dtype, dtype)


def widened(e: Emitter, function: Callable[..., Value], *xs: Value) -> Value:
    """Compute `function` in a wider type where the operands' type has no arithmetic, and round the result."""
    dtype = e.dtype(xs[-1])
    wide = wide_type(dtype)
    if wide is dtype:
        return function(e, *xs)
    found = function(e, *[e.cast(x, wide) if x.dtype is dtype else x for x in xs])
    if found.dtype is not wide:
        return found
    if dtype in _NARROW_INTEGERS:
        found = _wrapped(e, found, dtype)
    return e.cast(found, dtype)


def _wrapped(e: Emitter, x: Value, dtype: DType) -> Value:
    """The low bits of an integer, as the narrow type has them."""
    low = e("BitwiseAnd", x, (1 << dtype.bits) - 1)
    if dtype.kind == "u":
        return low
    half = 1 << (dtype.bits - 1)
    return e("Sub", e("BitwiseXor", low, half), half)


def _rule_signature(function: Callable[..., Value]) -> inspect.Signature:
    """The signature of a function of tensors as that of a rule, which also takes the operation."""
    emitter, *operands = inspect.signature(function).parameters.values()
    operation = inspect.Parameter("op", inspect.Parameter.POSITIONAL_ONLY)
    return inspect.Signature([emitter.replace(kind=inspect.Parameter.POSITIONAL_ONLY), operation, *operands])


def elementwise(*names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register a function of tensors of one type, which is computed in a wide type."""

    def register(function: Callable[..., Value]) -> Callable[..., Value]:
        def apply(e: Emitter, op: Operation, *xs: Value) -> Value:
            del op
            return widened(e, function, *xs)

        apply.__signature__ = _rule_signature(function)  # pyright: ignore[reportFunctionMemberAccess]
        RULES.update(dict.fromkeys(names, apply))
        return function

    return register


def _table(**operators: str) -> None:
    for name, op_type in operators.items():

        def apply(e: Emitter, x: Value, *, _op_type: str = op_type) -> Value:
            return e(_op_type, x)

        elementwise(name)(apply)


_table(
    abs="Abs",
    floor="Floor",
    ceil="Ceil",
    exponential="Exp",
    log="Log",
    sqrt="Sqrt",
    tanh="Tanh",
    logistic="Sigmoid",
    sine="Sin",
    cosine="Cos",
    round_nearest_even="Round",
)


def _is_bool(x: Value) -> bool:
    return x.dtype is DType.BOOL


@elementwise("subtract")
def subtract(e: Emitter, x: Value, y: Value) -> Value:
    """x - y."""
    return e("Sub", x, y)


@elementwise("add")
def add(e: Emitter, x: Value, y: Value) -> Value:
    """Add; of booleans, or."""
    return e("Or" if _is_bool(x) else "Add", x, y)


@elementwise("multiply")
def multiply(e: Emitter, x: Value, y: Value) -> Value:
    """Multiply; of booleans, and."""
    return e("And" if _is_bool(x) else "Mul", x, y)


@elementwise("negate")
def negate(e: Emitter, x: Value) -> Value:
    """Negate; unsigned integers wrap around."""
    return e("Sub", e.constant(0, x.dtype), x) if e.dtype(x).kind == "u" else e("Neg", x)


@elementwise("abs")
def absolute(e: Emitter, x: Value) -> Value:
    """The absolute value; the lowest integer is unchanged."""
    return x if e.dtype(x).kind == "u" else e("Abs", x)


@elementwise("maximum")
def maximum(e: Emitter, x: Value, y: Value) -> Value:
    """The larger element, NaN where one is; of booleans, or."""
    return e("Or" if _is_bool(x) else "Max", x, y)


@elementwise("minimum")
def minimum(e: Emitter, x: Value, y: Value) -> Value:
    """The smaller element, NaN where one is; of booleans, and."""
    return e("And" if _is_bool(x) else "Min", x, y)


@elementwise("divide")
def divide(e: Emitter, x: Value, y: Value) -> Value:
    """Divide; integers truncate, by zero the result is -1 (all bits), the lowest by -1 is the lowest."""
    dtype = e.dtype(x)
    if not dtype.is_integer:
        return e("Div", x, y)
    if _is_plain_divisor(e, y):
        return e("Div", x, y)
    zero = e("Equal", y, 0)
    all_ones = e.constant(-1 if dtype.kind == "i" else (1 << dtype.bits) - 1, dtype)
    if dtype.kind == "u":
        return e("Where", zero, all_ones, e("Div", x, e("Where", zero, e.constant(1, dtype), y)))
    minus = e("Equal", y, -1)
    safe = e("Where", e("Or", zero, minus), e.constant(1, dtype), y)
    quotient = e("Div", x, safe)
    return e("Where", zero, all_ones, e("Where", minus, e("Sub", e.constant(0, dtype), x), quotient))


def _is_plain_divisor(e: Emitter, y: Value) -> bool:
    """Whether a divisor is constant, and neither 0 nor -1."""
    known = e.constant_elements(y)
    return known is not None and not bool(np.isin(known.astype(np.float64), (0, -1)).any())


@elementwise("remainder")
def remainder(e: Emitter, x: Value, y: Value) -> Value:
    """The remainder with the sign of the dividend; of integers by zero, the dividend.

    XLA on CPU reads subnormal divisors as zero, so that the remainder is NaN.
    """
    dtype = e.dtype(x)
    if not dtype.is_integer:
        return e("Mod", x, _flushed(e, y), fmod=1)
    if _is_plain_divisor(e, y):
        return _integer_remainder(e, x, y)
    zero = e("Equal", y, 0)
    bad = e("Or", zero, e("Equal", y, -1)) if dtype.kind == "i" else zero
    found = _integer_remainder(e, x, e("Where", bad, e.constant(1, dtype), y))
    return e("Where", zero, x, found)


def _integer_remainder(e: Emitter, x: Value, y: Value) -> Value:
    """The remainder of a valid division; ONNX Runtime computes `fmod` of integers as float64, inexact for 64 bits."""
    dtype = e.dtype(x)
    if dtype is DType.INT64:
        return e("Sub", x, e("Mul", e("Div", x, y), y))
    return e("Mod", x, y, fmod=None if dtype.kind == "u" else 1)


def _flushed(e: Emitter, y: Value) -> Value:
    """Replace subnormal floats by zero."""
    dtype = e.dtype(y)
    if dtype not in (DType.FLOAT32, DType.FLOAT64):
        return y
    smallest = float(np.finfo(dtype.numpy).tiny)
    known = e.constant_elements(y)
    if known is not None and not bool((np.abs(known) < smallest).any()):
        return y
    return e("Where", e("Less", e("Abs", y), smallest), e.constant(0.0, dtype), y)


@elementwise("sign")
def sign(e: Emitter, x: Value) -> Value:
    """-1, 0 or 1; zeros keep their sign, NaN is unchanged."""
    dtype = e.dtype(x)
    if not dtype.is_floating:
        return e("Sign", x)
    return e("Where", e("Or", e("Equal", x, 0), e("IsNaN", x)), x, e("Sign", x))


@elementwise("rsqrt")
def rsqrt(e: Emitter, x: Value) -> Value:
    """1 / sqrt(x)."""
    return e("Reciprocal", e("Sqrt", x))


@elementwise("cbrt")
def cbrt(e: Emitter, x: Value) -> Value:
    """The cube root with the sign of x."""
    return e("Mul", e("Sign", x), e("Pow", e("Abs", x), 1.0 / 3.0))


@elementwise("exponential_minus_one")
def expm1(e: Emitter, x: Value) -> Value:
    """exp(x) - 1 = tanh(x / 2) * (exp(x) + 1), which is accurate near zero."""
    return e("Mul", e("Tanh", e("Mul", x, 0.5)), e("Add", e("Exp", x), 1.0))


@elementwise("log_plus_one")
def log1p(e: Emitter, x: Value) -> Value:
    """log(1 + x) = log(u) * x / (u - 1) with u = 1 + x rounded, which is accurate near zero."""
    u = e("Add", x, 1.0)
    less = e("Sub", u, 1.0)
    is_tiny = e("Equal", less, 0.0)
    ratio = e("Div", x, e("Where", is_tiny, e.constant(1.0, x.dtype), less))
    is_far = e("IsInf", x)
    found = e("Where", is_far, e("Log", u), e("Mul", e("Log", u), ratio))
    return e("Where", is_tiny, x, found)


@elementwise("tan", "chlo.tan")
def tan(e: Emitter, x: Value) -> Value:
    """The tangent; the runtime has float32 alone."""
    if x.dtype is DType.FLOAT32:
        return e("Tan", x)
    return e("Div", e("Sin", x), e("Cos", x))


@elementwise("round_nearest_afz")
def round_away(e: Emitter, x: Value) -> Value:
    """Round to the nearest integer, ties away from zero."""
    size = e("Abs", x)
    low = e("Floor", size)
    up = e("GreaterOrEqual", e("Sub", size, low), 0.5)
    found = e("Where", up, e("Add", low, 1.0), low)
    return e("Where", e("Less", x, 0.0), e("Neg", found), found)


@elementwise("is_finite")
def is_finite(e: Emitter, x: Value) -> Value:
    """Whether an element is neither infinite nor NaN."""
    wide = e.cast(x, DType.FLOAT32) if e.dtype(x).bits < 16 else x
    return e("Not", e("Or", e("IsInf", wide), e("IsNaN", wide)))


@elementwise("power")
def power(e: Emitter, x: Value, y: Value) -> Value:
    """Raise to a power; integers by a negative power are 0, except 1 and -1."""
    dtype = e.dtype(x)
    if not dtype.is_integer:
        return e("Pow", x, y)
    return integer_power(e, x, y)


def integer_power(e: Emitter, x: Value, y: Value) -> Value:
    """Raise integers by squaring, modulo 2^bits."""
    dtype = e.dtype(x)
    one = e.constant(1, dtype)
    most = dtype.bits - (dtype.kind == "i")
    steps = most if e.scalar(y) is None else min(max(int(e.scalar(y)).bit_length(), 1), most)
    exponent = y if dtype.kind == "u" else e("Max", y, 0)
    result, base = one, x
    for step in range(steps):
        bit = e("Equal", e("BitwiseAnd", exponent, e.constant(1 << step, dtype)), 0)
        result = e("Where", bit, result, e("Mul", result, base))
        if step + 1 < steps:
            base = e("Mul", base, base)
    if dtype.kind == "u" or (e.scalar(y) or -1) >= 0:
        return result
    odd = e("Not", e("Equal", e("BitwiseAnd", y, one), 0))
    inverse = e("Where", e("Equal", x, 1), one, e.constant(0, dtype))
    minus = e("Where", odd, e.constant(-1, dtype), one)
    inverse = e("Where", e("Equal", x, -1), minus, inverse)
    return e("Where", e("Less", y, 0), inverse, result)


# Logic and bits

for _name, _logical, _bitwise in (
    ("and", "And", "BitwiseAnd"),
    ("or", "Or", "BitwiseOr"),
    ("xor", "Xor", "BitwiseXor"),
):

    @elementwise(_name)
    def _logic(e: Emitter, x: Value, y: Value, *, _of: tuple[str, str] = (_logical, _bitwise)) -> Value:
        return e(_of[0] if _is_bool(x) else _of[1], x, y)


@elementwise("not")
def invert(e: Emitter, x: Value) -> Value:
    """Invert booleans or all bits."""
    return e("Not" if _is_bool(x) else "BitwiseNot", x)


def shifted(e: Emitter, x: Value, count: Value, direction: str) -> Value:
    """Shift the bits of unsigned integers; by the width or more, all are 0."""
    dtype = e.dtype(x)
    known = e.scalar(count)
    if known is not None and 0 <= known < dtype.bits:
        return e("BitShift", x, count, direction=direction)
    fits = e("Less", count, dtype.bits)
    safe = e("Where", fits, count, e.constant(0, dtype))
    return e("Where", fits, e("BitShift", x, safe, direction=direction), e.constant(0, dtype))


def _shift(e: Emitter, x: Value, count: Value, direction: str) -> Value:
    dtype = e.dtype(x)
    unsigned = UNSIGNED.get(dtype, dtype)
    return e.cast(shifted(e, e.cast(x, unsigned), e.cast(count, unsigned), direction), dtype)


def _narrow_shift(e: Emitter, x: Value, count: Value, function: Callable[..., Value]) -> Value:
    """Shift integers of two or four bits as bytes; counts from the width on shift all bits out."""
    dtype = e.dtype(x)
    if dtype not in _NARROW_INTEGERS:
        return function(e, x, count)
    wide = _NARROW_INTEGERS[dtype]
    mask = (1 << dtype.bits) - 1
    amount = e("BitwiseAnd", e.cast(count, wide), mask)
    amount = e("Where", e("Less", amount, dtype.bits), amount, e.constant(8, wide))
    given = e.cast(x, wide)
    if function is _shift_right_logical:
        given = e("BitwiseAnd", given, mask)
    return e.cast(_wrapped(e, function(e, given, amount), dtype), dtype)


def _shift_left(e: Emitter, x: Value, count: Value) -> Value:
    return _shift(e, x, count, "LEFT")


def _shift_right_logical(e: Emitter, x: Value, count: Value) -> Value:
    return _shift(e, x, count, "RIGHT")


def _shift_right_arithmetic(e: Emitter, x: Value, count: Value) -> Value:
    """Shift right and repeat the sign: of negative ones the inverted bits are shifted."""
    dtype = e.dtype(x)
    signed = SIGNED.get(dtype, dtype)
    given = e.cast(x, signed)
    is_negative = e("Less", given, 0)
    bits = e("Where", is_negative, e("BitwiseNot", given), given)
    found = _shift(e, bits, e.cast(count, signed), "RIGHT")
    return e.cast(e("Where", is_negative, e("BitwiseNot", found), found), dtype)


for _name, _function in (
    ("shift_left", _shift_left),
    ("shift_right_logical", _shift_right_logical),
    ("shift_right_arithmetic", _shift_right_arithmetic),
):

    @rule(_name)
    def _shift_rule(
        e: Emitter, op: Operation, x: Value, count: Value, *, _of: Callable[..., Value] = _function
    ) -> Value:
        del op
        return _narrow_shift(e, x, count, _of)


def _as_uint64(e: Emitter, x: Value) -> Value:
    dtype = e.dtype(x)
    if dtype in _NARROW_INTEGERS:
        x = e("BitwiseAnd", e.cast(x, DType.UINT8), (1 << dtype.bits) - 1)
    else:
        x = e.cast(x, UNSIGNED.get(dtype, dtype))
    return e.cast(x, DType.UINT64)


def _ones(e: Emitter, x: Value) -> Value:
    """The number of ones among the bits of uint64 elements: sums of neighbouring fields, each twice as wide."""

    def right(value: Value, count: int) -> Value:
        return e("BitShift", value, e.constant(count, DType.UINT64), direction="RIGHT")

    def masked(value: Value, mask: int) -> Value:
        return e("BitwiseAnd", value, e.constant(np.uint64(mask), DType.UINT64))

    x = e("Sub", x, masked(right(x, 1), 0x5555555555555555))
    x = e("Add", masked(x, 0x3333333333333333), masked(right(x, 2), 0x3333333333333333))
    x = masked(e("Add", x, right(x, 4)), 0x0F0F0F0F0F0F0F0F)
    for count in (8, 16, 32):
        x = e("Add", x, right(x, count))
    return masked(x, 0x7F)


@rule("popcnt")
def popcnt(e: Emitter, op: Operation, x: Value) -> Value:
    """Count the bits that are one."""
    del op
    return e.cast(_ones(e, _as_uint64(e, x)), e.dtype(x))


@rule("count_leading_zeros")
def count_leading_zeros(e: Emitter, op: Operation, x: Value) -> Value:
    """Count the zeros above the highest one: fill all bits below it, and count the set bits."""
    del op
    wide = _as_uint64(e, x)
    for count in (1, 2, 4, 8, 16, 32):
        if count < e.dtype(x).bits:
            right = e("BitShift", wide, e.constant(count, DType.UINT64), direction="RIGHT")
            wide = e("BitwiseOr", wide, right)
    ones = e.cast(_ones(e, wide), DType.INT64)
    return e.cast(e("Sub", e.constant(e.dtype(x).bits, DType.INT64), ones), e.dtype(x))


# Comparison and choice

_COMPARISONS = {
    "EQ": "Equal",
    "LT": "Less",
    "LE": "LessOrEqual",
    "GT": "Greater",
    "GE": "GreaterOrEqual",
}


@rule("compare")
def compare(e: Emitter, op: Operation, x: Value, y: Value) -> Value:
    """Compare elements; in the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    return compared(e, op.attribute("comparison_direction"), x, y, op.attributes.get("compare_type") or "")


def compared(e: Emitter, direction: str, x: Value, y: Value, kind: str = "") -> Value:
    """Compare elements in a direction."""
    if kind == "TOTALORDER" and e.dtype(x).is_floating:
        x, y = total_order_key(e, x), total_order_key(e, y)
    if x.dtype is DType.BOOL and direction not in ("EQ", "NE"):
        x, y = e.cast(x, DType.INT32), e.cast(y, DType.INT32)
    wide = wide_type(e.dtype(x))
    x, y = e.cast(x, wide), e.cast(y, wide)
    if direction == "NE":
        return e("Not", e("Equal", x, y))
    if direction not in _COMPARISONS:
        refuse("SH0007", f"compare: unknown direction {direction!r}")
    return e(_COMPARISONS[direction], x, y)


def total_order_key(e: Emitter, x: Value) -> Value:
    """Integers in the total order of floats: the bits, of negative floats all but the sign inverted."""
    wide = x if e.dtype(x) in (DType.FLOAT32, DType.FLOAT64) else e.cast(x, DType.FLOAT32)
    dtype = DType.INT64 if wide.dtype is DType.FLOAT64 else DType.INT32
    bits = e("BitCast", wide, to=dtype)
    highest = e.constant((1 << (dtype.bits - 1)) - 1, dtype)
    return e("Where", e("Less", bits, 0), e("BitwiseXor", bits, highest), bits)


@rule("select", "chlo.broadcast_select", moves=True)
def select(e: Emitter, op: Operation, condition: Value, x: Value, y: Value) -> Value:
    """Choose by a boolean."""
    del op
    return e("Where", condition, x, y)


@rule("clamp")
def clamp(e: Emitter, op: Operation, lowest: Value, x: Value, highest: Value) -> Value:
    """min(max(x, lowest), highest)."""
    del op
    dtype = e.dtype(x)
    low, wide, high = (e.cast(value, wide_type(dtype)) for value in (lowest, x, highest))
    return e.cast(minimum(e, maximum(e, wide, low), high), dtype)


# Conversions


@rule("convert", takes_codes=False)
def convert(e: Emitter, op: Operation, x: Value) -> Value:
    """Convert elements; floats saturate to integers, NaN converts to 0, integers wrap around."""
    return converted(e, x, element_type(op.result_types[0], e.dtype(x)))


def converted(e: Emitter, x: Value, dtype: DType) -> Value:
    """Elements in another type."""
    source = e.dtype(x)
    if source is dtype:
        return x
    if dtype is DType.BOOL:
        wide = e.cast(x, wide_type(source))
        return e("Not", e("Equal", wide, 0))
    if source.is_floating and dtype.is_integer:
        return _saturated(e, x, dtype)
    if source.is_integer and dtype in _NARROW_INTEGERS:
        return e.cast(_wrapped(e, e.cast(x, _NARROW_INTEGERS[dtype]), dtype), dtype)
    if source is DType.BOOL and dtype in _NARROW_INTEGERS:
        return e.cast(e.cast(x, _NARROW_INTEGERS[dtype]), dtype)
    if dtype in _EIGHT_BITS:
        floats = e.cast(x, DType.FLOAT32) if source in _NARROW_FLOATS else x
        return e("Cast", _overflowed(e, floats) if dtype is DType.FLOAT8E5M2 else floats, to=dtype, saturate=0)
    if dtype is DType.FLOAT8E8M0:
        floats = e.cast(x, DType.FLOAT32)
        is_valid = e("And", e("Greater", floats, 0.0), e("Less", floats, np.inf))
        return e(
            "Cast", e("Where", is_valid, floats, e.constant(np.nan, DType.FLOAT32)), to=dtype, round_mode="nearest"
        )
    return e.cast(e.cast(x, DType.FLOAT32) if {source, dtype} <= _NARROW_FLOATS else x, dtype)


_E5M2_OVERFLOW = 61440.0
"""The least float that rounds to infinity in float8_e5m2; ONNX Runtime converts it to NaN."""


def _overflowed(e: Emitter, x: Value) -> Value:
    if not e.dtype(x).is_floating:
        x = e.cast(x, DType.FLOAT32)
    return e("Where", e("GreaterOrEqual", e("Abs", x), _E5M2_OVERFLOW), e("Mul", x, np.inf), x)


_EIGHT_BITS = frozenset({DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ})


def _saturated(e: Emitter, x: Value, dtype: DType) -> Value:
    """Floats to integers: NaN is 0, and those beyond the range are its ends."""
    wide = x if e.dtype(x) in (DType.FLOAT32, DType.FLOAT64) else e.cast(x, DType.FLOAT32)
    bits = dtype.bits
    lowest = 0 if dtype.kind == "u" else -(1 << (bits - 1))
    highest = (1 << bits) - 1 if dtype.kind == "u" else (1 << (bits - 1)) - 1
    above = e("GreaterOrEqual", wide, float(highest + 1))
    below = e("Less", wide, float(lowest))
    outside = e("Or", e("Or", above, below), e("IsNaN", wide))
    safe = e("Where", outside, e.constant(0.0, wide.dtype), wide)
    step = _NARROW_INTEGERS.get(dtype, dtype)
    inside = e.cast(safe, step)
    low = e("Where", below, e.constant(lowest, step), inside) if lowest else inside
    return e.cast(e("Where", above, e.constant(highest, step), low), dtype)


@rule("bitcast_convert", takes_codes=True)
def bitcast_convert(e: Emitter, op: Operation, x: Any) -> Value:
    """The same bits in another type; of another width, with an axis more or less."""
    from graphport.formats.stablehlo.rules.values import Quantized

    if isinstance(x, Quantized):
        x = x.codes
    if not isinstance(x, Value):
        refuse("SH0007", "bitcast_convert: the operand is not a numeric tensor")
    source, dtype = e.dtype(x), op.result_types[0]
    wanted = getattr(dtype, "dtype", source)
    if source is wanted:
        return x
    if source.bits == wanted.bits:
        return e("BitCast", x, to=wanted)
    return _resized_bits(e, x, wanted)


def _resized_bits(e: Emitter, x: Value, wanted: DType) -> Value:
    """Split elements into narrower ones along a new last axis, or join the last axis; low bits first."""
    source = e.dtype(x)
    if DType.BOOL in (source, wanted) or any(t.bits < 8 and t not in _NARROW_INTEGERS for t in (source, wanted)):
        refuse("SH0006", f"unsupported: bitcast_convert from {source} to {wanted}")
    unsigned = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32, 64: DType.UINT64}
    wide = _reinterpreted(e, x, unsigned[source.bits]) if source.bits >= 8 else _low_bits(e, x, source)
    if source.bits > wanted.bits:
        count = source.bits // wanted.bits
        shifts = e.constant(np.arange(count) * wanted.bits, wide.dtype)
        parts = e("BitShift", e.unsqueeze(wide, e.rank(x)), shifts, direction="RIGHT")
        if wanted.bits < 8:
            return converted(e, _low_bits(e, parts, wanted), wanted)
        return _reinterpreted(e, e.cast(parts, unsigned[wanted.bits]), wanted)
    count = wanted.bits // source.bits
    if wanted.bits < 8:
        refuse("SH0006", f"unsupported: bitcast_convert from {source} to {wanted}")
    shifts = e.constant(np.arange(count) * source.bits, unsigned[wanted.bits])
    parts = e("BitShift", e.cast(wide, unsigned[wanted.bits]), shifts, direction="LEFT")
    joined = e.cast(parts, DType.INT64) if wanted.bits < 64 else e("BitCast", parts, to=DType.INT64)
    total = e("ReduceSum", joined, e.ints(e.rank(x) - 1), keepdims=0)
    back = e.cast(total, unsigned[wanted.bits]) if wanted.bits < 64 else e("BitCast", total, to=DType.UINT64)
    return _reinterpreted(e, back, wanted)


def _low_bits(e: Emitter, x: Value, dtype: DType) -> Value:
    """The bits of a type of less than 8 bits, in uint8."""
    if e.dtype(x).bits < 8:
        x = e.cast(x, _NARROW_INTEGERS[e.dtype(x)])
    return e(
        "BitwiseAnd",
        _reinterpreted(e, x, DType.UINT8) if e.dtype(x).bits == 8 else e.cast(x, DType.UINT8),
        (1 << dtype.bits) - 1,
    )


def _reinterpreted(e: Emitter, x: Value, dtype: DType) -> Value:
    return x if x.dtype is dtype else e("BitCast", x, to=dtype)


@rule("reduce_precision")
def reduce_precision(e: Emitter, op: Operation, x: Value) -> Value:
    """Round to fewer bits of exponent and mantissa."""
    text = op.attributes.get("format")
    if isinstance(text, str):
        parts = re.fullmatch(r"e([0-9]{1,3})m([0-9]{1,3})", text)
        if parts is None:
            refuse("SH0007", f"reduce_precision: the format {text[:20]!r} is not e<bits>m<bits>")
        exponent, mantissa = (int(part) for part in parts.groups())
    else:
        exponent, mantissa = int(op.attribute("exponent_bits")), int(op.attribute("mantissa_bits"))
    return reduced_precision(e, x, exponent, mantissa)


_FIELDS = {DType.FLOAT64: (11, 52), DType.FLOAT32: (8, 23), DType.FLOAT16: (5, 10), DType.BFLOAT16: (8, 7)}


def reduced_precision(e: Emitter, x: Value, exponent: int, mantissa: int) -> Value:
    """Round the bits of floats to the nearest even mantissa; what leaves the range is infinite or zero."""
    dtype = e.dtype(x)
    own = _FIELDS.get(dtype)
    if own is None or exponent < 2 or mantissa < 0:
        refuse(
            "SH0006",
            f"unsupported: reduce_precision of {dtype} to {exponent} exponent bits and {mantissa} mantissa bits",
        )
    bits_type = {64: DType.UINT64, 32: DType.UINT32, 16: DType.UINT16}[dtype.bits]
    wide = DType.UINT64
    bits = e.cast(e("BitCast", x, to=bits_type), wide)

    def bit_constant(value: int) -> Value:
        return e.constant(np.uint64(value), wide)

    all_bits = (1 << dtype.bits) - 1
    if mantissa < own[1]:
        drop = own[1] - mantissa
        last = e("BitwiseAnd", e("BitShift", bits, bit_constant(drop), direction="RIGHT"), bit_constant(1))
        bias = e("Add", last, bit_constant((1 << (drop - 1)) - 1))
        rounded = e("BitwiseAnd", e("Add", bits, bias), bit_constant(all_bits & ~((1 << drop) - 1)))
    else:
        rounded = bits
    sign = e("BitwiseAnd", bits, bit_constant(1 << (dtype.bits - 1)))
    size = e("BitwiseAnd", rounded, bit_constant(all_bits >> 1))
    if exponent < own[0]:
        own_bias, bias = (1 << (own[0] - 1)) - 1, (1 << (exponent - 1)) - 1
        highest = (own_bias + bias + 1) << own[1]
        lowest = (own_bias - bias + 1) << own[1]
        infinity = ((1 << own[0]) - 1) << own[1]
        size = e("Where", e("GreaterOrEqual", size, bit_constant(highest)), bit_constant(infinity), size)
        size = e("Where", e("Less", size, bit_constant(lowest)), bit_constant(0), size)
    found = e("BitCast", e.cast(e("BitwiseOr", sign, size), bits_type), to=dtype)
    return e("Where", e("IsNaN", e.cast(x, DType.FLOAT32) if dtype is DType.BFLOAT16 else x), x, found)
