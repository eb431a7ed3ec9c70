"""Integer quotients, powers and bit operations in TFLite, whose kernels support few types."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.emitting import array_of, cast_to, computed_in
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.definitions.arithmetic import (
    Add,
    BitShift,
    BitwiseAnd,
    BitwiseNot,
    BitwiseXor,
    Div,
    Mod,
    Mul,
    Pow,
    Round,
    Sub,
)
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, Less, Not, Where, Xor
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


Exported: TypeAlias = "tuple[Value, ...] | None"
_DIVIDED = frozenset((DType.FLOAT32, DType.INT32))
_LONG = frozenset((DType.INT64, DType.UINT32))
_ROUNDS = 3
"""Rounds of long division: float32 computes 23 bits of a quotient, so three rounds cover 63 bits."""


@Div.export_rule("tflite")
def export_div(b: Builder, a: Value, other: Value) -> Exported:
    if dtype_of(a) is DType.UINT64:
        return (_unsigned(b, a, other),)
    if dtype_of(a) not in _LONG or (array_of(a) is not None and array_of(other) is not None):
        return (computed_in(b, _DIVIDED, "DIV", a, other),)
    x, y = (cast(b, each, DType.INT64) for each in (a, other))
    rest = b(Mod, x, y)
    # The remaining dividend is a multiple of y: float32 is exact once the quotient is small enough.
    left = b(Sub, x, rest)
    divisor = cast(b, y, DType.FLOAT32)
    parts: list[Value] = []
    for _ in range(_ROUNDS):
        parts.append(cast(b, b(Round, b(Div, cast(b, left, DType.FLOAT32), divisor)), DType.INT64))
        left = b(Sub, left, b(Mul, parts[-1], y))
    quotient = reduce(partial(b, Add), parts)
    zero = b.like(x, 0)
    # Floor division; ONNX rounds towards zero.
    is_below = b(And, b(Not, b(Equal, rest, zero)), b(Xor, b(Less, x, zero), b(Less, y, zero)))
    return (cast(b, b(Add, quotient, cast(b, is_below, DType.INT64)), dtype_of(a)),)


def _unsigned(b: Builder, a: Value, other: Value) -> Value:
    """Divide unsigned 64-bit integers.

    q = 2 * ((a >> 1) / b), plus one if the remainder is at least b; for b with the highest bit set, q = (a >= b).
    """
    whole, half = b.like(other, 1 << 63), b(BitShift, a, 1, direction="RIGHT")
    is_large = b(GreaterOrEqual, other, whole)
    divisor = b(Where, is_large, 1, other)
    part = cast(b, b(Div, cast(b, half, DType.INT64), cast(b, divisor, DType.INT64)), DType.UINT64)
    quotient = b(Where, is_large, b.like(part, 0), b(Add, part, part))
    rest = b(Sub, a, b(Mul, quotient, other))
    return b(Add, quotient, cast(b, b(GreaterOrEqual, rest, other), DType.UINT64))


_COMPUTED = frozenset((DType.FLOAT32, DType.INT32))
_MAX_EXPONENT = 64
"""Exponent from which all powers of even 64-bit integers are 0; for 0, 1 and -1 only the parity matters."""


@Pow.export_rule("tflite")
def export_pow(b: Builder, x: Value, y: Value) -> Exported:
    """Export Pow with the type of the first operand."""
    own, given = dtype_of(x), dtype_of(y)
    if own.is_floating:
        return (computed_in(b, _COMPUTED, "POW", x, cast_to(b, y, own)),)
    if not given.is_floating:
        return (_integer_power(b, x, y),)
    # Fractions are rounded as in float32 and truncated; integral exponents are exact.
    real = cast_to(b, y, DType.FLOAT32)
    exponent = emit(b, "FLOOR", real)
    is_whole = emit(b, "EQUAL", exponent, real)
    rounded = cast_to(b, emit(b, "POW", cast_to(b, x, DType.FLOAT32), real), own)
    exact = _integer_power(b, x, cast_to(b, exponent, DType.INT32))
    return (emit(b, "SELECT_V2", is_whole, exact, rounded),)


def _integer_power(b: Builder, x: Value, y: Value) -> Value:
    """x^y of int32 or int64; results below one are 0. The int32 kernel rejects negative exponents."""
    stored = array_of(y)
    if stored is not None and np.all(stored >= 0):
        if dtype_of(x) is DType.INT32:
            return emit(b, "POW", x, cast_to(b, y, DType.INT32))
        exponent = b.constant(np.where(stored > _MAX_EXPONENT, _MAX_EXPONENT + stored % 2, stored).astype(np.int32))
        return _product_of_squares(b, x, exponent, int(np.max(stored, initial=0)).bit_length())
    exponent = _clamp_exponent(b, y)
    power = _product_of_squares(b, x, emit(b, "MAXIMUM", exponent, 0), _MAX_EXPONENT.bit_length())
    is_unit = emit(b, "LOGICAL_OR", *(emit(b, "EQUAL", x, b.like(x, unit)) for unit in (1, -1)))
    unit = emit(b, "SELECT_V2", _has_odd_exponent(b, exponent), x, b.like(x, 1))
    below = emit(b, "SELECT_V2", is_unit, unit, b.like(x, 0))
    return emit(b, "SELECT_V2", emit(b, "LESS", exponent, 0), below, power)


def _clamp_exponent(b: Builder, y: Value) -> Value:
    """Limit an exponent to int32 and keep its parity."""
    long = cast_to(b, y, DType.INT64)
    parity = emit(b, "FLOOR_MOD", long, b.like(long, 2))
    low = emit(b, "MAXIMUM", long, emit(b, "SUB", parity, b.like(long, _MAX_EXPONENT)))
    return cast_to(b, emit(b, "MINIMUM", low, emit(b, "ADD", parity, b.like(long, _MAX_EXPONENT))), DType.INT32)


def _has_odd_exponent(b: Builder, exponent: Value) -> Value:
    return emit(b, "EQUAL", emit(b, "FLOOR_MOD", exponent, b.like(exponent, 2)), b.like(exponent, 1))


def _product_of_squares(b: Builder, base: Value, exponent: Value, bits: int) -> Value:
    """Multiply the repeated squares selected by the bits of an exponent."""
    power = b.like(base, 1)
    for place in range(max(bits, 1)):
        shifted = emit(b, "RIGHT_SHIFT", exponent, b.like(exponent, place)) if place else exponent
        base = emit(b, "MUL", base, base) if place else base
        power = emit(b, "SELECT_V2", _has_odd_exponent(b, shifted), emit(b, "MUL", power, base), power)
    return power


_BITS, _HALF = 64, 32
_BITWISE_TYPES = frozenset((DType.UINT8, DType.UINT16, DType.INT32, DType.UINT32))
_AND = _BITWISE_TYPES | {DType.INT64, DType.UINT64}


@BitwiseXor.export_rule("tflite")
def export_xor(b: Builder, a: Value, other: Value) -> Exported:
    own = dtype_of(a)
    if own.bits < _BITS:
        return (computed_in(b, _BITWISE_TYPES, "BITWISE_XOR", a, other),)
    halves = [
        b.emit("BITCAST", x, facts=[TensorFact(DType.INT32, (*b.dims(x), 2))], types=(DType.INT32,))[0]
        for x in (a, other)
    ]
    y = emit(b, "BITWISE_XOR", *halves)
    return b.emit("BITCAST", y, facts=[TensorFact(own, b.dims(y)[:-1])], types=(own,))


@BitwiseAnd.export_rule("tflite")
def export_and(b: Builder, a: Value, other: Value) -> Exported:
    # This kernel does not broadcast.
    zeros = b(BitwiseXor, a, a), b(BitwiseXor, other, other)
    if b.dims(a) != b.dims(other):
        a, other = b(BitwiseXor, a, zeros[1]), b(BitwiseXor, other, zeros[0])
    return (computed_in(b, _AND, "STABLEHLO_AND", a, other),)


RULES.export_rules("""
BitCast -> BITCAST(input, types=(to,))
BitwiseOr -> BitwiseXor(BitwiseXor(a, b), BitwiseAnd(a, b))
""")


@BitwiseNot.export_rule("tflite")
def export_not(b: Builder, x: Value) -> Exported:
    dtype = dtype_of(x)
    ones = -1 if dtype.kind == "i" else (1 << dtype.bits) - 1
    return (b(BitwiseXor, x, b.like(x, ones)),)


@BitShift.export_rule("tflite")
def export_shift(b: Builder, x: Value, y: Value, *, direction: str) -> Exported:
    if dtype_of(x).bits == _BITS:
        count = _minimum_with(b, cast_to(b, y, DType.INT64), _BITS)
        return (_long_right(b, x, count) if direction == "RIGHT" else _long_left(b, x, count),)
    if direction == "RIGHT":
        return (computed_in(b, _BITWISE_TYPES, "RIGHT_SHIFT", x, y),)
    wide = [cast_to(b, each, DType.INT32) for each in (x, y)]
    return (cast_to(b, emit(b, "MUL", wide[0], emit(b, "POW", b.like(wide[0], 2), wide[1])), dtype_of(x)),)


def _minimum_with(b: Builder, x: Value, most: int) -> Value:
    return emit(b, "MINIMUM", x, b.like(x, most))


def _long_left(b: Builder, x: Value, count: Value) -> Value:
    """64-bit left shift: multiply by a power of two."""
    powers = b.constant(np.array([*(1 << np.arange(_BITS, dtype=np.uint64)), 0], np.uint64).view(np.int64))
    factor = emit(b, "GATHER", powers, count, axis=0)
    return cast_to(b, emit(b, "MUL", cast_to(b, x, DType.INT64), factor), dtype_of(x))


def _long_right(b: Builder, x: Value, count: Value) -> Value:
    """64-bit right shift, composed of shifts of 32-bit parts.

    For n < 32:  high * 2^(32 - n) + (low >> n);  else:  high >> (n - 32); an unsigned shift by 64 returns 0.
    """
    own, n = dtype_of(x), cast_to(b, count, DType.INT32)
    parts = b.emit("BITCAST", x, facts=[TensorFact(DType.INT32, (*b.dims(x), 2))], types=(DType.INT32,))[0]
    last = len(b.dims(x))
    low, high = (emit(b, "GATHER", parts, b.constant(np.int32(place)), axis=last) for place in (0, 1))
    low = emit(b, "BITCAST", low, types=(DType.UINT32,))
    high = high if own is DType.INT64 else emit(b, "BITCAST", high, types=(DType.UINT32,))
    fewer = cast_to(b, _minimum_with(b, n, _HALF - 1), DType.UINT32)
    above = _long_left(b, cast_to(b, high, DType.INT64), emit(b, "SUB", b.like(n, _HALF), _minimum_with(b, n, _HALF)))
    near = emit(b, "ADD", above, cast_to(b, emit(b, "RIGHT_SHIFT", low, fewer), DType.INT64))
    more = cast_to(b, emit(b, "MAXIMUM", emit(b, "SUB", n, _HALF), 0), dtype_of(high))
    far = cast_to(b, emit(b, "RIGHT_SHIFT", high, more), DType.INT64)
    if own is DType.UINT64:
        far = emit(b, "MUL", far, cast_to(b, emit(b, "LESS", n, _BITS), DType.INT64))
    return cast_to(b, emit(b, "SELECT_V2", emit(b, "LESS", n, _HALF), near, far), own)
