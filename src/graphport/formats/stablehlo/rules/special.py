"""Operations of CHLO: special functions, broadcasting arithmetic, top_k; composites that have an import rule."""

from __future__ import annotations

from dataclasses import replace
from math import factorial, pi
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.program import TensorType, dictionary
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.elementwise import RULES, compared, elementwise
from graphport.formats.stablehlo.rules.emitter import MOVERS, Emitter, rule
from graphport.formats.stablehlo.rules.linear import dot_general
from graphport.formats.stablehlo.rules.sorting import largest_elements
from graphport.formats.stablehlo.rules.values import Held
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.stablehlo.program import Operation

for _name, _op_type in (
    ("acos", "Acos"),
    ("acosh", "Acosh"),
    ("asin", "Asin"),
    ("asinh", "Asinh"),
    ("atan", "Atan"),
    ("atanh", "Atanh"),
    ("cosh", "Cosh"),
    ("sinh", "Sinh"),
    ("erf", "Erf"),
):

    @elementwise(f"chlo.{_name}")
    def _function(e: Emitter, x: Value, *, _of: str = _op_type) -> Value:
        return e(_of, x)


@elementwise("chlo.square")
def square(e: Emitter, x: Value) -> Value:
    """x * x."""
    return e("Mul", x, x)


@elementwise("chlo.conj")
def conjugate(e: Emitter, x: Value) -> Value:
    """Return the operand: real tensors are their own conjugate."""
    del e
    return x


@elementwise("chlo.erfc")
def erfc(e: Emitter, x: Value) -> Value:
    """1 - erf(x)."""
    return e("Sub", e.constant(1.0, x.dtype), e("Erf", x))


def polynomial(e: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    """A polynomial by Horner's rule, the highest power first."""
    found: Value | None = None
    for number in coefficients:
        found = e.constant(number, x.dtype) if found is None else e("Add", e("Mul", found, x), number)
    return e.constant(0.0, x.dtype) if found is None else found


@elementwise("chlo.erf_inv")
def erf_inv(e: Emitter, x: Value) -> Value:
    """The inverse of erf by two polynomials of w = -log(1 - x^2).

    Source: M. Giles, Approximating the erfinv function.
    """
    one = e.constant(1.0, x.dtype)
    w = e("Neg", e("Log", e("Mul", e("Sub", one, x), e("Add", one, x))))
    near = polynomial(
        e,
        e("Sub", w, 2.5),
        (
            *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503),
            *(-0.00417768164, 0.246640727, 1.50140941),
        ),
    )
    far = polynomial(
        e,
        e("Sub", e("Sqrt", e("Max", w, 0.0)), 3.0),
        (
            *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613),
            *(0.00943887047, 1.00167406, 2.83297682),
        ),
    )
    found = e("Mul", x, e("Where", e("Less", w, 5.0), near, far))
    ends = e("Equal", e("Abs", x), 1.0)
    return e("Where", ends, e("Mul", x, e.constant(np.inf, x.dtype)), found)


_LANCZOS = (
    0.99999999999980993227684700473478,
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)


@elementwise("chlo.lgamma")
def lgamma(e: Emitter, x: Value) -> Value:
    """The logarithm of |gamma(x)| by Lanczos' series, below 1/2 by reflection."""
    half = e.constant(0.5, x.dtype)
    reflects = e("Less", x, half)
    z = e("Where", reflects, e("Neg", x), e("Sub", x, 1.0))
    total = e.constant(_LANCZOS[0], x.dtype)
    for index, number in enumerate(_LANCZOS[1:], 1):
        total = e("Add", total, e("Div", e.constant(number, x.dtype), e("Add", z, float(index))))
    t = e("Add", z, 7.5)
    log_t = e("Add", e("Log", e("Add", e("Div", z, 7.5), 1.0)), float(np.log(7.5)))
    value = e("Mul", e("Sub", e("Add", z, half), e("Div", t, log_t)), log_t)
    value = e("Add", e("Add", value, e("Log", total)), float(np.log(2 * pi) / 2))
    size = e("Abs", x)
    part = e("Sub", size, e("Floor", size))
    part = e("Where", e("Greater", part, half), e("Sub", e.constant(1.0, x.dtype), part), part)
    reflected = e("Sub", e("Sub", e.constant(np.log(pi), x.dtype), e("Log", e("Sin", e("Mul", part, pi)))), value)
    is_pole = e("And", e("LessOrEqual", x, 0.0), e("Equal", part, 0.0))
    infinity = e.constant(np.inf, x.dtype)
    found = e("Where", reflects, e("Where", is_pole, infinity, reflected), value)
    return e("Where", e("IsInf", x), infinity, found)


