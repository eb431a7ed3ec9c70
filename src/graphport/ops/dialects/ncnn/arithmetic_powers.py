"""Powers on the way to ncnn, whose own go by logarithms: those are right above 0 alone."""

from __future__ import annotations

import numpy as np

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.dialects.ncnn.arithmetic import floating
from graphport.ops.dialects.ncnn.binding import emitted, folded, laid
from graphport.ops.dialects.ncnn.functions import both, infinite, unary
from graphport.ops.pages.arithmetic import (
    Abs,
    Add,
    Cast,
    Floor,
    Max,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Sign,
    Sqrt,
    Sub,
)
from graphport.ops.pages.comparison import Greater

_TINY = float(np.finfo(np.float32).tiny)
"""The least number that has a logarithm there."""
_MOST_FACTORS = 1 << 24
"""Exponents from here on are whole and even, and leave of nearly all numbers 0 or infinity."""


@Pow.lift("ncnn")
def lift_pow(b: Builder, x: Value, y: Value) -> Value:
    """Products where the exponent is a multiple of a half, which are right of every number; else by logarithms."""
    base, exponent = folded(floating(x)), folded(y)
    if exponent is not None and exponent.count == 1 and len(b.dims(y)) <= len(b.dims(x)):
        return _by_number(b, x, float(exponent.numpy().reshape(-1)[0]))
    if base is not None and bool((base.numpy() > 0).all()):
        return both(b, "pow", x, floating(y))
    return _by_each(b, x, floating(y))


def _by_number(b: Builder, x: Value, exponent: float) -> Value:
    size = abs(exponent)
    if exponent < 0:
        return b(Reciprocal, _by_number(b, x, size))
    if not (2 * size).is_integer() or size > _MOST_FACTORS:
        return _by_logarithm(b, x, size)
    y = _multiplied(b, x, int(size))
    if not size.is_integer():
        y = b(Sqrt, x) if size < 1 else b(Mul, y, b(Sqrt, x))
    return y


def _multiplied(b: Builder, x: Value, count: int) -> Value:
    """A power as a product of squares."""
    if not count:
        return emitted(b, "Clip", x, p0=1.0, p1=1.0)
    found, square = None, x
    while count:
        if count & 1:
            found = square if found is None else b(Mul, found, square)
        count >>= 1
        square = unary(b, "square", square) if count else square
    return emitted(b, "Noop", x) if found is None or found is x else found


def _by_logarithm(b: Builder, x: Value, exponent: float) -> Value:
    """Of 0 it is 0, and of less than 0 no number: the root of the sign is 1, 0, or none."""
    power = both(b, "pow", b(Max, x, b.like(x, _TINY)), b.like(x, exponent))
    return b(Mul, power, b(Sqrt, b(Sign, x)))


def _by_each(b: Builder, x: Value, y: Value) -> Value:
    """By the size of the base; its sign where the exponent is odd, and none where there is no such number."""
    for operand in (x, y):
        # What has no blob is refused before twenty layers are made of it.
        if folded(operand) is None:
            laid(b, operand)
    size, below = b(Abs, x), _above(b, b(Neg, x))
    is_zero = _other(b, _above(b, size))
    is_part = _above(b, _rest(b, y))
    is_odd = b(Mul, _above(b, _rest(b, b(Mul, y, b.like(y, 0.5)))), _other(b, is_part))
    power = both(b, "pow", b(Max, size, b.like(size, _TINY)), y)
    power = b(Mul, power, _other(b, b(Mul, is_zero, _above(b, y))))
    power = b(Add, power, infinite(b, b(Mul, is_zero, _above(b, b(Neg, y)))))
    signed = b(Mul, power, _other(b, b(Mul, below, is_odd), 2.0))
    return b(Mul, signed, b(Sqrt, _other(b, b(Mul, below, is_part), 2.0)))


def _above(b: Builder, x: Value) -> Value:
    """1 of what is above 0, else 0."""
    return b(Cast, b(Greater, x, b.like(x, 0.0)), to=DType.FLOAT32)


def _rest(b: Builder, x: Value) -> Value:
    """What is behind the point."""
    return b(Sub, x, b(Floor, x))


def _other(b: Builder, x: Value, factor: float = 1.0) -> Value:
    """`1 - factor x`."""
    return b(Sub, b.like(x, 1.0), x if factor == 1 else b(Mul, x, b.like(x, factor)))
