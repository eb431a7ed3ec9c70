"""Sums and products of integers, as LiteRT's reference kernels round them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.tflite.rules.fixed_point import factors, reciprocal, shifted, times, twice
from graphport.formats.tflite.rules.integer_kernels import BYTES, SIGNED, Given, integer_kernel

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.fixed_point import Numbers

_RAISED, _RAISED_SHORT = 20, 15
"""Bits by which operands are moved up before they are added."""
_SQUARED = 7
"""Bits by which operands are moved up before their difference is squared."""


def _added(given: Given, sign: int) -> Numbers:
    """Both in halves of the larger step, moved up; then their sum in steps of the result: three roundings."""
    bits = _RAISED_SHORT if given.is_short else _RAISED
    widest = float(2 * max(given.scale(0), given.scale(1)))
    x, y = (twice(given.centred(index) << bits, float(given.scale(index)) / widest) for index in (0, 1))
    return given.clamped(twice(x + sign * y, widest / float(np.float32(1 << bits) * given.step)))


@integer_kernel("ADD", numbers=(0, 1))
def add(given: Given) -> Numbers:
    """The sum."""
    return _added(given, 1)


@integer_kernel("SUB", numbers=(0, 1))
def sub(given: Given) -> Numbers:
    """The difference."""
    return _added(given, -1)


@integer_kernel("MUL", numbers=(0, 1))
def mul(given: Given) -> Numbers:
    """The product."""
    return given.clamped(
        twice(given.centred(0) * given.centred(1), float(given.scale(0) * given.scale(1) / given.step))
    )


@integer_kernel("ABS", SIGNED)
def absolute(given: Given) -> Numbers:
    """The amount."""
    amount = np.abs(given.centred(0))
    is_same = given.scale(0) == given.step
    return given.clamped(amount if is_same else twice(amount, float(given.scale(0) / given.step)))


@integer_kernel("SQUARED_DIFFERENCE", BYTES, numbers=(0, 1))
def squared_difference(given: Given) -> Numbers:
    """The square of the difference."""
    widest = float(2 * max(given.scale(0), given.scale(1)))
    x, y = (twice(given.centred(index) << _SQUARED, float(given.scale(index)) / widest) for index in (0, 1))
    return given.clamped(twice((x - y) ** 2, widest * widest / float(np.float32(1 << 2 * _SQUARED) * given.step)))


@integer_kernel("DIV", numbers=(0, 1))
def div(given: Given) -> Numbers:
    """The quotient by a reciprocal: shifts beyond 31 bits move by what is left of them, as processors do."""
    x, y = np.broadcast_arrays(given.centred(0), given.centred(1))
    x, y = np.where(y < 0, -x, x), np.maximum(np.abs(y), 1)
    free = 32 - np.frexp(y.astype(np.float64))[1].astype(np.int64)
    inverse = reciprocal((y << free) - (1 << 31))
    # Bits that are like the sign, but for the sign itself.
    room = 31 - np.frexp(np.where(x < 0, -x - 1, x).astype(np.float64))[1].astype(np.int64)
    factor, exponent = factors(float(given.scale(0) / (given.scale(1) * given.step)))
    quotient = times(times(x << room, inverse), factor)
    shift = -(exponent - (31 - free) - room)
    long_shift = (quotient >> (shift & 31)) + (quotient > np.where(quotient < 0, 0, -1))
    return given.clamped(np.where(shift > 31, long_shift, shifted(quotient, np.clip(shift, 0, 31))))
