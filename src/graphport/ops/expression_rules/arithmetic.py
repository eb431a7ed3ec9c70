"""Functions of the expression language without a single canonical operator.

Each computes what PyTorch computes, in the promoted dtype of its arguments, special values included.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.arithmetic import (
    Abs,
    Add,
    Atan,
    Div,
    Exp,
    Log,
    Max,
    Min,
    Mod,
    Mul,
    Neg,
    Reciprocal,
    Round,
    Sub,
    Sum,
)
from graphport.ops.definitions.comparison import And, Equal, IsInf, Less, Not, Or, Where, Xor
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _dtype_kind(x: Value) -> str:
    dtype = x.dtype
    if dtype is None:
        message = "the element type of an operand is not known"
        raise UnsupportedError(message)
    return dtype.kind


RuleTable("expression", {"kind": lambda _b, x: _dtype_kind(x)}).lower("""
square(x) -> Mul(x, x)
rsqrt(x) -> Reciprocal(Sqrt(x))
log10(x) -> Div(Log(x), math.log(10))
# log(1 + x), precise near 0: what rounding takes from 1 + x is made good (Kahan).
log1p(x)
    -> Where(Or(Equal(near := Add(x, 1.0), 1.0), IsInf(x, detect_negative=0)), x,
             Mul(Log(near), Div(x, Sub(near, 1.0))))
# log(exp(x) + exp(y)), without overflow.
logaddexp(x, y)
    -> Where(Equal(x, y), Add(x, math.log(2)), Add(Max(x, y), log1p(Exp(Neg(Abs(Sub(x, y)))))))
# Without the fraction.
trunc(x) -> Mul(Sign(x), Floor(Abs(x)))
fmod(x, y) -> Mod(x, y, fmod=1)
# 0 for NaN, of which the operator makes NaN.
sign(x)
    -> kind(x) != "f": Sign(x)
    -> Where(Equal(x, x), Sign(x), 0.0)
# Truth values are joined.
maximum(x, y)
    -> kind(x) == "b": Or(x, y)
    -> Max(x, y)
minimum(x, y)
    -> kind(x) == "b": And(x, y)
    -> Min(x, y)
add(x, y)
    -> kind(x) == "b": Or(x, y)
    -> Add(x, y)
mul(x, y)
    -> kind(x) == "b": And(x, y)
    -> Mul(x, y)
lshift(x, y)
    -> kind(x) == "u": BitShift(x, y, direction="LEFT")
    -> Mul(x, Pow(like(x, 2), y))
rshift(x, y)
    -> kind(x) == "u": BitShift(x, y, direction="RIGHT")
    -> floor_divide(x, Pow(like(x, 2), y))
""")


@lower("expression", "expm1")
def expm1(b: Builder, x: Value) -> Value:
    """Compute exp(x) - 1 without cancellation near 0."""
    one = b.like(x, 1.0)
    grown = b(Exp, x)
    less = b(Sub, grown, one)
    corrected = b(Mul, less, b(Div, x, b(Log, grown)))
    settled = b(Where, b(Or, b(Equal, less, b(Neg, one)), b(IsInf, grown)), less, corrected)
    return b(Where, b(Equal, grown, one), x, settled)


@lower("expression", "remainder")
def remainder(b: Builder, x: Value, y: Value) -> Value:
    """Compute x - y * floor(x / y)."""
    if _dtype_kind(x) != "f":
        return b(Mod, x, y)
    rest, is_below = _divided(b, x, y)
    return b(Where, is_below, b(Add, rest, y), rest)


@lower("expression", "floor_divide")
def floor_divide(b: Builder, x: Value, y: Value) -> Value:
    """Compute floor((x - remainder) / y): subtracting the remainder first makes the rounding exact."""
    if _dtype_kind(x) != "f":
        return b(Div, b(Sub, x, b(Mod, x, y)), y)
    rest, is_below = _divided(b, x, y)
    whole = b(Round, b(Div, b(Sub, x, rest), y))
    lowered = b(Where, is_below, b(Sub, whole, 1.0), whole)
    return b(Where, b(Equal, y, 0.0), b(Div, x, y), lowered)


def _divided(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Divide without the remainder; subtract 1 if the remainder and `y` have different signs."""
    zero = b.like(x, 0.0)
    rest = b(Mod, x, y, fmod=1)
    has_other_sign = b(Xor, b(Less, rest, zero), b(Less, y, zero))
    return rest, b(And, has_other_sign, b(Not, b(Equal, rest, zero)))


@lower("expression", "atan2")
def atan2(b: Builder, y: Value, x: Value) -> Value:
    """Compute the angle of the point (x, y) from that of (|x|, |y|), with signed zeros and infinities."""
    zero, one = b.like(x, 0.0), b.like(x, 1.0)
    are_endless = b(And, b(IsInf, x), b(IsInf, y))
    wide, high = (b(Where, are_endless, one, b(Abs, each)) for each in (x, y))
    angle = b(Where, b(Equal, y, zero), zero, b(Atan, b(Div, high, wide)))
    mirrored = b(Where, _is_negative(b, x), b(Sub, math.pi, angle), angle)
    is_undefined = b(Add, b(Mul, x, zero), b(Mul, y, zero))
    signed = b(Where, _is_negative(b, y), b(Neg, mirrored), mirrored)
    # An infinity times 0 is NaN too, so test whether the value is unequal to itself.
    is_number = b(And, b(Equal, x, x), b(Equal, y, y))
    return b(Where, is_number, signed, is_undefined)


def _is_negative(b: Builder, x: Value) -> Value:
    """Whether the sign of `x` is negative; the reciprocal distinguishes -0."""
    zero = b.like(x, 0.0)
    return b(Or, b(Less, x, zero), b(And, b(Equal, x, zero), b(Less, b(Reciprocal, x), zero)))


RuleTable("expression", {"is_logical": lambda _b, x: _dtype_kind(x) == "b"}).lower("""
and(x, y)
    -> is_logical(x): And(x, y)
    -> BitwiseAnd(x, y)
or(x, y)
    -> is_logical(x): Or(x, y)
    -> BitwiseOr(x, y)
xor(x, y)
    -> is_logical(x): Xor(x, y)
    -> BitwiseXor(x, y)
""")


# Operators whose function has another number of arguments or needs several operators


@Max.export_rule("expression")
def _of_max(b: Builder, *data_0: Value) -> Value:
    return _folded(b, "maximum", data_0)


@Min.export_rule("expression")
def _of_min(b: Builder, *data_0: Value) -> Value:
    return _folded(b, "minimum", data_0)


@Sum.export_rule("expression")
def _of_sum(b: Builder, *data_0: Value) -> Value:
    return _folded(b, "add", data_0)


def _folded(b: Builder, op_type: str, operands: tuple[Value, ...]) -> Value:
    total = operands[0]
    for operand in operands[1:]:
        total = b.emit(op_type, total, operand)[0]
    return total


@Mod.export_rule("expression")
def _of_mod(b: Builder, a: Value, c: Value, *, fmod: int = 0) -> Value:
    return b.emit("fmod" if fmod else "remainder", a, c)[0]
