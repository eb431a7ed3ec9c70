"""Arithmetic of TFLite."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules import tables
from graphport.formats.tflite.rules.binding import NARROW, Operator, import_rule
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops import registry
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import (
    Add,
    BitShift,
    BitwiseAnd,
    BitwiseOr,
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
from graphport.ops.definitions.arithmetic.bits import BitCast
from graphport.ops.definitions.comparison import And, Equal, Greater, GreaterOrEqual, IsNaN, Less, Not, Or, Where, Xor
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.lowering.operands import cast, dtype_of, scalar

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef


def _compute_widened(b: Builder, operator: str, *operands: Value) -> Value:
    """Apply an operator; int8 and int16 are computed in int32, because runtimes do not support them."""
    op_def, own = registry.op_defs()[operator], dtype_of(operands[0])
    if own not in NARROW:
        return b(op_def, *operands)
    return cast(b, b(op_def, *(cast(b, x, DType.INT32) for x in operands)), own)


def _is_negative_zero(b: Builder, x: Value) -> Value:
    return b(And, b(Equal, x, 0), b(Less, b(Reciprocal, x), 0))


_ROWS = RULES.having(computed=_compute_widened, is_negative_zero=_is_negative_zero)
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
# Quantized int16: the minimum for elements <= 0 where the result is infinite, else the maximum.
_ROWS.lower('EXP(x) -> computed("Exp", x)', first=lambda op: tables.interpolated(op, np.exp), layout="any")
_ROWS.lower('LOG(x) -> computed("Log", x)', first=lambda op: tables.interpolated(op, np.log, -32768), layout="any")
_ROWS.lower(
    "RSQRT(x) -> Reciprocal(Sqrt(x))",
    first=lambda op: tables.interpolated(op, lambda x: 1 / np.sqrt(x), 32767),
    layout="any",
)


def _register_selection(name: str, operator: str, relation: OpDef) -> None:
    @import_rule(name, is_even=True, layout="any")
    def rule(op: Operator) -> Value:
        """Select the first operand where the comparison holds, else the second, also if the first is NaN."""
        b, x, y = op.b, op[0], op[1]
        if not dtype_of(x).is_floating or op.quantization(0) is not None:
            return _compute_widened(b, operator, x, y)
        return b(Where, b(relation, x, y), x, y)

    del rule


_register_selection("MAXIMUM", "Max", Greater)
_register_selection("MINIMUM", "Min", Less)


@import_rule("FLOOR_DIV", layout="any")
def floor_div(op: Operator) -> Value:
    """Floor division."""
    b, x, y = op.b, op[0], op[1]
    own = dtype_of(x)
    if own.is_floating:
        # The kernel divides in float64: 6 / 0.3 is slightly less than 20 there.
        return cast(b, b(Floor, b(Div, cast(b, x, DType.FLOAT64), cast(b, y, DType.FLOAT64))), own)
    if own in NARROW:
        x, y = cast(b, x, DType.INT32), cast(b, y, DType.INT32)
    quotient, zero = b(Div, x, y), b.like(x, 0)
    is_inexact = b(Not, b(Equal, b(Mul, quotient, y), x))
    is_negative = b(Xor, b(Less, x, zero), b(Less, y, zero))
    lower = cast(b, b(And, is_inexact, is_negative), dtype_of(x))
    return cast(b, b(Sub, quotient, lower), own)


@import_rule("ADD_N", layout="any")
def add_n(op: Operator) -> Value:
    """Sum of all operands."""
    operands = op.all()
    if dtype_of(operands[0]).is_floating:
        return op.b(Sum, *operands)
    total = operands[0]
    for operand in operands[1:]:
        total = op.b(Add, total, operand)
    return total


@import_rule("CAST", is_raw=True, layout="any")
def cast_(op: Operator) -> Value:
    """Cast to the element type of the result."""
    b, x, dtype = op.b, op.raw(0), op.types[0]
    if dtype is None:
        message = "the target type is missing"
        raise UnsupportedError(message)
    own = dtype_of(x)
    if own in _FLOATS and dtype in _SATURATED:
        return _cast_saturating(b, cast(b, x, DType.FLOAT32), dtype)
    return b(Cast, x, to=dtype)


_FLOATS = frozenset((DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16))
_SATURATED = NARROW | {DType.INT32, DType.UINT32, DType.INT64}


def _cast_saturating(b: Builder, x: Value, dtype: DType) -> Value:
    """Cast floats to integers with saturation; NaN maps to the maximum."""
    limits = np.iinfo(dtype.numpy)
    if dtype in NARROW:
        kept = b(Min, b(Max, x, float(limits.min)), float(limits.max))
        return b(Cast, b(Where, b(IsNaN, x), float(limits.max), kept), to=dtype)
    inside = b(Cast, b(Max, x, float(limits.min)), to=dtype)
    overflows = b(Or, b(GreaterOrEqual, x, float(int(limits.max) + 1)), b(IsNaN, x))
    return b(Where, overflows, b.constant(np.array(limits.max, dtype.numpy)), inside)


@import_rule("BITCAST", is_raw=True)
def bitcast(op: Operator) -> Value:
    """Reinterpret bits as another element type; a smaller type adds a last axis."""
    b, x, dtype = op.b, op.raw(0), op.types[0]
    own = dtype_of(x)
    if dtype is None or dtype.bits == own.bits or min(own.bits, dtype.bits) < _BYTE:
        return b(BitCast, x, to=dtype)
    wide, narrow = (_UNSIGNED[max(own.bits, dtype.bits)], _UNSIGNED[min(own.bits, dtype.bits)])
    shifts = np.arange(0, wide.bits, narrow.bits)
    if own.bits > dtype.bits:
        # ONNX Runtime has no BitShift of 16-bit integers.
        lane = DType.UINT64 if wide is DType.UINT64 else DType.UINT32
        whole = cast(b, x if own is wide else b(BitCast, x, to=wide), lane)
        bit_offsets = b.constant(shifts.astype(lane.numpy), lane)
        moved = b(BitShift, b(Unsqueeze, whole, [-1]), bit_offsets, direction="RIGHT")
        parts = b(Cast, b(BitwiseAnd, moved, (1 << narrow.bits) - 1), to=narrow)
        return parts if dtype is narrow else b(BitCast, parts, to=dtype)
    parts = b(Cast, x if own is narrow else b(BitCast, x, to=narrow), to=DType.UINT64)
    moved = b(BitShift, parts, b.constant(shifts.astype(np.uint64), DType.UINT64), direction="LEFT")
    # ONNX Runtime adds int64 as float64 in ReduceSum.
    pieces = [b(Gather, moved, k, axis=-1) for k in range(len(shifts))]
    whole = b(Cast, functools.reduce(lambda x, y: b(BitwiseOr, x, y), pieces), to=wide)
    return whole if dtype is wide else b(BitCast, whole, to=dtype)


_BYTE = 8
_UNSIGNED = {each.bits: each for each in (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)}


@import_rule("RIGHT_SHIFT", is_raw=True, layout="any")
def right_shift(op: Operator) -> Value:
    """Arithmetic right shift, at most by the number of bits minus one."""
    b, x, y = op.b, op.raw(0), op.raw(1)
    own = dtype_of(x)
    if own.kind == "u":
        # ONNX Runtime has no BitShift of 16-bit integers.
        wide = DType.UINT32 if own is DType.UINT16 else own
        most = b(Min, cast(b, y, DType.UINT32), own.bits - 1)
        return cast(b, b(BitShift, cast(b, x, wide), cast(b, most, wide), direction="RIGHT"), own)
    by = b(Pow, scalar(b, 2, DType.FLOAT64), cast(b, y, DType.FLOAT64))
    return cast(b, b(Floor, b(Div, cast(b, x, DType.FLOAT64), by)), own)
