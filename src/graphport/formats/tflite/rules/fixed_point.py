"""What LiteRT's reference kernels compute with: integers times reals in fixed point, and functions of fractions.

A fraction is an integer of 32 bits that stands for itself times 2**-31; other places of the point are told beside it.
Source: TensorFlow Lite, kernels/internal/common.h, and gemmlowp, fixedpoint.h.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Numbers: TypeAlias = "np.ndarray[Any, Any]"

_ONE = (1 << 31) - 1
_EIGHTH_LESS = 1895147668
"""The exponential of -1/8."""
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
"""The exponential of -2**exponent, for each exponent."""
_MOST_BITS = 31


def factors(reals: Numbers | float) -> tuple[Numbers, Numbers]:
    """Reals as kernels keep them: 31 bits, and the power of two by which they are more than fractions."""
    mantissa, exponent = np.frexp(np.asarray(reals, np.float64))
    bits = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    is_next = bits == 1 << 31
    exponent = exponent.astype(np.int64) + is_next
    is_nothing = exponent < -_MOST_BITS
    return np.where(is_nothing, 0, np.where(is_next, bits >> 1, bits)), np.where(is_nothing, 0, exponent)


def twice(x: Numbers, reals: Numbers | float) -> Numbers:
    """`x * reals`, rounded to the integer that is then shifted, and rounded again, halves away from zero."""
    factor, exponent = factors(reals)
    return shifted(times(x << np.maximum(exponent, 0), factor), np.maximum(-exponent, 0))


def once(x: Numbers, reals: Numbers | float) -> Numbers:
    """`x * reals`, rounded once, halves up."""
    factor, exponent = factors(reals)
    shift = _MOST_BITS - exponent
    return (x * factor + (np.int64(1) << (shift - 1))) >> shift


def briefly(x: Numbers, reals: Numbers | float) -> Numbers:
    """`x * reals` with 15 bits of these, rounded once, halves up: as kernels have it whose sums have 64 bits."""
    factor, exponent = factors(reals)
    shift = _MOST_BITS - 16 - exponent
    return (x * short(factor) + (np.int64(1) << (shift - 1))) >> shift


def short(factor: Numbers) -> Numbers:
    """The upper 15 bits of a factor of 31, rounded."""
    return np.minimum((factor + (1 << 15)) >> 16, 0x7FFF)


def in_fifteen_bits(reals: Numbers | float) -> Numbers:
    """Factors as kernels have them that multiply by 16 bits: 15 bits of each, rounded twice."""
    factor, exponent = factors(reals)
    return short(factor) * 2.0 ** (exponent - 15)


def times(x: Numbers, y: Numbers | int) -> Numbers:
    """An integer times a fraction, or two fractions, rounded."""
    return np.minimum(upper(x * y, 31), _ONE)


def upper(product: Numbers, bits: int) -> Numbers:
    """`product / 2**bits`, rounded, halves up, by a division that cuts towards zero."""
    return towards_zero(product + np.where(product >= 0, 1 << bits - 1, 1 - (1 << bits - 1)), bits)


def towards_zero(x: Numbers, bits: int) -> Numbers:
    """`x / 2**bits` without what is behind the point."""
    return np.where(x >= 0, x >> bits, -(-x >> bits))


def quotient(x: Numbers, count: Numbers | int) -> Numbers:
    """`x / count` of integers, rounded, halves away from zero."""
    half = count // 2
    return np.where(x > 0, (x + half) // count, -((half - x) // count))


def shifted(x: Numbers, bits: Numbers | int) -> Numbers:
    """`x / 2**bits`, rounded, halves away from zero."""
    mask = (np.int64(1) << np.asarray(bits, np.int64)) - 1
    return (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))


def raised(x: Numbers, bits: int) -> Numbers:
    """`x * 2**bits` within 32 bits."""
    return np.clip(x << bits, -(1 << 31), _ONE)


def exponential(x: Numbers, whole: int) -> Numbers:
    """The exponential, a fraction, of numbers of 0 and below with `whole` bits in front of the point."""
    point = _MOST_BITS - whole
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
    """The exponential from -1/4 to 0, by four terms around -1/8."""
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
    """2 / (1 + x) with two bits in front of the point, by three steps of Newton's."""
    half = (x + _ONE + 1) >> 1
    result = 1515870810 + times(half, -1010580540)
    for _ in range(3):
        wrong = (1 << 29) - times(half, result)
        result = result + raised(times(result, wrong), 2)
    return result


def logistic(x: Numbers, whole: int) -> Numbers:
    """1 / (1 + exp(-x)), a fraction, of numbers with `whole` bits in front of the point."""
    above = reciprocal(exponential(-np.abs(x), whole))
    return np.where(x > 0, above, np.where(x < 0, _ONE - above, 1 << 30))


def tanh(x: Numbers, whole: int) -> Numbers:
    """The hyperbolic tangent, a fraction, of numbers with `whole` bits in front of the point."""
    found = slope(exponential(-np.abs(x), whole + 1))
    return np.sign(x) * found
