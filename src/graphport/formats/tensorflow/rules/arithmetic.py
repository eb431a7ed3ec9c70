"""Arithmetic of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import CHANNELS_FIRST, RULES, by_pytorch, operator
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import (
    Add,
    BitShift,
    BitwiseAnd,
    Cast,
    Div,
    Floor,
    Mod,
    Mul,
    Sub,
    Sum,
)
from graphport.ops.definitions.arithmetic.bits import BitCast
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, Less, Not, Or, Where, Xor
from graphport.ops.lowering.operands import cast, dtype_of, ends_of, reshaped, scalar

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


_ROWS = RULES.having(pytorch=lambda b, op_type, *operands: by_pytorch(b, op_type, *operands)[0])
_ROWS.lower("""
Abs(x) -> Abs(x)
Neg(x) -> Neg(x)
Sign(x)
    -> is_floating(x): Where(IsNaN(x), x, Sign(x))
    -> Sign(x)
Sqrt(x) -> Sqrt(x)
Rsqrt(x) -> Reciprocal(Sqrt(x))
Square(x) -> Mul(x, x)
Exp(x) -> Exp(x)
Expm1(x) -> Sub(Exp(x), 1)
Log(x) -> Log(x)
Sin(x) -> Sin(x)
Cos(x) -> Cos(x)
Tan(x) -> Tan(x)
Asin(x) -> Asin(x)
Acos(x) -> Acos(x)
Atan(x) -> Atan(x)
Sinh(x) -> Sinh(x)
Cosh(x) -> Cosh(x)
Asinh(x) -> Asinh(x)
Acosh(x) -> Acosh(x)
Atanh(x) -> Atanh(x)
Ceil(x)
    -> is_floating(x): Ceil(x)
    -> Identity(x)
Floor(x)
    -> is_floating(x): Floor(x)
    -> Identity(x)
Round, Rint(x)
    -> is_floating(x): Round(x)
    -> Identity(x)
