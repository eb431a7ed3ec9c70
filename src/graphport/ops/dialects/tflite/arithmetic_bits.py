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
from graphport.ops.pages.arithmetic import BitCast, BitShift, BitwiseAnd, BitwiseNot, BitwiseXor

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_LONG = 64
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


ROWS.lift("BitwiseOr -> BitwiseXor(BitwiseXor(a, b), BitwiseAnd(a, b))")


@BitwiseNot.lift("tflite")
def lift_not(b: Builder, x: Value) -> Lifted:
    dtype = dtype_of(x)
    ones = -1 if dtype.kind == "i" else (1 << dtype.bits) - 1
    return (b(BitwiseXor, x, b.like(x, ones)),)


@BitShift.lift("tflite")
def lift_shift(b: Builder, x: Value, y: Value, *, direction: str) -> Lifted:
    if direction == "RIGHT":
        return (computed_in(b, _WORDS, "RIGHT_SHIFT", x, y),)
    if dtype_of(x).bits == _LONG:
        powers = b.constant(np.array([*(1 << np.arange(_LONG, dtype=np.uint64)), 0], np.uint64).view(np.int64))
        place = emit(b, "MINIMUM", cast_to(b, y, DType.INT64), b.constant(_LONG, DType.INT64))
        factor = emit(b, "GATHER", powers, place, axis=0)
        return (cast_to(b, emit(b, "MUL", cast_to(b, x, DType.INT64), factor), dtype_of(x)),)
    wide = [cast_to(b, each, DType.INT32) for each in (x, y)]
    return (cast_to(b, emit(b, "MUL", wide[0], emit(b, "POW", b.like(wide[0], 2), wide[1])), dtype_of(x)),)


@BitCast.lift("tflite")
def lift_bit_cast(b: Builder, input: Value, *, to: DType) -> Lifted:
    return (emit(b, "BITCAST", input, types=(to,)),)
