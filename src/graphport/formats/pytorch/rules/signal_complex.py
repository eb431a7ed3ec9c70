"""Functions of complex tensors in exported programs, by their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from graphport.formats.pytorch.rules.binding import named_dtype, scalar_of
from graphport.formats.pytorch.rules.functions.arithmetic import hypot
from graphport.formats.pytorch.rules.functions.reshape_shapes import extents
from graphport.formats.pytorch.rules.functions.signal_pairs import Pair, Part, both, exponential
from graphport.formats.pytorch.rules.generate import full
from graphport.formats.pytorch.rules.overloads import DIALECT
from graphport.formats.pytorch.rules.promotion import cast, kernel
from graphport.formats.pytorch.rules.signal_pairs import RULES as PAIRS
from graphport.formats.pytorch.rules.signal_pairs import pairs
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Log, Max, Mul, Neg, Sqrt, Sub
from graphport.ops.definitions.comparison import And, Equal, Less, Where
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.lowering.operands import dtype_of


def _pair(b: Builder, x: Part) -> Pair:
    return x if isinstance(x, Pair) else Pair(x, b.like(x, 0))


def _times_i(b: Builder, x: Pair) -> Pair:
    """Return i * x."""
    return Pair(b(Neg, x.imaginary), x.real)


def _back(b: Builder, x: Pair) -> Pair:
    """Return -i * x: divide by i."""
    return Pair(x.imaginary, b(Neg, x.real))


def logarithm(b: Builder, x: Pair) -> Pair:
    return Pair(b(Log, hypot(b, x.real, x.imaginary)), kernel(b, "atan2", x.imaginary, x.real))


def root(b: Builder, x: Pair) -> Pair:
    """Principal square root: non-negative real part, imaginary part with the sign of x's."""
    size, half, zero = hypot(b, x.real, x.imaginary), b.like(x.real, 0.5), b.like(x.real, 0)
    real, imaginary = (b(Sqrt, b(Max, b(Mul, b(op_def, size, x.real), half), zero)) for op_def in (Add, Sub))
    return Pair(real, b(Where, b(Less, x.imaginary, zero), b(Neg, imaginary), imaginary))


def _quotient(b: Builder, x: Pair) -> Pair:
    """Return 1 / sqrt(x)."""
    return _pair(b, both(b, "div", Pair(b.like(x.real, 1), b.like(x.real, 0)), root(b, x)))


def tangent_hyperbolic(b: Builder, x: Pair) -> Pair:
    """tanh(x) = (1 - e) / (1 + e) with e = exp(-2 |x|), which does not overflow."""
    zero, two = b.like(x.real, 0), b.like(x.real, 2)
    is_negative = b(Less, x.real, zero)
    size = Pair(*(b(Where, is_negative, b(Neg, part), part) for part in (x.real, x.imaginary)))
    e = exponential(b, Pair(b(Neg, b(Mul, two, size.real)), b(Neg, b(Mul, two, size.imaginary))))
    one = b.like(x.real, 1)
    up, down = Pair(b(Sub, one, e.real), b(Neg, e.imaginary)), Pair(b(Add, one, e.real), e.imaginary)
    found = _pair(b, both(b, "div", up, down))
    return Pair(*(b(Where, is_negative, b(Neg, part), part) for part in (found.real, found.imaginary)))


def logistic(b: Builder, x: Pair) -> Pair:
    e = exponential(b, Pair(b(Neg, x.real), b(Neg, x.imaginary)))
    one = b.like(x.real, 1)
    return _pair(b, both(b, "div", Pair(one, b.like(x.real, 0)), Pair(b(Add, one, e.real), e.imaginary)))


def signum(b: Builder, x: Pair) -> Pair:
    """x / |x|; 0 for 0."""
    size = hypot(b, x.real, x.imaginary)
    divisor = b(Where, b(Equal, size, 0), 1, size)
    return Pair(b(Div, x.real, divisor), b(Div, x.imaginary, divisor))


