"""Special functions without an ONNX operator, by the approximations of PyTorch's kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.formats.pytorch.rules.promotion import cast, computed, floating
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Abs, Add, Cos, Div, Exp, Floor, Log, Mul, Neg, Sin, Sqrt, Sub
from graphport.ops.definitions.comparison import Equal, Less, Where
from graphport.ops.lowering.operands import dtype_of

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


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial by Horner's rule; `coefficients` start with the highest power."""
    found = b.like(x, coefficients[0])
    for c in coefficients[1:]:
        found = b(Add, b(Mul, found, x), b.like(x, c))
    return found


@aten("aten.lgamma", "aten.special_gammaln")
def lgamma(b: Builder, self: Value) -> Value:
    """log |Γ(x)| by Lanczos' series with reflection below 1/2; in float64, because terms cancel near 1 and 2."""
    own = floating(b, self)
    x = cast(b, own, DType.FLOAT64)
    half = b.like(x, 0.5)
    is_small = b(Less, x, half)
    y = b(Where, is_small, b(Sub, 1, x), x)
    z = b(Sub, y, 1)
    series = b.like(x, _LANCZOS[0])
    for k, c in enumerate(_LANCZOS[1:], 1):
        series = b(Add, series, b(Div, b.like(x, c), b(Add, z, b.like(x, k))))
    t = b(Add, z, _G + 0.5)
    found = b(Add, b.like(x, 0.5 * math.log(2 * math.pi)), b(Mul, b(Add, z, half), b(Log, t)))
    found = b(Add, b(Sub, found, t), b(Log, series))
    sine = b(Abs, b(Sin, b(Mul, b.like(x, math.pi), b(Sub, x, b(Floor, x)))))
    mirrored = b(Sub, b(Sub, b.like(x, math.log(math.pi)), b(Log, sine)), found)
    return cast(b, b(Where, is_small, mirrored, found), dtype_of(own))


@aten("aten.erfinv", "aten.special_erfinv")
def erfinv(b: Builder, self: Value) -> Value:
    """Inverse error function by Giles' polynomials and one Newton iteration."""
    own = floating(b, self)
    x = cast(b, own, DType.FLOAT32) if dtype_of(own) is not DType.FLOAT64 else own
    one = b.like(x, 1)
    w = b(Neg, b(Log, b(Mul, b(Sub, one, x), b(Add, one, x))))
    near = polynomial(b, b(Sub, w, 2.5), _MIDDLE)
    far = polynomial(b, b(Sub, b(Sqrt, w), 3), _TAIL)
    y = b(Mul, x, b(Where, b(Less, w, 5), near, far))
    slope = b(Mul, b.like(x, 2 / math.sqrt(math.pi)), b(Exp, b(Neg, b(Mul, y, y))))
    better = b(Sub, y, b(Div, b(Sub, computed(b, "erf", y), x), slope))
    is_end = b(Equal, b(Abs, x), one)
    infinite = b(Mul, x, math.inf)
    return cast(b, b(Where, is_end, infinite, better), dtype_of(own))


