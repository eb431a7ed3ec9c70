"""Special functions of PyTorch that ONNX has no operator for, by the approximations that PyTorch's own kernels use."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.dialects.pytorch.overloads import aten
from graphport.ops.dialects.torch_functions import dtype_of
from graphport.ops.dialects.torch_promotion import cast, computed, floating
from graphport.ops.pages.arithmetic import Abs, Add, Div, Exp, Floor, Log, Mul, Neg, Sin, Sqrt, Sub
from graphport.ops.pages.comparison import Equal, Greater, IsNaN, Less, LessOrEqual, Where

_LANCZOS = (
    *(0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059),
    *(12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7),
)
_G = 7.0

_I0_SMALL = (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813)
_I0_LARGE = (
    *(0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633, 0.00392377),
)
_MIDDLE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503),
    *(-0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613),
    *(0.00943887047, 1.00167406, 2.83297682),
)


def _polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """By Horner's rule, the highest power first."""
    found = b.like(x, coefficients[0])
    for c in coefficients[1:]:
        found = b(Add, b(Mul, found, x), b.like(x, c))
    return found


@aten("aten.lgamma", "aten.special_gammaln")
def lgamma(b: Builder, self: Value) -> Value:
    """`log |Γ(x)|` by Lanczos' series, reflected below 1/2; in 64 bits, for its terms cancel near 1 and 2."""
    own = floating(b, self)
    x = cast(b, own, DType.FLOAT64)
    half = b.like(x, 0.5)
    is_small = b(Less, x, half)
    y = b(Where, is_small, b(Sub, b.like(x, 1), x), x)
    z = b(Sub, y, b.like(x, 1))
    series = b.like(x, _LANCZOS[0])
    for k, c in enumerate(_LANCZOS[1:], 1):
        series = b(Add, series, b(Div, b.like(x, c), b(Add, z, b.like(x, k))))
    t = b(Add, z, b.like(x, _G + 0.5))
    found = b(Add, b.like(x, 0.5 * math.log(2 * math.pi)), b(Mul, b(Add, z, half), b(Log, t)))
    found = b(Add, b(Sub, found, t), b(Log, series))
    sine = b(Abs, b(Sin, b(Mul, b.like(x, math.pi), b(Sub, x, b(Floor, x)))))
    mirrored = b(Sub, b(Sub, b.like(x, math.log(math.pi)), b(Log, sine)), found)
    return cast(b, b(Where, is_small, mirrored, found), dtype_of(own))


@aten("aten.erfinv", "aten.special_erfinv")
def erfinv(b: Builder, self: Value) -> Value:
    """Giles' polynomials, and one step of Newton's rule."""
    own = floating(b, self)
    x = cast(b, own, DType.FLOAT32) if dtype_of(own) is not DType.FLOAT64 else own
    one = b.like(x, 1)
    w = b(Neg, b(Log, b(Mul, b(Sub, one, x), b(Add, one, x))))
    near = _polynomial(b, b(Sub, w, b.like(x, 2.5)), _MIDDLE)
    far = _polynomial(b, b(Sub, b(Sqrt, w), b.like(x, 3)), _TAIL)
    y = b(Mul, x, b(Where, b(Less, w, b.like(x, 5)), near, far))
    slope = b(Mul, b.like(x, 2 / math.sqrt(math.pi)), b(Exp, b(Neg, b(Mul, y, y))))
    better = b(Sub, y, b(Div, b(Sub, computed(b, "erf", y), x), slope))
    is_end = b(Equal, b(Abs, x), one)
    infinite = b(Mul, x, b.like(x, math.inf))
    return cast(b, b(Where, is_end, infinite, better), dtype_of(own))


@aten("aten.special_entr")
def entr(b: Builder, self: Value) -> Value:
    """`-x log x`, 0 at 0, minus infinity below."""
    x = floating(b, self)
    zero = b.like(x, 0)
    positive = b(Greater, x, zero)
    inner = b(Neg, b(Mul, x, b(Log, b(Where, positive, x, b.like(x, 1)))))
    below = b(Where, b(Equal, x, zero), zero, b.like(x, -math.inf))
    return b(Where, b(IsNaN, x), x, b(Where, positive, inner, below))


def _bessel(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Of order 0, up to 15/4 and beyond it, the latter without its exponential; and the size of `x`."""
    size = b(Abs, x)
    ratio = b(Div, x, b.like(x, 3.75))
    small = _polynomial(b, b(Mul, ratio, ratio), _I0_SMALL[::-1])
    guarded = b(Where, b(Less, size, b.like(x, 3.75)), b.like(x, 3.75), size)
    large = b(Div, _polynomial(b, b(Div, b.like(x, 3.75), guarded), _I0_LARGE[::-1]), b(Sqrt, guarded))
    return small, large, size


@aten("aten.i0", "aten.special_i0")
def bessel_i0(b: Builder, self: Value) -> Value:
    """Abramowitz and Stegun 9.8.1 and 9.8.2."""
    x = floating(b, self)
    small, large, size = _bessel(b, x)
    return b(Where, b(LessOrEqual, size, b.like(x, 3.75)), small, b(Mul, large, b(Exp, size)))


@aten("aten.special_i0e")
def bessel_i0e(b: Builder, self: Value) -> Value:
    x = floating(b, self)
    small, large, size = _bessel(b, x)
    return b(Where, b(LessOrEqual, size, b.like(x, 3.75)), b(Mul, small, b(Exp, b(Neg, size))), large)


@aten("aten.special_ndtr")
def ndtr(b: Builder, self: Value) -> Value:
    x = floating(b, self)
    return b(Mul, b(Add, computed(b, "erf", b(Mul, x, b.like(x, math.sqrt(0.5)))), b.like(x, 1)), b.like(x, 0.5))