Reciprocal, Inv(x) -> Reciprocal(x)
Erf(x) -> Erf(x)
Erfc(x) -> Sub(like(x, 1), Erf(x))
Lgamma(x) -> pytorch("aten.lgamma.default", x)
Digamma(x) -> pytorch("aten.digamma.default", x)
Erfinv(x) -> pytorch("aten.erfinv.default", x)
BesselI0(x) -> pytorch("aten.i0.default", x)
BesselI0e(x) -> pytorch("aten.special_i0e.default", x)
BesselI1(x) -> pytorch("aten.special_i1.default", x)
BesselI1e(x) -> pytorch("aten.special_i1e.default", x)
Ndtri(x) -> pytorch("aten.special_ndtri.default", x)
Add, AddV2(x, y) -> Add(x, y)
Sub(x, y) -> Sub(x, y)
Mul(x, y) -> Mul(x, y)
RealDiv, Div, TruncateDiv(x, y) -> Div(x, y)
Pow(x, y) -> Pow(x, y)
Maximum(x, y) -> Max(x, y)
Minimum(x, y) -> Min(x, y)
SquaredDifference(x, y) -> Mul(d := Sub(x, y), d)
TruncateMod, Mod(x, y) -> Mod(x, y, fmod=1)
DivNoNan(x, y) -> Where(Equal(y, 0), like(x, 0), Div(x, Where(Equal(y, 0), like(y, 1), y)))
MulNoNan(x, y) -> Where(Equal(y, 0), like(x, 0), Mul(x, y))
Xdivy(x, y) -> Where(Equal(x, 0), like(x, 0), Div(x, y))
Xlogy(x, y) -> Where(Equal(x, 0), like(x, 0), Mul(x, Log(y)))
Xlog1py(x, y) -> Where(Equal(x, 0), like(x, 0), Mul(x, Log(Add(y, 1))))
L2Loss(x) -> Div(ReduceSumSquare(x, keepdims=0), 2)
Atan2(y, x) -> tflite("ATAN2", y, x)
ClipByValue(x, low, high) -> Min(Max(x, low), high)
BiasAddV1(x, bias) -> Add(x, bias)
""")


@operator("Log1p")
def log1p(b: Builder, x: Value) -> Value:
    """log(1 + x), exact for small x: log(u) * x / (u - 1) with u = 1 + x rounded."""
    from graphport.ops.definitions.arithmetic import Log

    one = b.like(x, 1)
    u = b(Add, x, one)
    gap = b(Sub, u, one)
    is_small = b(Equal, gap, 0)
    ratio = b(Div, x, b(Where, is_small, one, gap))
    is_infinite = b(GreaterOrEqual, u, np.inf)
    return b(Where, b(Or, is_small, is_infinite), b(Where, is_small, x, u), b(Mul, b(Log, u), ratio))


@operator("AddN", "AccumulateNV2")
def add_n(b: Builder, *x: Value) -> Value:
    """The sum of all operands."""
    if dtype_of(x[0]).is_floating:
        return b(Sum, *x)
    total = x[0]
    for each in x[1:]:
        total = b(Add, total, each)
    return total


@operator("FloorDiv")
def floor_div(b: Builder, x: Value, y: Value) -> Value:
    """The quotient, rounded down."""
    dtype = dtype_of(x)
    if dtype.is_floating:
        return b(Floor, b(Div, x, y))
    quotient = b(Div, x, y)
    if dtype.kind == "u":
        return quotient
    zero = b.like(x, 0)
    is_inexact = b(Not, b(Equal, b(Mul, quotient, y), x))
    is_negative = b(Xor, b(Less, x, zero), b(Less, y, zero))
    return b(Sub, quotient, cast(b, b(And, is_inexact, is_negative), dtype))


@operator("FloorMod")
def floor_mod(b: Builder, x: Value, y: Value) -> Value:
    """The remainder with the sign of the divisor."""
    if not dtype_of(x).is_floating:
        return b(Mod, x, y)
    rest, zero = b(Mod, x, y, fmod=1), b.like(x, 0)
    is_other = b(And, b(Not, b(Equal, rest, zero)), b(Xor, b(Less, rest, zero), b(Less, y, zero)))
    return b(Where, is_other, b(Add, rest, y), rest)


@operator("BiasAdd")
def bias_add(b: Builder, x: Value, bias: Value, *, data_format: str = "NHWC") -> Value:
    """`bias` [C] added to each channel."""
    if data_format in CHANNELS_FIRST:
        bias = reshaped(b, bias, (-1, *[1] * (len(b.dims(x)) - 2)))
    return b(Add, x, bias)


@operator("Cast", "Bitcast")
def cast_(b: Builder, x: Value, *, DstT: DType | None = None, type: DType | None = None) -> Value:
    """`x` in another element type."""
    if DstT is not None:
        return _converted(b, x, DstT)
    if type is None:
        message = "missing element type"
        raise UnsupportedError(message)
    own = dtype_of(x)
    if own.bits == type.bits:
        return b(BitCast, x, to=type)
    from graphport.formats.tensorflow.rules.binding import by_tflite

    return by_tflite(b, "BITCAST", x, types=(type,))[0]


_NARROW = frozenset((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16))


def _converted(b: Builder, x: Value, dtype: DType) -> Value:
    """Convert as x86 processors do: floats out of the range of the integer, and NaN, map to its minimum.

    Shorter integers are the low bits of an integer of 32 bits.
    """
    own = dtype_of(x)
    if dtype.kind == "c" or own.kind == "c":
        message = "complex element types"
        raise UnsupportedError(message)
    if not own.is_floating or dtype.is_floating or dtype is DType.BOOL:
        return cast(b, x, dtype)
    wide = dtype if dtype in (DType.INT32, DType.INT64) else DType.INT64 if dtype.bits >= 32 else DType.INT32
    x = x if own in (DType.FLOAT32, DType.FLOAT64) else cast(b, x, DType.FLOAT32)
    low, _ = ends_of(wide)
    bound = b.like(x, float(low))
    is_outside = b(Or, b(Not, b(Less, x, -float(low))), b(Less, x, bound))
    inside = b(Cast, b(Where, is_outside, bound, x), to=wide)
    return cast(b, inside, dtype)


RULES.lower("""
BitwiseAnd(x, y) -> BitwiseAnd(x, y)
BitwiseOr(x, y) -> BitwiseOr(x, y)
BitwiseXor(x, y) -> BitwiseXor(x, y)
Invert(x) -> BitwiseNot(x)
RightShift(x, y) -> tflite("RIGHT_SHIFT", x, y)
""")


@operator("LeftShift")
def left_shift(b: Builder, x: Value, y: Value) -> Value:
    """Shift bits to the left and drop the overflow."""
    own = dtype_of(x)
    wide = DType.UINT64 if own.bits == 64 else DType.UINT32
    return cast(b, b(BitShift, cast(b, x, wide), cast(b, y, wide), direction="LEFT"), own)


@operator("PopulationCount")
def population_count(b: Builder, x: Value) -> Value:
    """The number of bits that are 1."""
    own = dtype_of(x)
    bits = own.bits
    unsigned = {8: DType.UINT8, 16: DType.UINT16, 32: DType.UINT32, 64: DType.UINT64}[bits]
    whole = x if own is unsigned else b(BitCast, x, to=unsigned)
    lane = DType.UINT64 if bits == 64 else DType.UINT32
    whole = cast(b, whole, lane)
    total: Value | None = None
    one = scalar(b, 1, lane)
    for index in range(bits):
        moved = b(BitShift, whole, index, direction="RIGHT") if index else whole
        bit = cast(b, b(BitwiseAnd, moved, one), DType.INT32)
        total = bit if total is None else b(Add, total, bit)
    return cast(b, total if total is not None else x, DType.UINT8)
