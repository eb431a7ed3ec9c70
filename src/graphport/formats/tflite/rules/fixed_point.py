"""Fixed-point arithmetic of LiteRT's reference kernels: products of integers and floats, and elementary functions.

A fraction is a 32-bit integer scaled by 2**-31; other scalings are stated as a number of integer bits.
Source: TensorFlow Lite, kernels/internal/common.h, and gemmlowp, fixedpoint.h.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Numbers: TypeAlias = "np.ndarray[Any, Any]"

_ONE = (1 << 31) - 1
_EIGHTH_LESS = 1895147668
"""exp(-1/8) as a fraction."""
_THIRD = 715827883
_EXPONENTIALS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""exp(-2**exponent) as a fraction, by exponent."""
_MAX_SHIFT_BITS = 31


def factors(reals: Numbers | float) -> tuple[Numbers, Numbers]:
    """Decompose floats into 31-bit mantissas and exponents, as kernels do."""
    mantissa, exponent = np.frexp(np.asarray(reals, np.float64))
    bits = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    is_next = bits == 1 << 31
    exponent = exponent.astype(np.int64) + is_next
    is_nothing = exponent < -_MAX_SHIFT_BITS
    return np.where(is_nothing, 0, np.where(is_next, bits >> 1, bits)), np.where(is_nothing, 0, exponent)


def twice(x: Numbers, reals: Numbers | float) -> Numbers:
    """`x * reals`, rounded to the integer before the shift and again after it, half away from zero."""
    factor, exponent = factors(reals)
    return shifted(times(x << np.maximum(exponent, 0), factor), np.maximum(-exponent, 0))


def once(x: Numbers, reals: Numbers | float) -> Numbers:
    """`x * reals`, rounded once, half up."""
    factor, exponent = factors(reals)
    shift = _MAX_SHIFT_BITS - exponent
    return (x * factor + (np.int64(1) << (shift - 1))) >> shift


def briefly(x: Numbers, reals: Numbers | float) -> Numbers:
    """`x * reals` with 15-bit mantissas, rounded once, half up, as kernels with 64-bit sums do."""
    factor, exponent = factors(reals)
    shift = _MAX_SHIFT_BITS - 16 - exponent
    return (x * short(factor) + (np.int64(1) << (shift - 1))) >> shift


def short(factor: Numbers) -> Numbers:
    """Round a 31-bit mantissa to 15 bits."""
    return np.minimum((factor + (1 << 15)) >> 16, 0x7FFF)


def in_fifteen_bits(reals: Numbers | float) -> Numbers:
    """Decompose floats into 15-bit mantissas, rounded twice, as kernels with 16-bit factors do."""
    factor, exponent = factors(reals)
    return short(factor) * 2.0 ** (exponent - 15)


def times(x: Numbers, y: Numbers | int) -> Numbers:
    """Multiply an integer and a fraction, or two fractions, with rounding."""
    return np.minimum(upper(x * y, 31), _ONE)


def upper(product: Numbers, bits: int) -> Numbers:
    """`product / 2**bits`, rounded half up, by a truncating division."""
    return towards_zero(product + np.where(product >= 0, 1 << bits - 1, 1 - (1 << bits - 1)), bits)


def towards_zero(x: Numbers, bits: int) -> Numbers:
    """`x / 2**bits`, truncated towards zero."""
    return np.where(x >= 0, x >> bits, -(-x >> bits))


def quotient(x: Numbers, count: Numbers | int) -> Numbers:
    """`x / count` of integers, rounded half away from zero."""
    half = count // 2
    return np.where(x > 0, (x + half) // count, -((half - x) // count))


def shifted(x: Numbers, bits: Numbers | int) -> Numbers:
    """`x / 2**bits`, rounded half away from zero."""
    mask = (np.int64(1) << np.asarray(bits, np.int64)) - 1
    return (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))


def raised(x: Numbers, bits: int) -> Numbers:
    """`x * 2**bits`, saturated to 32 bits."""
    return np.clip(x << bits, -(1 << 31), _ONE)


def exponential(x: Numbers, whole: int) -> Numbers:
    """exp(x) as a fraction, for x <= 0 with `whole` integer bits."""
    point = _MAX_SHIFT_BITS - whole
    quarter = 1 << (point - 2)
    rest = (x & (quarter - 1)) - quarter
    result = _near_zero(raised(rest, whole))
    left = rest - x
    for exponent, factor in _EXPONENTIALS:
        if whole > exponent:
            is_in = left & (1 << (point + exponent)) != 0
            result = np.where(is_in, times(result, factor), result)
    if whole > 5:
        result = np.where(x < -(1 << (36 - whole)), 0, result)
    return np.where(x == 0, _ONE, result)


def _near_zero(x: Numbers) -> Numbers:
    """exp(x) for x from -1/4 to 0, by four terms around -1/8."""
    x = x + (1 << 28)
    square = times(x, x)
    cube, fourth = times(square, x), times(square, square)
    terms = shifted(times(shifted(fourth, 2) + cube, _THIRD) + square, 1)
    return _EIGHTH_LESS + times(x + terms, _EIGHTH_LESS)


def reciprocal(x: Numbers) -> Numbers:
    """1 / (1 + x) of fractions, as fractions."""
    return raised(_quotient(x), 1)


def slope(x: Numbers) -> Numbers:
    """(1 - x) / (1 + x) of fractions, as fractions."""
    return raised(_quotient(x) - (1 << 29), 2)


def _quotient(x: Numbers) -> Numbers:
    """2 / (1 + x) with two integer bits, by three Newton iterations."""
    half = (x + _ONE + 1) >> 1
    result = 1515870810 + times(half, -1010580540)
    for _ in range(3):
        wrong = (1 << 29) - times(half, result)
        result = result + raised(times(result, wrong), 2)
    return result


def logistic(x: Numbers, whole: int) -> Numbers:
    """1 / (1 + exp(-x)) as a fraction, for x with `whole` integer bits."""
    above = reciprocal(exponential(-np.abs(x), whole))
    return np.where(x > 0, above, np.where(x < 0, _ONE - above, 1 << 30))


def tanh(x: Numbers, whole: int) -> Numbers:
    """Hyperbolic tangent as a fraction, for x with `whole` integer bits."""
    found = slope(exponential(-np.abs(x), whole + 1))
    return np.sign(x) * found
