"""Arithmetic of element types that came after the pinned opset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.onnx.rules.onnx_future import DIALECT, JUDGED
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.activation import Celu
from graphport.ops.definitions.arithmetic import Add, BitShift, BitwiseNot, Mod
from graphport.ops.definitions.comparison import And, Equal, Greater, GreaterOrEqual, IsInf, Less, Or, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing.gathering import Compress
from graphport.ops.definitions.indexing.indices import OneHot, Unique
from graphport.ops.definitions.indexing.regions import ReverseSequence
from graphport.ops.definitions.reduction.einsum import Einsum
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

_LONG = 64
_SINGLE = 1
"""ONNX's number of float32."""
_HALVES = frozenset((DType.FLOAT16, DType.BFLOAT16))


@BitShift.lower(DIALECT, until=JUDGED)
def shift_of_signed(b: Builder, x: Value, y: Value, *, direction: str) -> Value:
    """Arithmetic shift of signed integers; amounts below 0 or at least the width leave only the sign."""
    own = dtype_of(x)
    is_long = own.bits == _LONG
    wide, plain = (DType.INT64, DType.UINT64) if is_long else (DType.INT32, DType.UINT32)
    x, y = cast(b, x, wide), cast(b, y, wide)
    zero = b.like(x, 0)
    is_within = b(And, b(GreaterOrEqual, y, zero), b(Less, y, b.like(y, own.bits)))
    amount = cast(b, b(Where, is_within, y, zero), plain)
    is_below = b(Less, x, zero) if direction == "RIGHT" else None
    # Negative numbers are shifted as their complement.
    bits = x if is_below is None else b(Where, is_below, b(BitwiseNot, x), x)
    shifted = cast(b, b(BitShift, cast(b, bits, plain), amount, direction=direction), wide)
    found = b(Where, is_within, shifted, zero)
    return cast(b, found if is_below is None else b(Where, is_below, b(BitwiseNot, found), found), own)


@Mod.lower(DIALECT, until=JUDGED)
def floored_rest(b: Builder, a: Value, other: Value, *, fmod: int = 0) -> Value:
    """Floating-point remainder with the sign of the divisor."""
    if fmod:
        return b(Mod, a, other, fmod=1)
    rest = b(Mod, a, other, fmod=1)
    zero = b.like(a, 0)
    is_none, is_below = b(Equal, rest, zero), b(Less, other, zero)
    is_opposite = b(Or, b(And, b(Greater, rest, zero), is_below), b(And, b(Less, rest, zero), b(Greater, other, zero)))
    nothing = b(Where, is_below, b.like(a, np.float32(-0.0)), zero)
    # Sums of infinities are not infinite everywhere.
    moved = b(Where, b(IsInf, other), other, b(Add, rest, other))
    return b(Where, is_none, nothing, b(Where, is_opposite, moved, rest))


def _in_single(op_def: OpDef) -> None:
    """Register a rule that computes 16-bit float types in float32."""

    @lower(DIALECT, op_def.name, until=JUDGED)
    def lowered(b: Builder, *operands: Value | None, **attributes: Attribute) -> tuple[Value, ...]:
        halves = {dtype_of(x) for x in operands if x is not None} & _HALVES
        if len(halves) != 1:
            message = "unsupported element types"
            raise UnsupportedError(message)
        if attributes.pop("stash_type", _SINGLE) != _SINGLE:
            message = "intermediate results in a type other than float32"
            raise UnsupportedError(message)
        (half,) = halves
        wide = [cast(b, x, DType.FLOAT32) if x is not None and dtype_of(x) is half else x for x in operands]
        results = b.results(op_def, b.count, *wide, **attributes)
        return tuple(cast(b, y, half) if dtype_of(y) is DType.FLOAT32 else y for y in results)

    del lowered


for _op_def in (Celu, Compress, Einsum, OneHot, Range, ReverseSequence, Unique):
    _in_single(_op_def)
