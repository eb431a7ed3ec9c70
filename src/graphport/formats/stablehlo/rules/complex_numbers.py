"""Complex tensors as pairs of real tensors, and Fourier transforms."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.program import TensorType
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.binary_functions import atan2_of
from graphport.formats.stablehlo.rules.elementwise import RULES, converted
from graphport.formats.stablehlo.rules.emitter import Emitter, complex_rule, element_type, rule
from graphport.formats.stablehlo.rules.shapes import ints_of
from graphport.formats.stablehlo.rules.values import Held, Pair
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.stablehlo.program import Operation


@rule("complex")
def make_complex(e: Emitter, op: Operation, real: Value, imaginary: Value) -> Pair:
    """Make a complex tensor."""
    del e, op
    return Pair(real, imaginary)


@rule("real", takes_codes=True)
def real_component(e: Emitter, op: Operation, x: Held) -> Held:
    """The real parts."""
    del e, op
    return x.real if isinstance(x, Pair) else x


@rule("imag", takes_codes=True)
def imaginary_part(e: Emitter, op: Operation, x: Held) -> Held:
    """The imaginary parts; 0 for a real tensor."""
    del op
    if isinstance(x, Pair):
        return x.imaginary
    return _zeros(e, x) if isinstance(x, Value) else refuse("SH0007", "imag: the operand is not a tensor")


def _zeros(e: Emitter, x: Value) -> Value:
    return e.expand(e.constant(0, x.dtype), e.sizes(x))


# Arithmetic of pairs


class _Complex:
    """Formulas of complex functions."""

    def __init__(self, e: Emitter) -> None:
        self.e = e

    def constant(self, x: Pair, value: complex) -> Pair:
        dtype = x.real.dtype
        return Pair(self.e.constant(value.real, dtype), self.e.constant(value.imag, dtype))

    def add(self, x: Pair, y: Pair) -> Pair:
        return Pair(self.e("Add", x.real, y.real), self.e("Add", x.imaginary, y.imaginary))

    def subtract(self, x: Pair, y: Pair) -> Pair:
        return Pair(self.e("Sub", x.real, y.real), self.e("Sub", x.imaginary, y.imaginary))

    def negate(self, x: Pair) -> Pair:
        return Pair(self.e("Neg", x.real), self.e("Neg", x.imaginary))

    def multiply(self, x: Pair, y: Pair) -> Pair:
        e = self.e
        real = e("Sub", e("Mul", x.real, y.real), e("Mul", x.imaginary, y.imaginary))
        return Pair(real, e("Add", e("Mul", x.real, y.imaginary), e("Mul", x.imaginary, y.real)))

    def scale(self, x: Pair, factor: Value | float) -> Pair:
        return Pair(self.e("Mul", x.real, factor), self.e("Mul", x.imaginary, factor))

    def divide(self, x: Pair, y: Pair) -> Pair:
        """Divide by Smith's method: by the larger part of the divisor first, which does not overflow."""
        e = self.e
        wide = e("GreaterOrEqual", e("Abs", y.real), e("Abs", y.imaginary))
        large, small = e("Where", wide, y.real, y.imaginary), e("Where", wide, y.imaginary, y.real)
        ratio = e("Div", small, large)
        scale = e("Add", large, e("Mul", small, ratio))
        a, b = x.real, x.imaginary
        real = e("Where", wide, e("Add", a, e("Mul", b, ratio)), e("Add", e("Mul", a, ratio), b))
        imaginary = e("Where", wide, e("Sub", b, e("Mul", a, ratio)), e("Sub", e("Mul", b, ratio), a))
        return Pair(e("Div", real, scale), e("Div", imaginary, scale))

    def size(self, x: Pair) -> Value:
        """The absolute value: the larger part times sqrt(1 + ratio^2)."""
        e = self.e
        a, b = e("Abs", x.real), e("Abs", x.imaginary)
        large, small = e("Max", a, b), e("Min", a, b)
        is_zero = e("Equal", large, 0.0)
        is_far = e("IsInf", large)
        ratio = e("Div", small, e("Where", e("Or", is_zero, is_far), e.constant(1.0, large.dtype), large))
        found = e("Mul", large, e("Sqrt", e("Add", e("Mul", ratio, ratio), 1.0)))
        return e("Where", is_far, large, found)

    def angle(self, x: Pair) -> Value:
        return atan2_of(self.e, x.imaginary, x.real)

    def exp(self, x: Pair) -> Pair:
        e = self.e
        size = e("Exp", x.real)
        is_real = e("Equal", x.imaginary, 0.0)
        imaginary = e("Where", is_real, x.imaginary, e("Mul", size, e("Sin", x.imaginary)))
        return Pair(e("Where", is_real, size, e("Mul", size, e("Cos", x.imaginary))), imaginary)

    def log(self, x: Pair) -> Pair:
        return Pair(self.e("Log", self.size(x)), self.angle(x))

    def sqrt(self, x: Pair) -> Pair:
        """Take the root with a real part u >= 0: u^2 = (|z| + |a|) / 2; the imaginary part is b / (2 u)."""
        e = self.e
        size = self.size(x)
        u = e("Sqrt", e("Mul", e("Add", size, e("Abs", x.real)), 0.5))
        is_zero = e("Equal", u, 0.0)
        v = e("Div", e("Abs", x.imaginary), e("Mul", e("Where", is_zero, e.constant(1.0, u.dtype), u), 2.0))
        v = e("Where", is_zero, e.constant(0.0, u.dtype), v)
        right = e("GreaterOrEqual", x.real, 0.0)
        below = e("Less", x.imaginary, 0.0)
        imaginary = e("Where", right, v, u)
        return Pair(e("Where", right, u, v), e("Where", below, e("Neg", imaginary), imaginary))

    def sine(self, x: Pair) -> Pair:
        e = self.e
        real = e("Mul", e("Sin", x.real), e("Cosh", x.imaginary))
        return Pair(real, e("Mul", e("Cos", x.real), e("Sinh", x.imaginary)))

    def cosine(self, x: Pair) -> Pair:
        e = self.e
        real = e("Mul", e("Cos", x.real), e("Cosh", x.imaginary))
        return Pair(real, e("Neg", e("Mul", e("Sin", x.real), e("Sinh", x.imaginary))))

    def tanh(self, x: Pair) -> Pair:
        """Divide t (1 + s^2) + i s (1 - t^2) by 1 + t^2 s^2, where t is tanh of a, and s is tan of b."""
        e = self.e
        t, s = e("Tanh", x.real), e("Div", e("Sin", x.imaginary), e("Cos", x.imaginary))
        tt, ss = e("Mul", t, t), e("Mul", s, s)
        below = e("Add", e("Mul", tt, ss), 1.0)
        real = e("Div", e("Mul", t, e("Add", ss, 1.0)), below)
        return Pair(real, e("Div", e("Mul", s, e("Sub", e.constant(1.0, t.dtype), tt)), below))

    def tan(self, x: Pair) -> Pair:
        turned = self.tanh(Pair(self.e("Neg", x.imaginary), x.real))
        return Pair(turned.imaginary, self.e("Neg", turned.real))

    def power(self, x: Pair, y: Pair) -> Pair:
        e = self.e
        found = self.exp(self.multiply(y, self.log(x)))
        is_zero = e("And", e("Equal", x.real, 0.0), e("Equal", x.imaginary, 0.0))
        none = e("And", e("Equal", y.real, 0.0), e("Equal", y.imaginary, 0.0))
        zero, one = e.constant(0.0, x.real.dtype), e.constant(1.0, x.real.dtype)
        real = e("Where", is_zero, e("Where", none, one, zero), found.real)
        return Pair(real, e("Where", e("Or", is_zero, none), zero, found.imaginary))

    def sign(self, x: Pair) -> Pair:
        e = self.e
        size = self.size(x)
        is_zero = e("Equal", size, 0.0)
        safe = e("Where", is_zero, e.constant(1.0, size.dtype), size)
        return Pair(e("Div", x.real, safe), e("Div", x.imaginary, safe))

    def asinh(self, x: Pair) -> Pair:
        """log(z + sqrt(z^2 + 1)) for a positive real part; the function is odd."""
        e = self.e
        flips = e("Less", x.real, 0.0)
        z = Pair(*[e("Where", flips, e("Neg", v), v) for v in (x.real, x.imaginary)])
        root = self.sqrt(self.add(self.multiply(z, z), self.constant(z, 1)))
        found = self.log(self.add(z, root))
        return Pair(*[e("Where", flips, e("Neg", v), v) for v in (found.real, found.imaginary)])

    def asin(self, x: Pair) -> Pair:
        """-i asinh(iz)."""
        found = self.asinh(Pair(self.e("Neg", x.imaginary), x.real))
        return Pair(found.imaginary, self.e("Neg", found.real))

    def acos(self, x: Pair) -> Pair:
        """pi / 2 - asin(z)."""
        return self.subtract(self.constant(x, pi / 2), self.asin(x))

    def acosh(self, x: Pair) -> Pair:
        """log(z + sqrt(z + 1) sqrt(z - 1))."""
        one = self.constant(x, 1)
        roots = self.multiply(self.sqrt(self.add(x, one)), self.sqrt(self.subtract(x, one)))
        return self.log(self.add(x, roots))

    def atanh(self, x: Pair) -> Pair:
        """(log(1 + z) - log(1 - z)) / 2."""
        one = self.constant(x, 1)
        return self.scale(self.subtract(self.log(self.add(one, x)), self.log(self.subtract(one, x))), 0.5)

    def atan(self, x: Pair) -> Pair:
        """-i atanh(iz)."""
        found = self.atanh(Pair(self.e("Neg", x.imaginary), x.real))
        return Pair(found.imaginary, self.e("Neg", found.real))


