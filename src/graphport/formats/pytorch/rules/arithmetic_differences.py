"""Differences and sums of neighboring elements in exported programs, and decomposition of floats."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import axis_of, integers, scalar_of
from graphport.formats.pytorch.rules.functions.indexing_slices import sliced
from graphport.formats.pytorch.rules.overloads import aten
from graphport.formats.pytorch.rules.promotion import cast, promoted
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Add, BitCast, Div, Mul, Sub
from graphport.ops.definitions.comparison import Equal, Greater, GreaterOrEqual, IsInf, IsNaN, Less, Not, Or, Where
from graphport.ops.definitions.reduction import CumSum, ReduceSum
from graphport.ops.definitions.reshape import Concat, Reshape
from graphport.ops.lowering.operands import dtype_of


def _panels(b: Builder, y: Value, x: Value | None, dx: Any, axis: int) -> Value:
    """Areas of the trapezoids between neighbouring elements."""
    total = b(Add, sliced(b, y, axis, 1, None), sliced(b, y, axis, 0, -1))
    if x is None:
        return b(Mul, total, float(scalar_of(dx)) / 2)
    along = axis
    if len(b.dims(x)) == 1 < len(b.dims(y)):
        x = b(Reshape, x, [-1 if a == axis else 1 for a in range(len(b.dims(y)))])
    steps = b(Sub, sliced(b, x, along, 1, None), sliced(b, x, along, 0, -1))
    return b(Mul, b(Mul, total, cast(b, steps, dtype_of(total))), 0.5)


@aten("aten.trapezoid", "aten.trapz")
def trapezoid(b: Builder, y: Value, x: Any = None, dx: Any = 1.0, dim: Any = -1) -> Value:
    axis = axis_of(scalar_of(dim), len(b.dims(y)))
    return b(ReduceSum, _panels(b, y, x, dx, axis), [axis], keepdims=0)


@aten("aten.cumulative_trapezoid", by_position=False)
def cumulative_trapezoid(b: Builder, y: Value, x: Any = None, dx: Any = 1.0, dim: Any = -1) -> Value:
    axis = axis_of(scalar_of(dim), len(b.dims(y)))
    return b(CumSum, _panels(b, y, x, dx, axis), b.constant(axis, DType.INT64))


@aten("aten.gradient", by_position=False)
def gradient(b: Builder, self: Value, spacing: Any = None, dim: Any = None, edge_order: Any = 1) -> Any:
    """Gradient: central differences, and one-sided differences at the ends."""
    if scalar_of(edge_order) != 1:
        message = "edge_order is not 1"
        raise UnsupportedError(message)
    rank = len(b.dims(self))
    axes = [axis_of(axis, rank) for axis in (range(rank) if dim is None else integers(dim))]
    steps = list(spacing) if is_sequence(spacing) else [1.0 if spacing is None else spacing] * len(axes)
    if any(isinstance(step, Value) and b.dims(step) for step in steps):
        message = "gradient with coordinate tensors as spacing"
        raise UnsupportedError(message)
    found = tuple(_slopes(b, self, axis, float(scalar_of(h))) for axis, h in zip(axes, steps, strict=True))
    return found if b.count > 1 else found[0]


def _slopes(b: Builder, x: Value, axis: int, step: float) -> Value:
    inner = b(Sub, sliced(b, x, axis, 2, None), sliced(b, x, axis, 0, -2))
    first = b(Sub, sliced(b, x, axis, 1, 2), sliced(b, x, axis, 0, 1))
    last = b(Sub, sliced(b, x, axis, -1, None), sliced(b, x, axis, -2, -1))
    ends = [b(Div, each, step) for each in (first, last)]
    return b(Concat, ends[0], b(Div, inner, 2 * step), ends[1], axis=axis)


@aten("aten.frexp")
def frexp(b: Builder, self: Value) -> tuple[Value, Value]:
    """Decompose x = mantissa * 2**exponent with abs(mantissa) in [0.5, 1).

    Products with powers of two are exact; logarithms and powers of some runtimes are not.
    """
    size, zero, one = b(Abs, self), b.like(self, 0), b.like(self, 1)
    is_plain = b(Not, b(Or, b(Equal, size, zero), b(Or, b(IsInf, self), b(IsNaN, self))))
    found, power = b(Where, is_plain, size, one), zero
    largest = _LARGEST_STEPS.get(dtype_of(self), 64)
    for step in [largest, *(largest >> shift for shift in range(largest.bit_length()))]:
        is_large = b(GreaterOrEqual, found, b.like(self, 2.0 ** (step - 1)))
        is_small = b(Less, found, b.like(self, 2.0**-step))
        factor, change = (
            b(Where, is_large, b.like(self, large), b(Where, is_small, b.like(self, small), other))
            for large, small, other in ((2.0**-step, 2.0**step, one), (step, -step, zero))
        )
        found, power = b(Mul, found, factor), b(Add, power, change)
    signed = b(Where, b(Less, self, zero), b(Sub, zero, found), found)
    return b(Where, is_plain, signed, self), cast(b, b(Where, is_plain, power, zero), DType.INT32)


_LARGEST_STEPS = {DType.FLOAT16: 8, DType.FLOAT64: 512}
"""Half of the largest exponent of a float type, as a power of two."""


@aten("aten.nextafter")
def nextafter(b: Builder, self: Value, other: Value) -> Value:
    """Return the next representable number from `self` towards `other`: the bits as an integer, plus or minus 1."""
    x, y = promoted(b, self, other)
    own = dtype_of(x)
    bits = b(BitCast, x, to=_BITS[own])
    one, zero = b.like(bits, 1), b.like(x, 0)
    # The integer grows with the magnitude, and its sign is that of the number.
    grows = b(Equal, b(Less, x, y), b(Greater, x, zero))
    moved_bits = b(Where, grows, b(Add, bits, one), b(Sub, bits, one))
    tiny = b(BitCast, b(Where, b(Less, y, zero), b(Add, b.like(bits, _LOWEST[own]), one), one), to=own)
    found = b(Where, b(Equal, x, zero), tiny, b(BitCast, moved_bits, to=own))
    found = b(Where, b(Equal, x, y), y, found)
    return b(Where, b(Or, b(IsNaN, x), b(IsNaN, y)), b(Add, x, y), found)


_BITS = {DType.FLOAT32: DType.INT32, DType.FLOAT64: DType.INT64, DType.FLOAT16: DType.INT16}
_LOWEST = {real: -(1 << (whole.bits - 1)) for real, whole in _BITS.items()}