def _scaled(b: Builder, x: Pair, factor: float) -> Pair:
    return Pair(*(b(Mul, part, factor) for part in (x.real, x.imaginary)))


_FUNCTIONS = PAIRS.having(
    back=_back, logarithm=logarithm, logistic=logistic, quotient=_quotient, root=root, scaled=_scaled, signum=signum,
    tangent_hyperbolic=tangent_hyperbolic, turned=_times_i,
)  # fmt: skip
_FUNCTIONS.lower("""
aten.log(self) -> logarithm(self)
aten.log2(self) -> scaled(logarithm(self), 1 / math.log(2))
aten.log10(self) -> scaled(logarithm(self), 1 / math.log(10))
aten.sqrt(self) -> root(self)
aten.rsqrt(self) -> quotient(self)
aten.sinh(self) -> pair(Mul(Sinh(re(self)), Cos(im(self))), Mul(Cosh(re(self)), Sin(im(self))))
aten.cosh(self) -> pair(Mul(Cosh(re(self)), Cos(im(self))), Mul(Sinh(re(self)), Sin(im(self))))
aten.tanh(self) -> tangent_hyperbolic(self)
# `-i f(i x)` of the hyperbolic function that belongs to an angle's.
aten.sin(self)
    -> x = turned(self); back(pair(Mul(Sinh(re(x)), Cos(im(x))), Mul(Cosh(re(x)), Sin(im(x)))))
aten.cos(self) -> x = turned(self); pair(Mul(Cosh(re(x)), Cos(im(x))), Mul(Sinh(re(x)), Sin(im(x))))
aten.tan(self) -> back(tangent_hyperbolic(turned(self)))
aten.sigmoid(self) -> logistic(self)
aten.sgn(self) -> signum(self)
""")


@pairs("aten.pow")
def power(b: Builder, self: Any, exponent: Any) -> Part:
    """Power: small integer exponents by products, others by exp(exponent * log(x)); 0 ** 0 is 1."""
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
    """Convert a tensor or Python number to a complex tensor."""
    if isinstance(x, Pair):
        return x
    if isinstance(x, Value):
        return Pair(cast(b, x, dtype_of(like)), b.like(like, 0))
    found = complex(x)
    return Pair(b.like(like, found.real), b.like(like, found.imag))


def _equal(b: Builder, x: Any, y: Any) -> Value:
    like = next(each for each in (x, y) if isinstance(each, Pair)).real
    x, y = (_operand(b, each, like) for each in (x, y))
    return b(And, b(Equal, x.real, y.real), b(Equal, x.imaginary, y.imaginary))


PAIRS.having(equal=_equal).lower("""
aten.eq(self, other) -> equal(self, other)
aten.ne(self, other) -> Not(equal(self, other))
aten.isnan(self) -> Or(aten.isnan(re(self)), aten.isnan(im(self)))
aten.isinf(self) -> Or(aten.isinf(re(self)), aten.isinf(im(self)))
aten.isfinite(self) -> And(aten.isfinite(re(self)), aten.isfinite(im(self)))
aten.isreal(self) -> Equal(im(self), 0)
""")


def _apply_to_real(b: Builder, op_type: str, *operands: Value, **attributes: Any) -> Value:
    """Apply the import rule of an op type to real tensors."""
    rule = registry.lowering(DIALECT, op_type)
    found = None if rule is None else registry.results(rule(b, *operands, **attributes))[0]
    if found is None:
        raise UnsupportedError(op_type)
    return found


# ── products ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _four(b: Builder, x: Part, y: Part, product: Callable[[Value, Value], Value]) -> Pair:
    """Apply a bilinear function to complex tensors: four real products."""
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
        message = f"einsum of {len(operands)} operands with complex ones, expected 2"
        raise UnsupportedError(message)
    left, right = operands
    return _four(b, left, right, partial(_summed, b, equation))


