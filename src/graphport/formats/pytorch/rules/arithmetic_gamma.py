"""Gamma, digamma and polygamma functions, computed in float64 by series."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.arithmetic_special import lgamma, polynomial
from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.overloads import aten
from graphport.formats.pytorch.rules.promotion import cast, common, floating, kernel, promoted, tensor
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Cos, Div, Floor, Log, Mul, Neg, Pow, Sin, Sub
from graphport.ops.definitions.comparison import Equal, Less, LessOrEqual, Where
from graphport.ops.lowering.operands import dtype_of

_AHEAD = 10
"""Iterations of the recurrence after which the asymptotic series are exact in float64."""
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _reduced_angle(b: Builder, x: Value) -> Value:
    """Return π * frac(x): its sine and tangent equal those of π x up to the sign."""
    return b(Mul, b(Sub, x, b(Floor, x)), math.pi)


def _digamma(b: Builder, x: Value) -> Value:
    is_negative = b(Less, x, 0)
    y = b(Where, is_negative, b(Sub, 1, x), x)
    total = b.like(x, 0)
    for k in range(_AHEAD):
        total = b(Add, total, b(Div, b.like(x, 1), b(Add, y, b.like(x, k))))
    far = b(Add, y, _AHEAD)
    z = b(Div, b.like(x, 1), b(Mul, far, far))
    series = b(Mul, polynomial(b, z, _DIGAMMA[::-1]), z)
    half = b(Div, 0.5, far)
    found = b(Sub, b(Sub, b(Sub, b(Log, far), half), series), total)
    turns = _reduced_angle(b, x)
    mirrored = b(Sub, found, b(Div, b(Mul, b(Cos, turns), math.pi), b(Sin, turns)))
    is_pole = b(LessOrEqual, x, 0)
    is_pole = b(Equal, b(Where, is_pole, x, 0.5), b(Floor, x))
    poles = b(Where, b(Equal, x, 0), b(Neg, b(Div, 1, x)), b.like(x, np.nan))
    return b(Where, is_pole, poles, b(Where, is_negative, mirrored, found))


@aten("aten.digamma", "aten.special_digamma", "aten.special_psi")
def digamma(b: Builder, self: Value) -> Value:
    """Digamma: shift by `_AHEAD` with the recurrence, then the asymptotic series; reflection below 0."""
    own = floating(b, self)
    return cast(b, _digamma(b, cast(b, own, DType.FLOAT64)), dtype_of(own))


def _zeta(b: Builder, s: Value, q: Value) -> Value:
    """Hurwitz zeta function by the Euler-Maclaurin formula."""
    total, minus = b.like(q, 0), b(Neg, s)
    for k in range(_AHEAD):
        total = b(Add, total, b(Pow, b(Add, q, b.like(q, k)), minus))
    far = b(Add, q, _AHEAD)
    last = b(Pow, far, minus)
    total = b(Add, total, b(Div, b(Mul, far, last), b(Sub, s, 1)))
    total = b(Add, total, b(Mul, last, 0.5))
    term = b(Mul, s, b(Div, last, far))
    square = b(Mul, far, far)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = b(Add, total, b(Mul, term, b.like(q, bernoulli / math.factorial(2 * k))))
        steps = b(Mul, b(Add, s, b.like(s, 2 * k - 1)), b(Add, s, b.like(s, 2 * k)))
        term = b(Div, b(Mul, term, steps), square)
    return total


@aten("aten.special_zeta")
def zeta(b: Builder, self: Any, other: Any) -> Value:
    own = common(b, self, other)
    own = own if own.is_floating else DType.FLOAT32
    s, q = (tensor(b, each, DType.FLOAT64) for each in (self, other))
    return cast(b, _zeta(b, s, q), own)


@aten("aten.polygamma", "aten.special_polygamma")
def polygamma(b: Builder, n: Any, self: Value) -> Value:
    """The n-th derivative of digamma."""
    order = int(scalar_of(n))
    if order < 0:
        message = f"polygamma of the negative order {order}"
        raise UnsupportedError(message)
    if order == 0:
        return digamma(b, self)
    own = floating(b, self)
    x = cast(b, own, DType.FLOAT64)
    if order == 1:
        is_small = b(Less, x, 0.5)
        found = _zeta(b, b.constant(2.0, DType.FLOAT64), b(Where, is_small, b(Sub, 1, x), x))
        sine = b(Sin, _reduced_angle(b, x))
        mirrored = b(Sub, b(Div, b.like(x, math.pi**2), b(Mul, sine, sine)), found)
        return cast(b, b(Where, is_small, mirrored, found), dtype_of(own))
    found = _zeta(b, b.constant(order + 1.0, DType.FLOAT64), x)
    return cast(b, b(Mul, found, b.like(x, (-1) ** (order + 1) * math.factorial(order))), dtype_of(own))


@aten("aten.mvlgamma", "aten.special_multigammaln")
def mvlgamma(b: Builder, self: Value, p: Any) -> Value:
    """Multivariate log-gamma: a sum of log-gamma functions."""
    count, x = int(scalar_of(p)), floating(b, self)
    total = b.like(x, count * (count - 1) / 4 * math.log(math.pi))
    for k in range(count):
        total = b(Add, total, lgamma(b, b(Sub, x, b.like(x, k / 2))))
    return total


@aten("aten.special_xlog1py")
def xlog1py(b: Builder, self: Any, other: Any) -> Value:
    """x * log(1 + y); 0 if x is 0 and y is not NaN."""
    x, y = promoted(b, *(each if isinstance(each, Value) else float(each) for each in (self, other)))
    x, y = floating(b, x), floating(b, y)
    zero = b.like(x, 0)
    product = b(Mul, x, kernel(b, "log1p", y))
    is_number = b(Equal, y, y)
    return b(Where, is_number, b(Where, b(Equal, x, zero), zero, product), b.like(x, np.nan))