def divide(e: Emitter, x: Pair, y: Pair) -> Pair:
    """The quotient of complex tensors."""
    return _Complex(e).divide(x, y)


def _unary(*names: str) -> Callable[[Callable[[_Complex, Pair], Held]], None]:
    def register(formula: Callable[[_Complex, Pair], Held]) -> None:
        @complex_rule(*names)
        def apply(e: Emitter, op: Operation, x: Pair) -> Held:
            del op
            return formula(_Complex(e), x)

    return register


def _binary(name: str, formula: Callable[[_Complex, Pair, Pair], Pair]) -> None:
    @complex_rule(name, f"chlo.broadcast_{name}")
    def apply(e: Emitter, op: Operation, x: Held, y: Held) -> Held:
        del op
        return formula(_Complex(e), _as_pair(e, x), _as_pair(e, y))


def _as_pair(e: Emitter, x: Held) -> Pair:
    if isinstance(x, Value):
        return Pair(x, _zeros(e, x))
    return x if isinstance(x, Pair) else refuse("SH0007", "an operand is not a tensor")


_binary("add", _Complex.add)
_binary("subtract", _Complex.subtract)
_binary("multiply", _Complex.multiply)
_binary("divide", _Complex.divide)
_binary("power", _Complex.power)
_unary("negate")(_Complex.negate)
_unary("abs")(_Complex.size)
_unary("exponential")(_Complex.exp)
_unary("log")(_Complex.log)
_unary("sqrt")(_Complex.sqrt)
_unary("sine")(_Complex.sine)
_unary("cosine")(_Complex.cosine)
_unary("tanh")(_Complex.tanh)
_unary("tan", "chlo.tan")(_Complex.tan)
_unary("sign")(_Complex.sign)
_unary("rsqrt")(lambda c, x: c.divide(c.constant(x, 1), c.sqrt(x)))
_unary("cbrt")(lambda c, x: c.power(x, c.constant(x, 1 / 3)))
_unary("exponential_minus_one")(lambda c, x: c.subtract(c.exp(x), c.constant(x, 1)))
_unary("log_plus_one")(lambda c, x: c.log(c.add(x, c.constant(x, 1))))
_unary("logistic")(lambda c, x: c.divide(c.constant(x, 1), c.add(c.exp(c.negate(x)), c.constant(x, 1))))
_unary("chlo.square")(lambda c, x: c.multiply(x, x))
_unary("chlo.conj")(lambda c, x: Pair(x.real, c.e("Neg", x.imaginary)))
_unary("chlo.asinh")(_Complex.asinh)
_unary("chlo.asin")(_Complex.asin)
_unary("chlo.acos")(_Complex.acos)
_unary("chlo.acosh")(_Complex.acosh)
_unary("chlo.atanh")(_Complex.atanh)
_unary("chlo.atan")(_Complex.atan)
_unary("chlo.sinh")(lambda c, x: c.scale(c.subtract(c.exp(x), c.exp(c.negate(x))), 0.5))
_unary("chlo.cosh")(lambda c, x: c.scale(c.add(c.exp(x), c.exp(c.negate(x))), 0.5))


