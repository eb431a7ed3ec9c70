"""Functions of complex tensors in exported programs, by their real and imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.pnnx.arithmetic import hypot
from graphport.ops.dialects.pnnx.reshape_shapes import extents
from graphport.ops.dialects.pnnx.signal_pairs import Pair, Part, both, exponential
from graphport.ops.dialects.pytorch.generate import full
from graphport.ops.dialects.pytorch.overloads import DIALECT
from graphport.ops.dialects.pytorch.signal_pairs import pairs
from graphport.ops.dialects.torch_functions import dtype_of, named_dtype, number
from graphport.ops.dialects.torch_promotion import cast, kernel
from graphport.ops.pages.arithmetic import Add, Cos, Cosh, Div, Log, Max, Mul, Neg, Sin, Sinh, Sqrt, Sub
from graphport.ops.pages.comparison import And, Equal, Less, Not, Or, Where

Unary = Callable[[Builder, Pair], Part]


def _pair(b: Builder, x: Part) -> Pair:
    return x if isinstance(x, Pair) else Pair(x, b.like(x, 0))


def _turned(b: Builder, x: Pair) -> Pair:
    """`i x`."""
    return Pair(b(Neg, x.imaginary), x.real)


def _back(b: Builder, x: Pair) -> Pair:
    """`-i x`."""
    return Pair(x.imaginary, b(Neg, x.real))


def logarithm(b: Builder, x: Pair) -> Pair:
    return Pair(b(Log, hypot(b, x.real, x.imaginary)), kernel(b, "atan2", x.imaginary, x.real))


def root(b: Builder, x: Pair) -> Pair:
    """The principal one: its real part is not negative, its imaginary part has the sign of that of `x`."""
    size, half, zero = hypot(b, x.real, x.imaginary), b.like(x.real, 0.5), b.like(x.real, 0)
    real, imaginary = (b(Sqrt, b(Max, b(Mul, b(page, size, x.real), half), zero)) for page in (Add, Sub))
    return Pair(real, b(Where, b(Less, x.imaginary, zero), b(Neg, imaginary), imaginary))


def sine_hyperbolic(b: Builder, x: Pair) -> Pair:
    return Pair(b(Mul, b(Sinh, x.real), b(Cos, x.imaginary)), b(Mul, b(Cosh, x.real), b(Sin, x.imaginary)))


def cosine_hyperbolic(b: Builder, x: Pair) -> Pair:
    return Pair(b(Mul, b(Cosh, x.real), b(Cos, x.imaginary)), b(Mul, b(Sinh, x.real), b(Sin, x.imaginary)))


def tangent_hyperbolic(b: Builder, x: Pair) -> Pair:
    """`(1 - e) / (1 + e)` of `exp(-2 |x|)`, so that large numbers stay finite."""
    zero, two = b.like(x.real, 0), b.like(x.real, 2)
    is_negative = b(Less, x.real, zero)
    size = Pair(*(b(Where, is_negative, b(Neg, part), part) for part in (x.real, x.imaginary)))
    e = exponential(b, Pair(b(Neg, b(Mul, two, size.real)), b(Neg, b(Mul, two, size.imaginary))))
    one = b.like(x.real, 1)
    up, down = Pair(b(Sub, one, e.real), b(Neg, e.imaginary)), Pair(b(Add, one, e.real), e.imaginary)
    found = _pair(b, both(b, "div", up, down))
    return Pair(*(b(Where, is_negative, b(Neg, part), part) for part in (found.real, found.imaginary)))


def _around(function: Unary, b: Builder, x: Pair) -> Pair:
    """`-i f(i x)`: the function of angles that belongs to a hyperbolic one."""
    return _back(b, _pair(b, function(b, _turned(b, x))))


def cosine(b: Builder, x: Pair) -> Pair:
    return cosine_hyperbolic(b, _turned(b, x))


def logistic(b: Builder, x: Pair) -> Pair:
    e = exponential(b, Pair(b(Neg, x.real), b(Neg, x.imaginary)))
    one = b.like(x.real, 1)
    return _pair(b, both(b, "div", Pair(one, b.like(x.real, 0)), Pair(b(Add, one, e.real), e.imaginary)))


def signum(b: Builder, x: Pair) -> Pair:
    """`x / |x|`, and 0 of 0."""
    size = hypot(b, x.real, x.imaginary)
    divisor = b(Where, b(Equal, size, b.like(size, 0)), b.like(size, 1), size)
    return Pair(b(Div, x.real, divisor), b(Div, x.imaginary, divisor))


def _scaled(function: Unary, base: float, b: Builder, x: Pair) -> Pair:
    found = _pair(b, function(b, x))
    factor = b.like(x.real, 1 / math.log(base))
    return Pair(b(Mul, found.real, factor), b(Mul, found.imaginary, factor))


def _unary(function: Unary, b: Builder, self: Pair) -> Part:
    return function(b, self)


for _name, _function in {
    "log": logarithm,
    "log2": partial(_scaled, logarithm, 2.0),
    "log10": partial(_scaled, logarithm, 10.0),
    "sqrt": root,
    "rsqrt": lambda b, x: both(b, "div", Pair(b.like(x.real, 1), b.like(x.real, 0)), root(b, x)),
    "sinh": sine_hyperbolic,
    "cosh": cosine_hyperbolic,
    "tanh": tangent_hyperbolic,
    "sin": partial(_around, sine_hyperbolic),
    "tan": partial(_around, tangent_hyperbolic),
    "cos": cosine,
    "sigmoid": logistic,
    "sgn": signum,
}.items():
    pairs(f"aten.{_name}")(partial(_unary, _function))


@pairs("aten.pow")
def power(b: Builder, self: Any, exponent: Any) -> Part:
    """Small whole powers by products, others by the logarithm; 0 to the power of 0 is 1."""
    count = exponent if isinstance(exponent, int | float) and not isinstance(exponent, bool) else None
    if count is not None and count == int(count) and 1 <= count <= 8:
        found: Part = self
        for _ in range(int(count) - 1):
            found = both(b, "mul", found, self)
        return found
    like = next(x for x in (self, exponent) if isinstance(x, Pair)).real
    x, y = (_operand(b, each, like) for each in (self, exponent))
    found = exponential(b, _pair(b, both(b, "mul", y, logarithm(b, x))))
    zero, one = b.like(like, 0), b.like(like, 1)
    is_zero = b(And, b(Equal, x.real, zero), b(Equal, x.imaginary, zero))
    is_none = b(And, b(Equal, y.real, zero), b(Equal, y.imaginary, zero))
    of_zero = b(Where, is_none, one, zero)
    return Pair(b(Where, is_zero, of_zero, found.real), b(Where, is_zero, zero, found.imaginary))


def _operand(b: Builder, x: Any, like: Value) -> Pair:
    """A tensor or a number of any kind as a complex one."""
    if isinstance(x, Pair):
        return x
    if isinstance(x, Value):
        return Pair(cast(b, x, dtype_of(like)), b.like(like, 0))
    found = complex(x)
    return Pair(b.like(like, found.real), b.like(like, found.imag))


def _equal(b: Builder, self: Any, other: Any, *, is_equal: bool) -> Value:
    like = next(x for x in (self, other) if isinstance(x, Pair)).real
    x, y = (_operand(b, each, like) for each in (self, other))
    found = b(And, b(Equal, x.real, y.real), b(Equal, x.imaginary, y.imaginary))
    return found if is_equal else b(Not, found)


pairs("aten.eq")(partial(_equal, is_equal=True))
pairs("aten.ne")(partial(_equal, is_equal=False))


def _any_part(word: str, b: Builder, self: Pair) -> Value:
    """A test of real numbers that holds of a complex one if it does of one of its parts."""
    return b(Or, *(_real(b, word, part) for part in (self.real, self.imaginary)))


def _all_parts(word: str, b: Builder, self: Pair) -> Value:
    return b(And, *(_real(b, word, part) for part in (self.real, self.imaginary)))


def _real(b: Builder, word: str, *operands: Value, **attributes: Any) -> Value:
    """What a word gives of real numbers."""
    rule = registry.lowering(DIALECT, word)
    found = None if rule is None else registry.results(rule(b, *operands, **attributes))[0]
    if found is None:
        raise UnsupportedError(word)
    return found


for _name in ("isnan", "isinf"):
    pairs(f"aten.{_name}")(partial(_any_part, f"aten.{_name}"))
for _name in ("isfinite", "isreal"):
    pairs(f"aten.{_name}")(partial(_all_parts, f"aten.{_name}"))


# ── products ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _four(b: Builder, x: Part, y: Part, product: Callable[[Value, Value], Value]) -> Pair:
    """A product of complex tensors, whatever is summed in it."""
    if isinstance(x, Value) and isinstance(y, Pair):
        return Pair(product(x, y.real), product(x, y.imaginary))
    if isinstance(x, Pair) and isinstance(y, Value):
        return Pair(product(x.real, y), product(x.imaginary, y))
    u, v = _pair(b, x), _pair(b, y)
    real = b(Sub, product(u.real, v.real), product(u.imaginary, v.imaginary))
    return Pair(real, b(Add, product(u.real, v.imaginary), product(u.imaginary, v.real)))


@pairs("aten.einsum", ignores=("path",))
def einsum(b: Builder, equation: str, tensors: Any) -> Part:
    operands = list(tensors) if isinstance(tensors, tuple | list) else [tensors]
    if len(operands) == 1 and isinstance(operands[0], Pair):
        sides = (operands[0].real, operands[0].imaginary)
        return Pair(*(_summed(b, equation, side) for side in sides))
    if len(operands) != 2:
        message = f"einsum of {len(operands)} complex tensors"
        raise UnsupportedError(message)
    left, right = operands
    return _four(b, left, right, partial(_summed, b, equation))


def _summed(b: Builder, equation: str, *operands: Value) -> Value:
    keys = {"$": ("tensors*",) * len(operands)}
    return _real(b, "aten.einsum.default", *operands, equation=equation, **keys)


def _product(word: str, b: Builder, self: Part, other: Any = None, mat2: Any = None, vec: Any = None) -> Part:
    right = next(x for x in (other, mat2, vec) if x is not None)
    return _four(b, self, right, lambda x, y: _real(b, word, x, y))


for _name in ("matmul", "mm", "bmm", "mv", "outer", "ger", "kron", "inner"):
    pairs(f"aten.{_name}")(partial(_product, "aten.outer" if _name == "ger" else f"aten.{_name}"))


@pairs("aten.dot")
def dot(b: Builder, self: Part, tensor: Part) -> Part:
    return _four(b, self, tensor, lambda x, y: _real(b, "aten.matmul", x, y))


@pairs("aten.vdot")
def vdot(b: Builder, self: Pair, other: Part) -> Part:
    return dot(b, Pair(self.real, b(Neg, self.imaginary)), other)


@pairs("aten.addmm", "aten.baddbmm", "aten.addbmm")
def added_product(
    b: Builder, self: Part, mat1: Any = None, mat2: Any = None, batch1: Any = None, batch2: Any = None
) -> Part:
    x, y = (mat1, mat2) if mat1 is not None else (batch1, batch2)
    return both(b, "add", self, _four(b, x, y, lambda u, v: _real(b, "aten.matmul", u, v)))


@pairs("aten.linear")
def linear(b: Builder, input: Part, weight: Part, bias: Part | None = None) -> Part:
    found = _four(b, input, weight, lambda x, w: _real(b, "aten.linear", x, w))
    return found if bias is None else both(b, "add", found, bias)


# ── tensors made of numbers ───────────────────────────────────────────────────────────────────────────────────────────


def _full_like(value: Any, b: Builder, self: Part, fill_value: Any = None, dtype: Any = None) -> Part:
    like = self.real if isinstance(self, Pair) else self
    found = (
        complex(number(fill_value) if not isinstance(fill_value, complex) else fill_value) if value is None else value
    )
    text = str(dtype or "")
    if dtype is not None and "complex" not in text:
        return full(b, extents(b, like), found.real, dtype)
    own = f"torch.{dtype_of(like).text}" if dtype is None else _real_text(text)
    return Pair(*(full(b, extents(b, like), part, own) for part in (found.real, found.imag)))


def _real_text(text: str) -> str:
    return "torch.float64" if "complex128" in text else "torch.float32"


for _name, _value in (("zeros_like", 0j), ("ones_like", 1 + 0j), ("empty_like", 0j), ("full_like", None)):
    pairs(f"aten.{_name}")(partial(_full_like, _value))


@pairs("aten.scalar_tensor")
def scalar_tensor(b: Builder, s: Any, dtype: Any = None) -> Pair:
    found, own = complex(s), named_dtype(_real_text(str(dtype or "")))
    return Pair(b.constant(found.real, own), b.constant(found.imag, own))


def _full(value: Any, b: Builder, size: Any, fill_value: Any = None, dtype: Any = None) -> Part:
    found = complex(fill_value) if value is None else value
    if named_dtype(None if "complex" in str(dtype) else dtype) is not None:
        raise UnsupportedError(str(dtype))
    own = _real_text(str(dtype or ""))
    return Pair(*(full(b, size, part, own) for part in (found.real, found.imag)))


for _name, _value in (("zeros", 0j), ("ones", 1 + 0j), ("empty", 0j), ("full", None)):
    pairs(f"aten.{_name}")(partial(_full, _value))