@elementwise("chlo.digamma")
def digamma(e: Emitter, x: Value) -> Value:
    """The derivative of log gamma by Lanczos' series, below 1/2 by reflection; NaN at poles."""
    half = e.constant(0.5, x.dtype)
    reflects = e("Less", x, half)
    z = e("Where", reflects, e("Neg", x), e("Sub", x, 1.0))
    above, below = e.constant(0.0, x.dtype), e.constant(_LANCZOS[0], x.dtype)
    for index, number in enumerate(_LANCZOS[1:], 1):
        shifted = e("Add", z, float(index))
        term = e("Div", e.constant(number, x.dtype), shifted)
        above = e("Sub", above, e("Div", term, shifted))
        below = e("Add", below, term)
    t = e("Add", z, 7.5)
    log_t = e("Add", e("Log", e("Add", e("Div", z, 7.5), 1.0)), float(np.log(7.5)))
    value = e("Sub", e("Add", log_t, e("Div", above, below)), e("Div", e.constant(7.0, x.dtype), t))
    turned = e("Mul", e("Add", x, e("Abs", e("Floor", e("Add", x, 0.5)))), pi)
    reflected = e("Sub", value, e("Div", e("Mul", e("Cos", turned), pi), e("Sin", turned)))
    found = e("Where", reflects, reflected, value)
    is_pole = e("And", e("LessOrEqual", x, 0.0), e("Equal", x, e("Floor", x)))
    return e("Where", is_pole, e.constant(np.nan, x.dtype), found)


@elementwise("chlo.zeta")
def zeta(e: Emitter, x: Value, q: Value) -> Value:
    """Hurwitz' zeta function by the sum of Euler and Maclaurin: ten terms, then corrections."""
    one = e.constant(1.0, x.dtype)
    minus = e("Neg", x)
    total = e("Pow", q, minus)
    a = q
    for _ in range(9):
        a = e("Add", a, 1.0)
        total = e("Add", total, e("Pow", a, minus))
    a = e("Add", a, 1.0)
    term = e("Pow", a, minus)
    total = e("Add", total, e("Div", e("Mul", term, a), e("Sub", x, one)))
    total = e("Add", total, e("Mul", term, 0.5))
    factor = x
    power = e("Div", term, a)
    square_a = e("Mul", a, a)
    for index, number in enumerate(_BERNOULLI):
        total = e("Add", total, e("Mul", e("Mul", factor, power), number / factorial(2 * index + 2)))
        first, second = e("Add", x, float(2 * index + 1)), e("Add", x, float(2 * index + 2))
        factor = e("Mul", factor, e("Mul", first, second))
        power = e("Div", power, square_a)
    is_pole = e("And", e("LessOrEqual", q, 0.0), e("Equal", q, e("Floor", q)))
    even = e("Equal", e("Mod", x, e.constant(2.0, x.dtype), fmod=1), 0.0)
    whole = e("And", even, e("Equal", x, e("Floor", x)))
    nan, infinity = e.constant(np.nan, x.dtype), e.constant(np.inf, x.dtype)
    found = e("Where", is_pole, e("Where", whole, infinity, nan), total)
    broken = e("And", e("LessOrEqual", q, 0.0), e("Not", e("Equal", x, e("Floor", x))))
    found = e("Where", e("Or", broken, e("Less", x, one)), nan, found)
    return e("Where", e("Equal", x, one), infinity, found)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


@elementwise("chlo.polygamma")
def polygamma(e: Emitter, n: Value, x: Value) -> Value:
    """(-1)^(n + 1) n! zeta(n + 1, x), for n = 0 digamma."""
    one = e.constant(1.0, x.dtype)
    after = e("Add", n, one)
    is_odd = e("Equal", e("Mod", after, e.constant(2.0, x.dtype), fmod=1), 0.0)
    size = e("Mul", e("Exp", lgamma(e, after)), zeta(e, after, x))
    found = e("Where", is_odd, size, e("Neg", size))
    found = e("Where", e("Equal", n, 0.0), digamma(e, x), found)
    valid = e("And", e("GreaterOrEqual", n, 0.0), e("Equal", n, e("Floor", n)))
    return e("Where", valid, found, e.constant(np.nan, x.dtype))


