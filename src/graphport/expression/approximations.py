"""Polynomial approximations of functions that NumPy lacks, and of compiled functions.

Coefficients are ordered from the constant term, from Chebyshev interpolation with 50 digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ERF_INNER = (
    1.1283791670955126,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
)
"""erf(x) / x in powers of x² for |x| <= 1, constant term first: Chebyshev fit, absolute error below 2e-19."""

ERF_OUTER = (
    0.17900115118138996,
    -0.32623356004303716,
    0.24560380171233195,
    -0.15011593650078744,
    0.07166583719774874,
    -0.024392499318273194,
    0.004269136347508256,
    0.0007077464443901538,
    -0.0005970623517093284,
    4.525472635483354e-05,
    6.406182073530546e-05,
    -1.284889451252353e-05,
    -8.008021319412685e-06,
    2.023603179641757e-06,
    1.2801900862962662e-06,
)
"""erfc(x) * exp(x²) in powers of (x - 3) / (x + 3) for 1 <= x <= 6: Chebyshev fit, absolute error below 2e-17."""

EXP_SINGLE = (
    0.5,
    0.16666576266288757,
    0.04166655242443085,
    0.008363333530724049,
    0.001392637612298131,
)
"""(exp(r) - 1 - r) / r² for |r| <= ln(2) / 2, for single precision."""

EXP_DOUBLE = (
    0.5000000000000001,
    0.16666666666666669,
    0.04166666666662324,
    0.008333333333329994,
    0.0013888888917654016,
    0.00019841269863392214,
    2.4801520613566223e-05,
    2.7557267935231926e-06,
    2.762041219449885e-07,
    2.5100634461878497e-08,
)
"""The same for double precision."""

EXP2_MIDDLE = (
    0.6931471805599453,
    0.24022650925021063,
    0.055504108841199315,
    0.009618056096717177,
    0.0013333501938341237,
    0.00015461676975973325,
    1.5297502543635438e-05,
)
"""(2^r - 1) / r for |r| <= 1/2, relative error below 2e-10: for powers of singles, computed in doubles."""

LOG_SINGLE = (
    0.6666668653488159,
    0.39988771080970764,
    0.2958039939403534,
)
"""(log((1 + s) / (1 - s)) - 2s) / s³ in powers of s² <= 0.0295, for single precision."""

LOG_MIDDLE = (
    0.6666666666737665,
    0.39999998795219155,
    0.2857175496835035,
    0.22191373380944632,
    0.19363186932161763,
)
"""The same, relative error below 1e-11: for powers of singles, computed in doubles."""

LOG_DOUBLE = (
    0.666666666666667,
    0.3999999999989924,
    0.2857142862609589,
    0.2222221111514416,
    0.18182890556695602,
    0.1533167403016786,
    0.1461703754879165,
)
"""The same for double precision."""

ERF_INNER_SINGLE = (
    1.1283791065216064,
    -0.3761262595653534,
    0.11283594369888306,
    -0.02685421146452427,
    0.005189087241888046,
    -0.000801686430349946,
    7.875874871388078e-05,
)
"""erf(x) / x in powers of x² for |x| <= 1, for single precision."""

ERF_OUTER_SINGLE = (
    0.25539568066596985,
    -0.427185982465744,
    0.24165819585323334,
    -0.07896830886602402,
    0.0037323718424886465,
    0.006811140105128288,
    -0.0008379754144698381,
)
"""erfc(x) * exp(x²) in powers of (x - 2) / (x + 2) for 1 <= x <= 4, for single precision."""

ERF_ONE = 6.0
"""From here on the error function of doubles is 1."""


def erf_of(x: Array) -> Array:
    """The error function of doubles, within two units in the last place."""
    size = np.minimum(np.abs(x), ERF_ONE)
    square = size * size
    inner = x * horner(ERF_INNER, square)
    outer = 1 - np.exp(-square) * horner(ERF_OUTER, (size - 3) / (size + 3))
    return np.where(size <= 1, inner, np.copysign(outer, x))


def horner(coefficients: tuple[float, ...], x: Array) -> Array:
    """Evaluate a polynomial by Horner's method; coefficients start with the constant term."""
    result = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result *= x
        result += coefficient
    return result