def _summed(b: Builder, equation: str, *operands: Value) -> Value:
    keys = {"$": ("tensors*",) * len(operands)}
    return _apply_to_real(b, "aten.einsum.default", *operands, equation=equation, **keys)


def _product(b: Builder, op_type: str, x: Part, y: Part) -> Part:
    """Apply a bilinear op type (matrix product, convolution) to complex tensors."""
    return _four(b, x, y, lambda left, right: _apply_to_real(b, op_type, left, right))


def _added(b: Builder, x: Pair) -> Pair:
    """Sum a complex tensor over axis 0."""
    return Pair(*(b(ReduceSum, part, [0], keepdims=0) for part in (x.real, x.imaginary)))


PAIRS.having(product=_product, added=_added).lower("""
aten.matmul(self, other) -> product("aten.matmul", self, other)
aten.mm(self, mat2) -> product("aten.mm", self, mat2)
aten.bmm(self, mat2) -> product("aten.bmm", self, mat2)
aten.mv(self, vec) -> product("aten.mv", self, vec)
aten.outer, aten.ger(self, vec2) -> product("aten.outer", self, vec2)
aten.kron(self, other) -> product("aten.kron", self, other)
aten.inner(self, other) -> product("aten.inner", self, other)
aten.dot(self, tensor) -> product("aten.matmul", self, tensor)
aten.vdot(self, other) -> product("aten.matmul", conjugate(self), other)
aten.addmm(self, mat1, mat2) -> both("add", self, product("aten.matmul", mat1, mat2))
aten.baddbmm(self, batch1, batch2) -> both("add", self, product("aten.matmul", batch1, batch2))
aten.addbmm(self, batch1, batch2) -> both("add", self, added(product("aten.matmul", batch1, batch2)))
aten.linear(input, weight, bias=None)
    -> bias is None: product("aten.linear", input, weight)
    -> both("add", product("aten.linear", input, weight), bias)
""")


# ── tensors of scalars ────────────────────────────────────────────────────────────────────────────────────────────────


def _full_like(b: Builder, x: Part, value: Any, dtype: Any) -> Part:
    like = x.real if isinstance(x, Pair) else x
    found = value if isinstance(value, complex) else complex(scalar_of(value))
    text = str(dtype or "")
    if dtype is not None and "complex" not in text:
        return full(b, extents(b, like), found.real, dtype)
    own = f"torch.{dtype_of(like).text}" if dtype is None else _real_text(text)
    return Pair(*(full(b, extents(b, like), part, own) for part in (found.real, found.imag)))


def _real_text(text: str) -> str:
    return "torch.float64" if "complex128" in text else "torch.float32"


@pairs("aten.scalar_tensor")
def scalar_tensor(b: Builder, s: Any, dtype: Any = None) -> Pair:
    found, own = complex(s), named_dtype(_real_text(str(dtype or "")))
    return Pair(b.constant(found.real, own), b.constant(found.imag, own))


def _full(b: Builder, size: Any, value: Any, dtype: Any) -> Part:
    found = complex(value)
    if named_dtype(None if "complex" in str(dtype) else dtype) is not None:
        raise UnsupportedError(str(dtype))
    own = _real_text(str(dtype or ""))
    return Pair(*(full(b, size, part, own) for part in (found.real, found.imag)))


PAIRS.having(full=_full, full_like=_full_like).lower("""
aten.zeros_like, aten.empty_like(self, dtype=None) -> full_like(self, 0, dtype)
aten.ones_like(self, dtype=None) -> full_like(self, 1, dtype)
aten.full_like(self, fill_value, dtype=None) -> full_like(self, fill_value, dtype)
aten.zeros, aten.empty(size, dtype=None) -> full(size, 0, dtype)
aten.ones(size, dtype=None) -> full(size, 1, dtype)
aten.full(size, fill_value, dtype=None) -> full(size, fill_value, dtype)
""")
