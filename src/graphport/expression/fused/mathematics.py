"""Functions of real vectors in LLVM code, without branches, right for infinities, NaN, zeros and subnormals.

Largest relative errors, measured against 60 digits by the tests: `SINGLE_ERROR` and `DOUBLE_ERROR`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from graphport.expression import approximations
from graphport.expression.fused.vector import INTEGER_OF, Block, Vector

if TYPE_CHECKING:
    from collections.abc import Sequence

SINGLE_ERROR = 2.4e-7
"""Largest relative error of exp, expm1, log, log1p, tanh, sigmoid, erf, pow and logaddexp of singles."""
DOUBLE_ERROR = 4.5e-16
"""The same of doubles, but for pow, which the C library computes."""


class _Format(NamedTuple):
    """A floating type: its fraction bits, exponent bias, and constants that depend on them."""

    fraction: int
    bias: int
    lowest: float
    """Below, exp is 0."""
    highest: float
    """Above, exp is infinite."""
    ln2_high: float
    ln2_low: float
    exp: Sequence[float]
    log: Sequence[float]
    erf_inner: Sequence[float]
    erf_outer: Sequence[float]
    erf_center: float
    erf_one: float


_FORMATS = {
    "float": _Format(
        23, 127, -104.0, 89.0, 0.693359375, -0.00021219444170128554,
        approximations.EXP_SINGLE, approximations.LOG_SINGLE,
        approximations.ERF_INNER_SINGLE, approximations.ERF_OUTER_SINGLE, 2.0, 4.0,
    ),
    "double": _Format(
        52, 1023, -746.0, 710.0, 0.6931471803691238, 1.9082149292705877e-10,
        approximations.EXP_DOUBLE, approximations.LOG_DOUBLE,
        approximations.ERF_INNER, approximations.ERF_OUTER, 3.0, approximations.ERF_ONE,
    ),
}  # fmt: skip


def fma(block: Block, a: Vector, b: Vector, c: Vector) -> Vector:
    """a * b + c, rounded once where the processor can."""
    return block.intrinsic("fmuladd", a, b, c)


def horner(block: Block, coefficients: Sequence[float], x: Vector) -> Vector:
    """Evaluate a polynomial by Horner's method; coefficients start with the constant term."""
    result = block.like(coefficients[-1], x)
    for coefficient in reversed(coefficients[:-1]):
        result = fma(block, result, x, block.like(coefficient, x))
    return result


def absolute(block: Block, x: Vector) -> Vector:
    """The absolute value."""
    return block.intrinsic("fabs", x)


def negative(block: Block, x: Vector) -> Vector:
    """Negate."""
    return Vector(block.add_line(f"fneg {block.type(x.element)} {x.name}"), x.element)


def exp(block: Block, x: Vector) -> Vector:
    """e to the power x: 2^n * (1 + r + r² q(r)) with n the nearest integer to x / ln 2."""
    r, n, shifted = _reduced(block, x)
    one = block.like(1.0, x)
    near = fma(block, block.binary("fmul", r, r), horner(block, _FORMATS[x.element].exp, r), r)
    value = block.binary("fadd", near, one)
    return block.scaled(value, n) if block.scales else _scaled(block, value, _extract_integer(block, shifted))


def expm1(block: Block, x: Vector) -> Vector:
    """exp(x) - 1, to full precision near 0: with s = 2^n, s * (exp(r) - 1) + (s - 1)."""
    r, _, shifted = _reduced(block, x)
    bits = _extract_integer(block, shifted)
    one = block.like(1.0, x)
    near = fma(block, block.binary("fmul", r, r), horner(block, _FORMATS[x.element].exp, r), r)
    half_bits = block.binary("ashr", bits, block.like(1, bits))
    low = _power_of_two(block, half_bits)
    high = _power_of_two(block, block.binary("sub", bits, half_bits))
    # Where 2^n itself overflows, exp(x) - 1 and exp(x) are one number.
    scale = block.binary("fmul", low, high)
    shifted = fma(block, scale, near, block.binary("fsub", scale, one))
    whole = block.binary("fmul", block.binary("fmul", block.binary("fadd", near, one), low), high)
    is_large = block.compare("ogt", x, block.like(_FORMATS[x.element].highest * 0.9, x))
    result = block.select(is_large, whole, shifted)
    # Keeps the sign of zero, and subnormals.
    is_tiny = block.compare("olt", absolute(block, x), block.like(1e-30, x))
    return block.select(is_tiny, x, result)