_BESSEL_NEAR = (
    *(2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16),
    *(-1.10559694773538630805e-15, 7.60068429473540693410e-15, -5.04218550472791168711e-14),
    *(3.22379336594557470981e-13, -1.98397439776494371520e-12, 1.17361862988909016308e-11),
    *(-6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9),
    *(9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7),
    *(-8.56872026469545474066e-7, 3.47025130813767847674e-6, -1.32731636560394358279e-5),
    *(4.78156510755005422638e-5, -1.61760815825896745588e-4, 5.12285956168575772895e-4),
    *(-1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2),
    *(2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1),
    *(-1.76416518357834055153e-1, 2.52587186443633654823e-1),
)
_BESSEL_FAR = (
    *(7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17),
    *(-3.20952592199342395980e-17, 2.96262899764595013876e-16, 3.30820231092092828324e-16),
    *(-1.88035477551078244854e-15, -3.81440307243700780478e-15, 1.04202769841288027642e-14),
    *(4.27244001671195135429e-14, -2.10154184277266431302e-14, -4.08355111109219731823e-13),
    *(-7.19855177624590851209e-13, 2.03562854414708950722e-12, 1.41258074366137813316e-11),
    *(3.25260358301548823856e-11, -1.89749581235054123450e-11, -5.58974346219658380687e-10),
    *(-3.83538038596423702205e-9, -2.63146884688951950684e-8, -2.51223623787020892529e-7),
    *(-3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3),
    *(7.78576235018280120474e-1,),
)
"""Chebyshev coefficients of the scaled Bessel function I1, for |x| up to 8 and above. Source: Cephes."""