@complex_rule("compare")
def compare(e: Emitter, op: Operation, x: Held, y: Held) -> Value:
    """Whether both parts are equal, or not."""
    a, b = _as_pair(e, x), _as_pair(e, y)
    same = e("And", e("Equal", a.real, b.real), e("Equal", a.imaginary, b.imaginary))
    direction = op.attribute("comparison_direction")
    if direction not in ("EQ", "NE"):
        refuse("SH0007", f"compare: {direction} is not defined for complex numbers")
    return same if direction == "EQ" else e("Not", same)


def _extreme(e: Emitter, x: Held, y: Held, direction: str) -> Pair:
    """The larger or the smaller element in lexicographic order: by the real parts, then by the imaginary parts."""
    a, b = _as_pair(e, x), _as_pair(e, y)
    tie = e("And", e("Equal", a.real, b.real), e(direction, a.imaginary, b.imaginary))
    takes = e("Or", e(direction, a.real, b.real), tie)
    return Pair(e("Where", takes, a.real, b.real), e("Where", takes, a.imaginary, b.imaginary))


@complex_rule("maximum")
def maximum(e: Emitter, op: Operation, x: Held, y: Held) -> Pair:
    """The larger element in lexicographic order."""
    del op
    return _extreme(e, x, y, "Greater")