def log(block: Block, x: Vector) -> Vector:
    """The natural logarithm: of a mantissa in [√½, √2), by the series of artanh, and of a power of two."""
    f, k = _mantissa(block, x)
    return _finished_log(block, x, _log_of(block, f, k))


def log1p(block: Block, x: Vector) -> Vector:
    """log(1 + x), with a first-order correction of the rounded sum."""
    one = block.like(1.0, x)
    u = block.binary("fadd", x, one)
    lost_small = block.binary("fsub", x, block.binary("fsub", u, one))
    lost_large = block.binary("fsub", one, block.binary("fsub", u, x))
    lost = block.select(block.compare("ogt", x, one), lost_large, lost_small)
    f, k = _mantissa(block, u)
    sum_of_both = block.binary("fadd", _log_of(block, f, k), block.binary("fdiv", lost, u))
    result = _finished_log(block, u, sum_of_both)
    return block.select(block.compare("oeq", u, one), x, result)


def tanh(block: Block, x: Vector) -> Vector:
    """The hyperbolic tangent: t / (t + 2) with t = exp(2|x|) - 1."""
    size = absolute(block, x)
    bound = block.like(10.0 if x.element == "float" else 20.0, x)
    size = block.select(block.compare("ogt", size, bound), bound, size)
    t = expm1(block, block.binary("fadd", size, size))
    value = block.binary("fdiv", t, block.binary("fadd", t, block.like(2.0, x)))
    return block.intrinsic("copysign", value, x)


def sigmoid(block: Block, x: Vector) -> Vector:
    """1 / (1 + exp(-x))."""
    one = block.like(1.0, x)
    return block.binary("fdiv", one, block.binary("fadd", one, exp(block, negative(block, x))))


def erf(block: Block, x: Vector) -> Vector:
    """The error function: x P(x²) inside [-1, 1], 1 - exp(-x²) Q((x - c) / (x + c)) outside."""
    known = _FORMATS[x.element]
    one, last = block.like(1.0, x), block.like(known.erf_one, x)
    size = absolute(block, x)
    size = block.select(block.compare("ogt", size, last), last, size)
    square = block.binary("fmul", size, size)
    inner = block.binary("fmul", size, horner(block, known.erf_inner, square))
    center = block.like(known.erf_center, x)
    u = block.binary("fdiv", block.binary("fsub", size, center), block.binary("fadd", size, center))
    rest = block.binary("fmul", exp(block, negative(block, square)), horner(block, known.erf_outer, u))
    outer = block.binary("fsub", one, rest)
    is_inner = block.compare("ole", size, one)
    return block.intrinsic("copysign", block.select(is_inner, inner, outer), x)


def logaddexp(block: Block, a: Vector, b: Vector) -> Vector:
    """log(exp(a) + exp(b)): the larger one, and log1p(exp(smaller - larger))."""
    is_larger = block.compare("ogt", a, b)
    larger, smaller = block.select(is_larger, a, b), block.select(is_larger, b, a)
    rest = log1p(block, exp(block, block.binary("fsub", smaller, larger)))
    result = block.binary("fadd", larger, rest)
    # The difference of equal infinities is no number.
    is_equal = block.compare("oeq", a, b)
    return block.select(is_equal, block.binary("fadd", a, block.like(math.log(2), a)), result)