def _chebyshev(e: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    zero = e.constant(0.0, x.dtype)
    b0 = b1 = b2 = zero
    for number in coefficients:
        b2, b1 = b1, b0
        b0 = e("Add", e("Sub", e("Mul", x, b1), b2), number)
    return e("Mul", e("Sub", b0, b2), 0.5)


@elementwise("chlo.bessel_i1e")
def bessel_i1e(e: Emitter, x: Value) -> Value:
    """The scaled modified Bessel function exp(-|x|) I1(x)."""
    size = e("Abs", x)
    near = e("Mul", _chebyshev(e, e("Sub", e("Mul", size, 0.5), 2.0), _BESSEL_NEAR), size)
    safe = e("Max", size, 8.0)
    argument = e("Sub", e("Div", e.constant(32.0, x.dtype), safe), 2.0)
    far = e("Div", _chebyshev(e, argument, _BESSEL_FAR), e("Sqrt", safe))
    found = e("Where", e("LessOrEqual", size, 8.0), near, far)
    return e("Where", e("Less", x, 0.0), e("Neg", found), found)


@elementwise("chlo.is_inf")
def is_inf(e: Emitter, x: Value) -> Value:
    """Whether a number is infinite."""
    return e("IsInf", x)


@elementwise("chlo.is_pos_inf")
def is_pos_inf(e: Emitter, x: Value) -> Value:
    """Whether a number is positive infinity."""
    return e("IsInf", x, detect_negative=0)


@elementwise("chlo.is_neg_inf")
def is_neg_inf(e: Emitter, x: Value) -> Value:
    """Whether a number is negative infinity."""
    return e("IsInf", x, detect_positive=0)


@rule("chlo.next_after", "chlo.broadcast_next_after")
def next_after(e: Emitter, op: Operation, x: Value, y: Value) -> Value:
    """Return the next representable float from x towards y."""
    del op
    dtype = e.dtype(x)
    if not dtype.is_floating or dtype.bits < 16:
        refuse("SH0006", f"unsupported: next_after of {dtype}")
    bits_type = {16: DType.INT16, 32: DType.INT32, 64: DType.INT64}[dtype.bits]
    wide = DType.INT64
    a, b = (e.cast(e("BitCast", value, to=bits_type), wide) for value in (x, y))
    sign = 1 << (dtype.bits - 1)
    low = e.constant(sign - 1, wide)
    size_a, size_b = e("BitwiseAnd", a, low), e("BitwiseAnd", b, low)
    differs = e("Not", e("Equal", e("Less", a, 0), e("Less", b, 0)))
    shrinks = e("Or", e("Greater", size_a, size_b), differs)
    step = e("Where", shrinks, e.constant(-1, wide), e.constant(1, wide))
    stepped = e("Add", a, step)
    smallest = e("Where", e("Less", b, 0), e.constant(1 - sign, wide), e.constant(1, wide))
    found = e("Where", e("Equal", size_a, 0), smallest, stepped)
    both_zero = e("And", e("Equal", size_a, 0), e("Equal", size_b, 0))
    found = e("Where", e("Or", e("Equal", a, b), both_zero), b, found)
    back = e("BitCast", e.cast(found, bits_type), to=dtype)
    wide_x, wide_y = (e.cast(v, DType.FLOAT32) if dtype.bits == 16 else v for v in (x, y))
    is_nan = e("Or", e("IsNaN", wide_x), e("IsNaN", wide_y))
    return e("Where", is_nan, e("Add", x, y) if dtype is not DType.BFLOAT16 else x, back)


# Broadcasting forms

for _name in (
    *("add", "and", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "shift_left"),
    *("shift_right_arithmetic", "shift_right_logical", "subtract", "xor", "complex"),
):
    if _name in RULES:
        RULES[f"chlo.broadcast_{_name}"] = RULES[_name]
for _name in ("polygamma", "zeta"):
    RULES[f"chlo.broadcast_{_name}"] = RULES[f"chlo.{_name}"]
MOVERS.add("chlo.broadcast_select")


@rule("chlo.broadcast_compare")
def broadcast_compare(e: Emitter, op: Operation, x: Value, y: Value) -> Value:
    """Compare with broadcasting."""
    return compared(e, op.attribute("comparison_direction"), x, y, op.attributes.get("compare_type") or "")


@rule("chlo.top_k")
def top_k(e: Emitter, op: Operation, x: Value) -> list[Held]:
    """The k largest elements of the last axis, and their positions."""
    return largest_elements(e, x, int(op.attribute("k")))


@rule("chlo.ragged_dot")
def ragged_dot(e: Emitter, op: Operation, x: Value, y: Value, sizes: Value) -> Value:
    """Rows of x times the matrix of the group that each row belongs to."""
    del e, x, y, sizes
    return refuse("SH0006", f"unsupported operator {op.shown()}")


@rule("chlo.dot_general")
def chlo_dot_general(e: Emitter, op: Operation, x: Value, y: Value) -> Value:
    """The product of StableHLO."""
    return dot_general(e, op, x, y)


def _composite_top_k(e: Emitter, op: Operation, x: Held) -> list[Held]:
    count = dictionary(op.attributes.get("composite_attributes")).get("k")
    if not isinstance(count, int) or not isinstance(x, Value):
        return e.call(str(op.attributes.get("decomposition", "")), [x])
    found = largest_elements(e, x, count)
    types = [type for type in op.result_types if isinstance(type, TensorType)]
    index = found[1]
    return [found[0], e.cast(index, types[1].dtype) if len(types) > 1 and isinstance(index, Value) else index]


def _by_rule(name: str) -> Callable[..., list[Held]]:
    def apply(e: Emitter, op: Operation, *xs: Value) -> list[Held]:
        return e.apply(replace(op, name=name), list(xs))

    return apply


COMPOSITES: dict[str, Callable[..., list[Held]]] = {
    "chlo.top_k": _composite_top_k,
    **{
        name: _by_rule(name)
        for name in (
            *(
                "chlo.acos",
                "chlo.acosh",
                "chlo.asin",
                "chlo.asinh",
                "chlo.atan",
                "chlo.atanh",
                "chlo.cosh",
                "chlo.sinh",
            ),
            *("chlo.erf", "chlo.erfc", "chlo.erf_inv", "chlo.tan", "chlo.square", "chlo.lgamma", "chlo.digamma"),
            *("chlo.polygamma", "chlo.zeta", "chlo.bessel_i1e", "chlo.next_after"),
        )
    },
}
"""Composites by their names."""