@complex_rule("minimum")
def minimum(e: Emitter, op: Operation, x: Held, y: Held) -> Pair:
    """The smaller element in lexicographic order."""
    del op
    return _extreme(e, x, y, "Less")


@complex_rule("clamp")
def clamp(e: Emitter, op: Operation, lowest: Held, x: Held, highest: Held) -> Pair:
    """The elements between two limits in lexicographic order."""
    del op
    return _extreme(e, _extreme(e, x, lowest, "Greater"), highest, "Less")


@complex_rule("atan2")
def atan2(e: Emitter, op: Operation, y: Held, x: Held) -> Held:
    """-i log((x + iy) / sqrt(x^2 + y^2))."""
    del op
    c = _Complex(e)
    a, b = _as_pair(e, x), _as_pair(e, y)
    turned = Pair(e("Neg", b.imaginary), b.real)
    root = c.sqrt(c.add(c.multiply(a, a), c.multiply(b, b)))
    found = c.log(c.divide(c.add(a, turned), root))
    return Pair(found.imaginary, e("Neg", found.real))


@complex_rule("is_finite")
def is_finite(e: Emitter, op: Operation, x: Pair) -> Value:
    """Whether both parts are finite."""
    return e("And", RULES["is_finite"](e, op, x.real), RULES["is_finite"](e, op, x.imaginary))


