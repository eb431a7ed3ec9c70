"""Sums and products of integers with the rounding of LiteRT's reference kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.tflite.rules.fixed_point import factors, reciprocal, shifted, times, twice
from graphport.formats.tflite.rules.integer_kernels import BYTES, SIGNED, KernelOperands, integer_kernel

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.fixed_point import Numbers

_ADD_SHIFT_BITS, _ADD_SHIFT_BITS_INT16 = 20, 15
"""Left shift of operands before an addition, in bits."""
_SQUARED_SHIFT_BITS = 7
"""Left shift of operands before their difference is squared, in bits."""


def _add_rescaled(given: KernelOperands, sign: int) -> Numbers:
    """Rescale both operands to half of the larger scale, shifted left; add and rescale to the result.

    Three roundings.
    """
    bits = _ADD_SHIFT_BITS_INT16 if given.is_short else _ADD_SHIFT_BITS
    widest = float(2 * max(given.scale(0), given.scale(1)))
    x, y = (twice(given.centred(index) << bits, float(given.scale(index)) / widest) for index in (0, 1))
    return given.clamped(twice(x + sign * y, widest / float(np.float32(1 << bits) * given.step)))


@integer_kernel("ADD", numbers=(0, 1))
def add(given: KernelOperands) -> Numbers:
    """Sum."""
    return _add_rescaled(given, 1)


@integer_kernel("SUB", numbers=(0, 1))
def sub(given: KernelOperands) -> Numbers:
    """Difference."""
    return _add_rescaled(given, -1)


@integer_kernel("MUL", numbers=(0, 1))
def mul(given: KernelOperands) -> Numbers:
    """Product."""
    return given.clamped(
        twice(given.centred(0) * given.centred(1), float(given.scale(0) * given.scale(1) / given.step))
    )


@integer_kernel("ABS", SIGNED)
def absolute(given: KernelOperands) -> Numbers:
    """Absolute value."""
    amount = np.abs(given.centred(0))
    is_same = given.scale(0) == given.step
    return given.clamped(amount if is_same else twice(amount, float(given.scale(0) / given.step)))


@integer_kernel("SQUARED_DIFFERENCE", BYTES, numbers=(0, 1))
def squared_difference(given: KernelOperands) -> Numbers:
    """Squared difference."""
    widest = float(2 * max(given.scale(0), given.scale(1)))
    x, y = (twice(given.centred(index) << _SQUARED_SHIFT_BITS, float(given.scale(index)) / widest) for index in (0, 1))
    return given.clamped(
        twice((x - y) ** 2, widest * widest / float(np.float32(1 << 2 * _SQUARED_SHIFT_BITS) * given.step))
    )


@integer_kernel("DIV", numbers=(0, 1))
def div(given: KernelOperands) -> Numbers:
    """Quotient by multiplication with the reciprocal; shifts beyond 31 bits are taken modulo 32, as processors do."""
    x, y = np.broadcast_arrays(given.centred(0), given.centred(1))
    x, y = np.where(y < 0, -x, x), np.maximum(np.abs(y), 1)
    free = 32 - np.frexp(y.astype(np.float64))[1].astype(np.int64)
    inverse = reciprocal((y << free) - (1 << 31))
    # Redundant sign bits.
    room = 31 - np.frexp(np.where(x < 0, -x - 1, x).astype(np.float64))[1].astype(np.int64)
    factor, exponent = factors(float(given.scale(0) / (given.scale(1) * given.step)))
    quotient = times(times(x << room, inverse), factor)
    shift = -(exponent - (31 - free) - room)
    long_shift = (quotient >> (shift & 31)) + (quotient > np.where(quotient < 0, 0, -1))
    return given.clamped(np.where(shift > 31, long_shift, shifted(quotient, np.clip(shift, 0, 31))))