def power(block: Block, x: Vector, y: Vector) -> Vector:
    """x to the power y; of doubles by the C library."""
    if x.element == "double":
        return block.library("pow", x, y)
    one = block.like(1.0, x)
    size = absolute(block, x)
    wide = block.convert("fpext", size, "double")
    exponent = block.binary("fmul", _log2_middle(block, wide), block.convert("fpext", y, "double"))
    value = block.convert("fptrunc", _exp2_middle(block, exponent), "float")
    half = block.binary("fmul", y, block.like(0.5, y))
    is_whole = block.compare("oeq", block.intrinsic("trunc", y), y)
    is_even = block.compare("oeq", block.intrinsic("trunc", half), half)
    is_odd = block.binary("and", is_whole, block.binary("xor", is_even, block.constant(1, "i1")))
    value = block.select(is_odd, block.intrinsic("copysign", value, x), value)
    is_negative = block.compare("olt", x, block.like(0.0, x))
    is_finite = block.compare("olt", size, block.like(math.inf, x))
    has_none = block.binary("and", is_negative, block.binary("and", is_finite, _is_fraction(block, y, is_whole)))
    value = block.select(has_none, block.like(math.nan, x), value)
    is_infinite = block.compare("oeq", absolute(block, y), block.like(math.inf, y))
    on_circle = block.binary("and", is_infinite, block.compare("oeq", size, one))
    is_one = block.compare("oeq", x, one)
    to_none = block.compare("oeq", y, block.like(0.0, y))
    return block.select(block.binary("or", on_circle, block.binary("or", is_one, to_none)), one, value)


def _is_fraction(block: Block, y: Vector, is_whole: Vector) -> Vector:
    is_number = block.compare("ord", y, y)
    return block.binary("and", is_number, block.binary("xor", is_whole, block.constant(1, "i1")))


def _reduced(block: Block, x: Vector) -> tuple[Vector, Vector, Vector]:
    """Range reduction x = n ln 2 + r: return r, n, and n shifted (`_extract_integer`), x clamped to finite results."""
    known = _FORMATS[x.element]
    low, high = block.like(known.lowest, x), block.like(known.highest, x)
    x = block.select(block.compare("olt", x, low), low, x)
    x = block.select(block.compare("ogt", x, high), high, x)
    # Adding and subtracting 1.5 * 2^fraction rounds to an integer, and leaves that integer in the lowest bits.
    shift = _shift_of(block, x)
    shifted = fma(block, x, block.like(1 / math.log(2), x), shift)
    n = block.binary("fsub", shifted, shift)
    r = fma(block, n, block.like(-known.ln2_high, x), x)
    r = fma(block, n, block.like(-known.ln2_low, x), r)
    return r, n, shifted


def _shift_of(block: Block, x: Vector) -> Vector:
    return block.like(1.5 * 2.0 ** _FORMATS[x.element].fraction, x)


def _extract_integer(block: Block, shifted: Vector) -> Vector:
    """The integer in the lowest bits of what `_reduced` has shifted."""
    integer = INTEGER_OF[shifted.element]
    shift = block.convert("bitcast", _shift_of(block, shifted), integer)
    return block.binary("sub", block.convert("bitcast", shifted, integer), shift)


def _power_of_two(block: Block, n: Vector) -> Vector:
    """2^n, for an n that an exponent field holds."""
    element = "float" if n.element == "i32" else "double"
    known = _FORMATS[element]
    biased = block.binary("add", n, block.like(known.bias, n))
    return block.convert("bitcast", block.binary("shl", biased, block.like(known.fraction, n)), element)


def _scaled(block: Block, value: Vector, n: Vector) -> Vector:
    """value * 2^n in two steps, so that results may be subnormal or infinite."""
    half = block.binary("ashr", n, block.like(1, n))
    value = block.binary("fmul", value, _power_of_two(block, half))
    return block.binary("fmul", value, _power_of_two(block, block.binary("sub", n, half)))


