"""Normal distribution in exported programs: CDF, inverse CDF, log CDF."""

from __future__ import annotations

import math

import numpy as np

from graphport.core.dtypes import DType
from graphport.expression.approximations import ERF_INNER, ERF_OUTER
from graphport.formats.pytorch.rules.arithmetic_special import polynomial
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.formats.pytorch.rules.promotion import cast, floating, kernel
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Exp, Log, Max, Min, Mul, Neg, Sqrt, Sub
from graphport.ops.definitions.comparison import Equal, Greater, Less, Where
from graphport.ops.lowering.operands import dtype_of

_INNER = (
    *(-3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02),
    *(1.383577518672690e02, -3.066479806614716e01, 2.506628277459239e00),
)
_INNER_BELOW = (
    *(-5.447609879822406e01, 1.615858368580409e02, -1.556989798598866e02),
    *(6.680131188771972e01, -1.328068155288572e01, 1.0),
)
_OUTER = (
    *(-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e00),
    *(-2.549732539343734e00, 4.374664141464968e00, 2.938163982698783e00),
)
_OUTER_BELOW = (7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e00, 3.754408661907416e00, 1.0)
_EDGE = 0.02425
"""Limit between central and tail approximation of Acklam's inverse CDF (relative error below 1.2e-9)."""
_TERMS = 16


RULES.lower("""
aten.special_ndtr(self) -> Mul(Add(computed("erf", Mul(floating(self), math.sqrt(0.5))), 1), 0.5)
""")


def _scaled_complement(b: Builder, x: Value) -> Value:
    """exp(x²) * erfc(x) in float64: directly up to 1, by a polynomial up to 6, else by the asymptotic series.

    ONNX Runtime has no float64 kernel of Erf.
    """
    size, one = b(Abs, x), b.like(x, 1)
    near = b(Min, size, one)
    square = b(Mul, near, near)
    without_layout = b(Mul, b(Exp, square), b(Sub, one, b(Mul, near, polynomial(b, square, ERF_INNER[::-1]))))
    middle = b(Max, one, b(Min, size, 6))
    ratio = b(Div, b(Sub, middle, 3), b(Add, middle, 3))
    fitted = polynomial(b, ratio, ERF_OUTER[::-1])
    far = b(Max, size, 6)
    z = b(Div, b.like(x, -0.5), b(Mul, far, far))
    terms = [math.prod(range(1, 2 * k, 2)) for k in range(_TERMS)]
    series = b(Div, polynomial(b, z, [float(t) for t in terms[::-1]]), b(Mul, far, math.sqrt(math.pi)))
    found = b(Where, b(Less, size, one), without_layout, b(Where, b(Less, size, 6), fitted, series))
    mirrored = b(Sub, b(Mul, b.like(x, 2), b(Exp, b(Mul, x, x))), found)
    return b(Where, b(Less, x, 0), mirrored, found)


@aten("aten.special_erfcx")
def erfcx(b: Builder, self: Value) -> Value:
    own = floating(b, self)
    return cast(b, _scaled_complement(b, cast(b, own, DType.FLOAT64)), dtype_of(own))


@aten("aten.special_log_ndtr")
def log_ndtr(b: Builder, self: Value) -> Value:
    """Log of the normal CDF, without underflow far below 0."""
    own = floating(b, self)
    x = cast(b, own, DType.FLOAT64)
    t = b(Mul, x, math.sqrt(0.5))
    half = b.like(x, 0.5)
    square, scaled = b(Mul, t, t), _scaled_complement(b, b(Abs, t))
    below = b(Sub, b(Log, b(Mul, scaled, half)), square)
    tail = b(Mul, scaled, b(Exp, b(Neg, square)))
    complement = b(Where, b(Less, t, 0), b(Sub, 2, tail), tail)
    above = kernel(b, "log1p", b(Neg, b(Mul, complement, half)))
    return cast(b, b(Where, b(Less, x, -1), below, above), dtype_of(own))


@aten("aten.special_ndtri")
def ndtri(b: Builder, self: Value) -> Value:
    """Inverse of the normal CDF."""
    own = floating(b, self)
    p = cast(b, own, DType.FLOAT64)
    one, edge = b.like(p, 1), b.like(p, _EDGE)
    gap = b(Sub, p, 0.5)
    square = b(Mul, gap, gap)
    middle = b(Div, b(Mul, gap, polynomial(b, square, _INNER)), polynomial(b, square, _INNER_BELOW))
    is_above = b(Greater, gap, 0)
    tail = b(Where, is_above, b(Sub, one, p), p)
    q = b(Sqrt, b(Mul, b.like(p, -2), b(Log, b(Min, tail, edge))))
    outer = b(Div, polynomial(b, q, _OUTER), polynomial(b, q, _OUTER_BELOW))
    outer = b(Where, is_above, b(Neg, outer), outer)
    found = b(Where, b(Less, tail, edge), outer, middle)
    found = b(Where, b(Equal, p, 0), -np.inf, found)
    return cast(b, b(Where, b(Equal, p, one), np.inf, found), dtype_of(own))
