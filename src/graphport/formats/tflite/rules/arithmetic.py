"""Arithmetic of TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules import tables
from graphport.formats.tflite.rules.binding import NARROW, Operator, word
from graphport.formats.tflite.rules.rows import ROWS
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.operands import cast, dtype_of, scalar, vector
from graphport.ops.pages.arithmetic import (
    Add,
    BitShift,
    BitwiseAnd,
    Cast,
    Div,
    Floor,
    Max,
    Min,
    Mul,
    Pow,
    Reciprocal,
    Sub,
    Sum,
)
from graphport.ops.pages.arithmetic.bits import BitCast
from graphport.ops.pages.comparison import And, Equal, Greater, GreaterOrEqual, IsNaN, Less, Not, Or, Where, Xor
from graphport.ops.pages.reduction import ReduceSum
from graphport.ops.pages.reshape import Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


def _computed(b: Builder, operator: str, *operands: Value) -> Value:
    """An operation, on short integers in int32, for runtimes have none of their own."""
    page, own = registry.pages()[operator], dtype_of(operands[0])
    if own not in NARROW:
        return b(page, *operands)
    return cast(b, b(page, *(cast(b, x, DType.INT32) for x in operands)), own)


def _is_negative_zero(b: Builder, x: Value) -> Value:
    return b(And, b(Equal, x, b.like(x, 0)), b(Less, b(Reciprocal, x), b.like(x, 0)))


_ROWS = ROWS.having(computed=_computed, is_negative_zero=_is_negative_zero)
_ROWS.lower(
    """
ABS(x) -> computed("Abs", x)
CEIL(x) -> computed("Ceil", x)
COS(x) -> computed("Cos", x)
FLOOR(x) -> computed("Floor", x)
ROUND(x) -> computed("Round", x)
SIGN(x) -> computed("Sign", x)
SIN(x) -> computed("Sin", x)
SQRT(x) -> computed("Sqrt", x)
SQUARE(x) -> computed("Mul", x, x)
ADD(x, y) -> computed("Add", x, y)
SUB, STABLEHLO_SUBTRACT(x, y) -> computed("Sub", x, y)
MUL(x, y) -> computed("Mul", x, y)
DIV, STABLEHLO_DIVIDE(x, y) -> computed("Div", x, y)
POW(x, y) -> computed("Pow", x, y)
SQUARED_DIFFERENCE(x, y) -> computed("Mul", gap := computed("Sub", x, y), gap)
# What is left of a quotient that is rounded down has the sign of the divisor.
FLOOR_MOD(x, y)
    -> not is_floating(x): computed("Mod", x, y)
    -> rest = Mod(x, y, fmod=1); zero = like(x, 0);
       Where(And(Not(Equal(rest, zero)), Xor(Less(rest, zero), Less(y, zero))), Add(rest, y), rest)
# The angle of the point (x, y), from -pi to pi.
ATAN2(y, x)
    -> zero = like(x, 0); is_left = Or(Less(x, zero), is_negative_zero(x));
       turned = Where(Or(Less(y, zero), is_negative_zero(y)), like(x, -math.pi), like(x, math.pi));
       Where(And(Equal(x, zero), Equal(y, zero)), Where(is_left, turned, y),
             Add(Atan(Div(y, x)), Where(is_left, turned, zero)))
""",
    layout="any",
)


_ROWS.lower(
    """
# These kernels compute on integers as they are, whatever they stand for.
NEG(x) -> computed("Neg", x)
BITWISE_XOR(x, y)
    -> dtype(x) is bool: Xor(x, y)
    -> BitwiseXor(x, y)
STABLEHLO_ADD(x, y)
    -> dtype(x) is bool: computed("Or", x, y)
    -> computed("Add", x, y)
STABLEHLO_MULTIPLY(x, y)
    -> dtype(x) is bool: computed("And", x, y)
    -> computed("Mul", x, y)
STABLEHLO_MAXIMUM(x, y)
    -> dtype(x) is bool: computed("Or", x, y)
    -> computed("Max", x, y)
STABLEHLO_MINIMUM(x, y)
    -> dtype(x) is bool: computed("And", x, y)
    -> computed("Min", x, y)
""",
    is_raw=True,
    layout="any",
)


_ROWS.lower(
    """
STABLEHLO_AND(x, y)
    -> dtype(x) is bool: And(x, y)
    -> BitwiseAnd(x, y)