def _mantissa(block: Block, x: Vector) -> tuple[Vector, Vector]:
    """x = 2^k * (1 + f) with 1 + f in [√½, √2), for positive finite x."""
    known = _FORMATS[x.element]
    integer = INTEGER_OF[x.element]
    is_subnormal = block.compare("olt", x, block.like(2.0 ** (1 - known.bias), x))
    raised = block.binary("fmul", x, block.like(2.0 ** (known.fraction + 2), x))
    bits = block.convert("bitcast", block.select(is_subnormal, raised, x), integer)
    # Taking the bits of √½ away first makes the exponent field change at √2 instead of at 2.
    root = _root_bits(x.element)
    offset = block.binary("sub", bits, block.constant(root, integer))
    k = block.binary("ashr", offset, block.constant(known.fraction, integer))
    field = block.binary("shl", k, block.constant(known.fraction, integer))
    mantissa = block.convert("bitcast", block.binary("sub", bits, field), x.element)
    lowered = block.binary("sub", k, block.constant(known.fraction + 2, integer))
    k = block.select(is_subnormal, lowered, k)
    return block.binary("fsub", mantissa, block.like(1.0, x)), _to_float(block, k)


def _root_bits(element: str) -> int:
    return 0x3F3504F3 if element == "float" else 0x3FE6A09E667F3BCD


def _to_float(block: Block, k: Vector) -> Vector:
    """A small integer as a float; processors convert 32 bits in one step, but 64 bits only the newest."""
    if k.element == "i32":
        return block.convert("sitofp", k, "float")
    return block.convert("sitofp", block.convert("trunc", k, "i32"), "double")


def _log_of(block: Block, f: Vector, k: Vector) -> Vector:
    """log(1 + f) + k ln 2: with s = f / (2 + f), log(1 + f) = f - f²/2 + s (f²/2 + s² L(s²))."""
    known = _FORMATS[f.element]
    s = block.binary("fdiv", f, block.binary("fadd", f, block.like(2.0, f)))
    z = block.binary("fmul", s, s)
    rest = block.binary("fmul", z, horner(block, known.log, z))
    half_square = block.binary("fmul", block.binary("fmul", f, block.like(0.5, f)), f)
    low = fma(block, s, block.binary("fadd", half_square, rest), block.binary("fmul", k, block.like(known.ln2_low, f)))
    near = block.binary("fsub", f, block.binary("fsub", half_square, low))
    return fma(block, k, block.like(known.ln2_high, f), near)


def _finished_log(block: Block, x: Vector, value: Vector) -> Vector:
    """Replace `value` by the logarithm of special arguments: zero, negative, infinite or NaN."""
    infinity, zero = block.like(math.inf, x), block.like(0.0, x)
    value = block.select(block.compare("ult", x, infinity), value, x)
    value = block.select(block.compare("oeq", x, zero), block.like(-math.inf, x), value)
    is_real = block.compare("oge", x, zero)
    return block.select(is_real, value, block.like(math.nan, x))


def _log2_middle(block: Block, x: Vector) -> Vector:
    """The binary logarithm of doubles that were singles, not negative, with a relative error of 1e-11."""
    f, k = _mantissa(block, x)
    s = block.binary("fdiv", f, block.binary("fadd", f, block.like(2.0, f)))
    z = block.binary("fmul", s, s)
    # 2s + s³ L(s²)
    inner = fma(block, z, horner(block, approximations.LOG_MIDDLE, z), block.like(2.0, f))
    value = fma(block, block.binary("fmul", s, inner), block.like(1 / math.log(2), f), k)
    value = block.select(block.compare("olt", x, block.like(math.inf, x)), value, x)
    return block.select(block.compare("oeq", x, block.like(0.0, x)), block.like(-math.inf, x), value)


def _exp2_middle(block: Block, x: Vector) -> Vector:
    """2 to the power x in float64 with relative error 1e-10; arguments beyond the float32 range are clamped."""
    low, high = block.like(-200.0, x), block.like(200.0, x)
    x = block.select(block.compare("olt", x, low), low, x)
    x = block.select(block.compare("ogt", x, high), high, x)
    shift = block.like(1.5 * 2.0**52, x)
    shifted = block.binary("fadd", x, shift)
    r = block.binary("fsub", x, block.binary("fsub", shifted, shift))
    n = block.binary("sub", block.convert("bitcast", shifted, "i64"), block.convert("bitcast", shift, "i64"))
    value = fma(block, r, horner(block, approximations.EXP2_MIDDLE, r), block.like(1.0, x))
    return block.binary("fmul", value, _power_of_two(block, n))