@complex_rule("convert")
def convert(e: Emitter, op: Operation, x: Pair) -> Held:
    """Convert both parts, or take the real parts."""
    type = op.result_types[0]
    dtype = element_type(type, e.dtype(x.real))
    if isinstance(type, TensorType) and not type.is_complex:
        return converted(e, x.real, dtype)
    return Pair(converted(e, x.real, dtype), converted(e, x.imaginary, dtype))


_real_convert = RULES["convert"]


@rule("convert")
def convert_any(e: Emitter, op: Operation, x: Value) -> Held:
    """Convert real elements, also to a complex type."""
    found = _real_convert(e, op, x)
    type = op.result_types[0]
    if isinstance(type, TensorType) and type.is_complex:
        return Pair(found, _zeros(e, found))
    return found


# Fourier transforms


@rule("fft")
def real_fft(e: Emitter, op: Operation, x: Value) -> Held:
    """The transform of a real tensor."""
    return _transformed(e, op, Pair(x, _zeros(e, x)), is_real=True)


@complex_rule("fft")
def complex_fft(e: Emitter, op: Operation, x: Pair) -> Held:
    """The transform of a complex tensor."""
    return _transformed(e, op, x, is_real=False)


def _transformed(e: Emitter, op: Operation, x: Pair, *, is_real: bool) -> Held:
    kind = str(op.attribute("fft_type"))
    lengths = ints_of(op.attribute("fft_length"), "fft_length")
    rank = e.rank(x.real)
    axes = list(range(rank - len(lengths), rank))
    if not lengths or axes[0] < 0 or is_real != (kind == "RFFT"):
        refuse("SH0007", f"fft: {kind} of {'real' if is_real else 'complex'} numbers of rank {rank}")
    if kind in ("FFT", "IFFT"):
        for axis in axes:
            x = _along(e, x, axis, inverse=kind == "IFFT")
        return x
    last = lengths[-1]
    if kind == "RFFT":
        x = _along(e, x, axes[-1], inverse=False)
        x = Pair(*[e.slice(v, axes[-1], 0, last // 2 + 1) for v in (x.real, x.imaginary)])
        for axis in axes[:-1]:
            x = _along(e, x, axis, inverse=False)
        return x
    for axis in axes[:-1]:
        x = _along(e, x, axis, inverse=True)
    return _along(e, _mirrored(e, x, axes[-1], last), axes[-1], inverse=True).real


def _mirrored(e: Emitter, x: Pair, axis: int, length: int) -> Pair:
    """The whole spectrum of a real tensor: the upper half is the conjugate of the lower one, backwards."""
    half = length // 2 + 1
    kept = [e.slice(v, axis, 0, half) for v in (x.real, x.imaginary)]
    rest = length - half
    if rest <= 0:
        return Pair(*kept)
    backwards = [e("Slice", v, e.ints(rest), e.ints(0), e.ints(axis), e.ints(-1)) for v in kept]
    first = e("Concat", kept[0], backwards[0], axis=axis)
    return Pair(first, e("Concat", kept[1], e("Neg", backwards[1]), axis=axis))


def _along(e: Emitter, x: Pair, axis: int, *, inverse: bool) -> Pair:
    rank = e.rank(x.real)
    parts = [e.unsqueeze(v, rank) for v in (x.real, x.imaginary)]
    joined = e("Concat", *parts, axis=rank)
    if e.dims(x.real)[axis] in (0, 1):
        return x
    if rank == 1:
        joined = e.unsqueeze(joined, 0)
        axis = 1
    found = e("DFT", joined, None, e.constant(axis, DType.INT64), inverse=int(inverse) or None)
    if rank == 1:
        found = e("Squeeze", found, e.ints(0))
    return Pair(*[e("Gather", found, e.constant(np.int64(k), DType.INT64), axis=rank) for k in (0, 1)])