# Bits that leave are lost.
STABLEHLO_SHIFT_LEFT(x, y) -> cast(BitShift(cast(x, uint32), cast(y, uint32), direction="LEFT"), dtype(x))
""",
    is_raw=True,
)
# Of int16 that stands for zero or less, the least number, or the largest.
_ROWS.lower('EXP(x) -> computed("Exp", x)', first=lambda op: tables.interpolated(op, np.exp), layout="any")
_ROWS.lower('LOG(x) -> computed("Log", x)', first=lambda op: tables.interpolated(op, np.log, -32768), layout="any")
_ROWS.lower(
    "RSQRT(x) -> Reciprocal(Sqrt(x))",
    first=lambda op: tables.interpolated(op, lambda x: 1 / np.sqrt(x), 32767),
    layout="any",
)


def _chosen(name: str, operator: str, relation: Page) -> None:
    @word(name, is_even=True, layout="any")
    def rule(op: Operator) -> Value:
        """The first where it is beyond the second: where the first is no number, that is the second."""
        b, x, y = op.b, op[0], op[1]
        if not dtype_of(x).is_floating or op.quantization(0) is not None:
            return _computed(b, operator, x, y)
        return b(Where, b(relation, x, y), x, y)

    del rule


_chosen("MAXIMUM", "Max", Greater)
_chosen("MINIMUM", "Min", Less)


@word("FLOOR_DIV", layout="any")
def floor_div(op: Operator) -> Value:
    """The quotient, rounded down."""
    b, x, y = op.b, op[0], op[1]
    own = dtype_of(x)
    if own.is_floating:
        # The kernel divides in 64 bits: 6 by 0.3 is a little less than 20 there.
        return cast(b, b(Floor, b(Div, cast(b, x, DType.FLOAT64), cast(b, y, DType.FLOAT64))), own)
    if own in NARROW:
        x, y = cast(b, x, DType.INT32), cast(b, y, DType.INT32)
    quotient, zero = b(Div, x, y), b.like(x, 0)
    is_inexact = b(Not, b(Equal, b(Mul, quotient, y), x))
    is_negative = b(Xor, b(Less, x, zero), b(Less, y, zero))
    lower = cast(b, b(And, is_inexact, is_negative), dtype_of(x))
    return cast(b, b(Sub, quotient, lower), own)


@word("ADD_N", layout="any")
def add_n(op: Operator) -> Value:
    """The sum of all operands."""
    operands = op.all()
    if dtype_of(operands[0]).is_floating:
        return op.b(Sum, *operands)
    total = operands[0]
    for operand in operands[1:]:
        total = op.b(Add, total, operand)
    return total


@word("CAST", is_raw=True, layout="any")
def cast_(op: Operator) -> Value:
    """The same numbers in another element type, which is that of the result."""
    b, x, dtype = op.b, op.raw(0), op.types[0]
    if dtype is None:
        message = "it does not say to which type"
        raise UnsupportedError(message)
    own = dtype_of(x)
    if own in _REALS and dtype in _SATURATED:
        return _saturated(b, cast(b, x, DType.FLOAT32), dtype)
    return b(Cast, x, to=dtype)


_REALS = frozenset((DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16))
_SATURATED = NARROW | {DType.INT32, DType.UINT32, DType.INT64}


def _saturated(b: Builder, x: Value, dtype: DType) -> Value:
    """Reals to integers: what is too small becomes the least, what is too large or no number the largest."""
    limits = np.iinfo(dtype.numpy)
    if dtype in NARROW:
        kept = b(Min, b(Max, x, b.like(x, float(limits.min))), b.like(x, float(limits.max)))
        return b(Cast, b(Where, b(IsNaN, x), b.like(x, float(limits.max)), kept), to=dtype)
    inside = b(Cast, b(Max, x, b.like(x, float(limits.min))), to=dtype)
    overflows = b(Or, b(GreaterOrEqual, x, b.like(x, float(int(limits.max) + 1))), b(IsNaN, x))
    return b(Where, overflows, b.constant(np.array(limits.max, dtype.numpy)), inside)


@word("BITCAST", is_raw=True)
def bitcast(op: Operator) -> Value:
    """The same bits as another element type, of which several may take one's place along a last axis."""
    b, x, dtype = op.b, op.raw(0), op.types[0]
    own = dtype_of(x)
    if dtype is None or dtype.bits == own.bits or min(own.bits, dtype.bits) < _BYTE:
        return b(BitCast, x, to=dtype)
    wide, narrow = (_UNSIGNED[max(own.bits, dtype.bits)], _UNSIGNED[min(own.bits, dtype.bits)])
    shifts = np.arange(0, wide.bits, narrow.bits)
    if own.bits > dtype.bits:
        # ONNX Runtime moves no bits of 16.
        lane = DType.UINT64 if wide is DType.UINT64 else DType.UINT32
        whole = cast(b, x if own is wide else b(BitCast, x, to=wide), lane)
        bit_offsets = b.constant(shifts.astype(lane.numpy), lane)
        moved = b(BitShift, b(Unsqueeze, whole, vector(b, [-1])), bit_offsets, direction="RIGHT")
        parts = b(Cast, b(BitwiseAnd, moved, scalar(b, (1 << narrow.bits) - 1, lane)), to=narrow)
        return parts if dtype is narrow else b(BitCast, parts, to=dtype)
    parts = b(Cast, x if own is narrow else b(BitCast, x, to=narrow), to=DType.UINT64)
    moved = b(BitShift, parts, b.constant(shifts.astype(np.uint64), DType.UINT64), direction="LEFT")
    total = b(ReduceSum, b(Cast, moved, to=DType.INT64), vector(b, [-1]), keepdims=0)
    whole = b(Cast, total, to=wide)
    return whole if dtype is wide else b(BitCast, whole, to=dtype)


_BYTE = 8
_UNSIGNED = {each.bits: each for each in (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)}


@word("RIGHT_SHIFT", is_raw=True, layout="any")
def right_shift(op: Operator) -> Value:
    """Bits moved to the right, as many as are there but one at most; the sign fills what becomes free."""
    b, x, y = op.b, op.raw(0), op.raw(1)
    own = dtype_of(x)
    if own.kind == "u":
        # ONNX Runtime moves no bits of 16.
        wide = DType.UINT32 if own is DType.UINT16 else own
        most = b(Min, cast(b, y, DType.UINT32), scalar(b, own.bits - 1, DType.UINT32))
        return cast(b, b(BitShift, cast(b, x, wide), cast(b, most, wide), direction="RIGHT"), own)
    by = b(Pow, scalar(b, 2, DType.FLOAT64), cast(b, y, DType.FLOAT64))
    return cast(b, b(Floor, b(Div, cast(b, x, DType.FLOAT64), by)), own)
