"""Quotients in TFLite: there are kernels of float32 and int32, and of int64 for what is left of a quotient."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.core.dtypes import DType
from graphport.ops.dialects.operands import cast, dtype_of
from graphport.ops.dialects.tflite.emitting import array_of, computed_in
from graphport.ops.pages.arithmetic import Add, BitShift, Div, Mod, Mul, Round, Sub
from graphport.ops.pages.comparison import And, Equal, GreaterOrEqual, Less, Not, Where, Xor

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_DIVIDED = frozenset((DType.FLOAT32, DType.INT32))
_LONG = frozenset((DType.INT64, DType.UINT32))
_ROUNDS = 3
"""Float32 has 23 bits of a quotient right: 63 bits are three times as many at most."""


@Div.lift("tflite")
def lift_div(b: Builder, a: Value, other: Value) -> Lifted:
    if dtype_of(a) is DType.UINT64:
        return (_unsigned(b, a, other),)
    if dtype_of(a) not in _LONG or (array_of(a) is not None and array_of(other) is not None):
        return (computed_in(b, _DIVIDED, "DIV", a, other),)
    x, y = (cast(b, each, DType.INT64) for each in (a, other))
    rest = b(Mod, x, y)
    # What is divided now is a multiple of y: once the quotient is small enough, float32 has it exactly.
    left = b(Sub, x, rest)
    divisor = cast(b, y, DType.FLOAT32)
    quotient: Value | None = None
    for _ in range(_ROUNDS):
        part = cast(b, b(Round, b(Div, cast(b, left, DType.FLOAT32), divisor)), DType.INT64)
        quotient = part if quotient is None else b(Add, quotient, part)
        left = b(Sub, left, b(Mul, part, y))
    if quotient is None:
        return None
    zero = b.like(x, 0)
    # That is rounded down, and ONNX rounds towards zero.
    is_below = b(And, b(Not, b(Equal, rest, zero)), b(Xor, b(Less, x, zero), b(Less, y, zero)))
    return (cast(b, b(Add, quotient, cast(b, is_below, DType.INT64)), dtype_of(a)),)


def _unsigned(b: Builder, a: Value, other: Value) -> Value:
    """A quotient of 64 bits without a sign.

    q = 2 * ((a >> 1) / b), one more where what is left is no less than b; of a b with the highest bit, whether a is.
    """
    whole, half = b.like(other, 1 << 63), b(BitShift, a, b.like(a, 1), direction="RIGHT")
    is_large = b(GreaterOrEqual, other, whole)
    divisor = b(Where, is_large, b.like(other, 1), other)
    part = cast(b, b(Div, cast(b, half, DType.INT64), cast(b, divisor, DType.INT64)), DType.UINT64)
    quotient = b(Where, is_large, b.like(part, 0), b(Add, part, part))
    rest = b(Sub, a, b(Mul, quotient, other))
    return b(Add, quotient, cast(b, b(GreaterOrEqual, rest, other), DType.UINT64))
