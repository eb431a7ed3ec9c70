"""Bits in TFLite: there are kernels for the exclusive or, for and, and for moving to the right."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.operands import dtype_of
from graphport.ops.dialects.tflite.emitting import cast_to, computed_in
from graphport.ops.dialects.tflite.rows import ROWS
from graphport.ops.pages.arithmetic import BitShift, BitwiseAnd, BitwiseNot, BitwiseXor

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_LONG, _HALF = 64, 32
_WORDS = frozenset((DType.UINT8, DType.UINT16, DType.INT32, DType.UINT32))
_AND = _WORDS | {DType.INT64, DType.UINT64}


@BitwiseXor.lift("tflite")
def lift_xor(b: Builder, a: Value, other: Value) -> Lifted:
    own = dtype_of(a)
    if own.bits < _LONG:
        return (computed_in(b, _WORDS, "BITWISE_XOR", a, other),)
    halves = [
        b.word("BITCAST", x, facts=[TensorFact(DType.INT32, (*b.dims(x), 2))], types=(DType.INT32,))[0]
        for x in (a, other)
    ]
    y = emit(b, "BITWISE_XOR", *halves)
    return b.word("BITCAST", y, facts=[TensorFact(own, b.dims(y)[:-1])], types=(own,))


@BitwiseAnd.lift("tflite")
def lift_and(b: Builder, a: Value, other: Value) -> Lifted:
    # This kernel does not broadcast.
    zeros = b(BitwiseXor, a, a), b(BitwiseXor, other, other)
    if b.dims(a) != b.dims(other):
        a, other = b(BitwiseXor, a, zeros[1]), b(BitwiseXor, other, zeros[0])
    return (computed_in(b, _AND, "STABLEHLO_AND", a, other),)


ROWS.lift("""
BitCast -> BITCAST(input, types=(to,))
BitwiseOr -> BitwiseXor(BitwiseXor(a, b), BitwiseAnd(a, b))
""")


@BitwiseNot.lift("tflite")
def lift_not(b: Builder, x: Value) -> Lifted:
    dtype = dtype_of(x)
    ones = -1 if dtype.kind == "i" else (1 << dtype.bits) - 1
    return (b(BitwiseXor, x, b.like(x, ones)),)


@BitShift.lift("tflite")
def lift_shift(b: Builder, x: Value, y: Value, *, direction: str) -> Lifted:
    if dtype_of(x).bits == _LONG:
        count = _at_most(b, cast_to(b, y, DType.INT64), _LONG)
        return (_long_right(b, x, count) if direction == "RIGHT" else _long_left(b, x, count),)
    if direction == "RIGHT":
        return (computed_in(b, _WORDS, "RIGHT_SHIFT", x, y),)
    wide = [cast_to(b, each, DType.INT32) for each in (x, y)]
    return (cast_to(b, emit(b, "MUL", wide[0], emit(b, "POW", b.like(wide[0], 2), wide[1])), dtype_of(x)),)


def _at_most(b: Builder, x: Value, most: int) -> Value:
    return emit(b, "MINIMUM", x, b.like(x, most))


def _long_left(b: Builder, x: Value, count: Value) -> Value:
    """64 bits moved to the left: the product with a power of two."""
    powers = b.constant(np.array([*(1 << np.arange(_LONG, dtype=np.uint64)), 0], np.uint64).view(np.int64))
    factor = emit(b, "GATHER", powers, count, axis=0)
    return cast_to(b, emit(b, "MUL", cast_to(b, x, DType.INT64), factor), dtype_of(x))


def _long_right(b: Builder, x: Value, count: Value) -> Value:
    """64 bits moved to the right, of which kernels move halves.

    By n < 32:  high * 2^(32 - n) + (low >> n);  by more:  high >> (n - 32), and of what has no sign nothing by 64.
    """
    own, n = dtype_of(x), cast_to(b, count, DType.INT32)
    parts = b.word("BITCAST", x, facts=[TensorFact(DType.INT32, (*b.dims(x), 2))], types=(DType.INT32,))[0]
    last = len(b.dims(x))
    low, high = (emit(b, "GATHER", parts, b.constant(np.int32(place)), axis=last) for place in (0, 1))
    low = emit(b, "BITCAST", low, types=(DType.UINT32,))
    high = high if own is DType.INT64 else emit(b, "BITCAST", high, types=(DType.UINT32,))
    fewer = cast_to(b, _at_most(b, n, _HALF - 1), DType.UINT32)
    above = _long_left(b, cast_to(b, high, DType.INT64), emit(b, "SUB", b.like(n, _HALF), _at_most(b, n, _HALF)))
    near = emit(b, "ADD", above, cast_to(b, emit(b, "RIGHT_SHIFT", low, fewer), DType.INT64))
    more = cast_to(b, emit(b, "MAXIMUM", emit(b, "SUB", n, _HALF), 0), dtype_of(high))
    far = cast_to(b, emit(b, "RIGHT_SHIFT", high, more), DType.INT64)
    if own is DType.UINT64:
        far = emit(b, "MUL", far, cast_to(b, emit(b, "LESS", n, _LONG), DType.INT64))
    return cast_to(b, emit(b, "SELECT_V2", emit(b, "LESS", n, _HALF), near, far), own)