def _bessel(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return modified Bessel function I0 for |x| <= 15/4, exp(-|x|) * I0 for larger ones, and |x|."""
    size = b(Abs, x)
    ratio = b(Div, x, 3.75)
    small = polynomial(b, b(Mul, ratio, ratio), _I0_SMALL[::-1])
    guarded = b(Where, b(Less, size, 3.75), 3.75, size)
    large = b(Div, polynomial(b, b(Div, 3.75, guarded), _I0_LARGE[::-1]), b(Sqrt, guarded))
    return small, large, size


_I1_SMALL = (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411)
_I1_LARGE = (
    *(0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654, -0.00420059),
)


def _first_bessel(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return modified Bessel function I1 in the form of `_bessel`."""
    size = b(Abs, x)
    ratio = b(Div, x, 3.75)
    small = b(Mul, x, polynomial(b, b(Mul, ratio, ratio), _I1_SMALL[::-1]))
    guarded = b(Where, b(Less, size, 3.75), 3.75, size)
    large = b(Div, polynomial(b, b(Div, 3.75, guarded), _I1_LARGE[::-1]), b(Sqrt, guarded))
    return small, b(Where, b(Less, x, 0), b(Neg, large), large), size


_J0 = (1.0, -2.2499997, 1.2656208, -0.3163866, 0.0444479, -0.0039444, 0.0002100)
_J0_SIZE = (0.79788456, -0.00000077, -0.00552740, -0.00009512, 0.00137237, -0.00072805, 0.00014476)
_J0_PHASE = (-0.78539816, -0.04166397, -0.00003954, 0.00262573, -0.00054125, -0.00029333, 0.00013558)
_J1 = (0.5, -0.56249985, 0.21093573, -0.03954289, 0.00443319, -0.00031761, 0.00001109)
_J1_SIZE = (0.79788456, 0.00000156, 0.01659667, 0.00017105, -0.00249511, 0.00113653, -0.00020033)
_J1_PHASE = (-2.35619449, 0.12499612, 0.00005650, -0.00637879, 0.00074348, 0.00079824, -0.00029166)


def _waves(b: Builder, x: Value, inner: Sequence[float], size: Sequence[float], phase: Sequence[float]) -> Value:
    """Bessel function of the first kind for x >= 0: a polynomial up to 3, else amplitude * cosine of the phase."""
    third = b(Div, x, 3)
    near = polynomial(b, b(Mul, third, third), inner[::-1])
    far = b(Where, b(Less, x, 3), 3, x)
    u = b(Div, 3, far)
    angle = b(Add, far, polynomial(b, u, phase[::-1]))
    wave = b(Div, b(Mul, polynomial(b, u, size[::-1]), b(Cos, angle)), b(Sqrt, far))
    near = near if inner[0] == 1 else b(Mul, x, near)
    return b(Where, b(Less, x, 3), near, wave)


def _waves_of_order(b: Builder, order: int, x: Value) -> Value:
    return _waves(b, x, *((_J0, _J0_SIZE, _J0_PHASE) if order == 0 else (_J1, _J1_SIZE, _J1_PHASE)))


RULES.having(bessel=_bessel, first_bessel=_first_bessel, waves=_waves_of_order).lower("""
# `-x log x`, 0 at 0, minus infinity below.
aten.special_entr(self)
    -> x = floating(self); is_positive = Greater(x, 0);
       inner = Neg(Mul(x, Log(Where(is_positive, x, 1)))); below = Where(Equal(x, 0), like(x, 0), like(x, -math.inf));
       Where(IsNaN(x), x, Where(is_positive, inner, below))
# Abramowitz and Stegun 9.8.1 to 9.8.4: up to 15/4 and beyond it.
aten.i0, aten.special_i0(self)
    -> small, large, size = bessel(floating(self)); Where(LessOrEqual(size, 3.75), small, Mul(large, Exp(size)))
aten.special_i0e(self)
    -> small, large, size = bessel(floating(self)); Where(LessOrEqual(size, 3.75), Mul(small, Exp(Neg(size))), large)
aten.special_i1(self)
    -> small, large, size = first_bessel(floating(self)); Where(LessOrEqual(size, 3.75), small, Mul(large, Exp(size)))
aten.special_i1e(self)
    -> small, large, size = first_bessel(floating(self));
       Where(LessOrEqual(size, 3.75), Mul(small, Exp(Neg(size))), large)
# Abramowitz and Stegun 9.4.1 to 9.4.6; that of order 1 is odd.
aten.special_bessel_j0(self) -> waves(0, Abs(floating(self)))
aten.special_bessel_j1(self) -> x = floating(self); y = waves(1, Abs(x)); Where(Less(x, 0), Neg(y), y)
""")
