"""Unary and binary functions by their numbers in ncnn layers."""

from __future__ import annotations

from math import isfinite

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.ncnn.rules.emitting import emitted, joining, restore_leading_batch
from graphport.formats.ncnn.rules.integers import to_float_blob
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.shapes import broadcast

BINARY = (
    *("add", "sub", "mul", "div", "maximum", "minimum", "pow", "-sub", "-div", "-pow", "atan2", "-atan2", "fmod"),
    *("-fmod", "logaddexp", "floor_divide", "-floor_divide", "remainder", "-remainder"),
)
"""Binary functions by number; a minus marks reversed operands."""
UNARY = (
    *("abs", "neg", "floor", "ceil", "square", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "reciprocal", "tanh", "log10", "round", "trunc", "sign", "expm1", "sinh", "asinh", "cosh", "acosh"),
    *("atanh", "log1p"),
)


def unary(b: Builder, name: str, x: Value) -> Value:
    """Emit a UnaryOp layer with the function `name`."""
    return emitted(b, "UnaryOp", x, p0=UNARY.index(name))


def binary_with_constant(b: Builder, name: str, x: Value, number: float) -> Value:
    """Emit a BinaryOp layer with the function `name`, whose second operand is a number."""
    return emitted(b, "BinaryOp", x, p0=BINARY.index(name), p1=1, p2=number)


def both(b: Builder, name: str, x: Value, y: Value) -> Value:
    """Emit a BinaryOp layer with broadcasting; a scalar constant is a parameter."""
    x, y = to_float_blob(b, x), to_float_blob(b, y)
    first, second = _scalar_constant(x), _scalar_constant(y)
    if second is not None and folded(x) is None:
        return binary_with_constant(b, name, x, second)
    if first is not None and folded(y) is None:
        return binary_with_constant(b, f"-{name}" if f"-{name}" in BINARY else name, y, first)
    fact = TensorFact(DType.FLOAT32, broadcast(b.dims(x), b.dims(y)))
    blobs, batch = joining(b, x, y)
    return restore_leading_batch(b, emitted(b, "BinaryOp", *blobs, fact=fact, p0=BINARY.index(name)), batch)


def _scalar_constant(x: Value) -> float | None:
    """Return the element of a constant with one finite element, else `None`."""
    storage = folded(x)
    number = None if storage is None or storage.count != 1 else float(storage.numpy().reshape(-1)[0])
    return number if number is not None and isfinite(number) else None


_LARGE = 1e30
"""A number whose square is infinite."""


def infinite(b: Builder, truth: Value, sign: int = 1) -> Value:
    """Map 1 to infinity and 0 to 0; ncnn's logarithm and quotient of 0 are NaN."""
    return binary_with_constant(b, "mul", binary_with_constant(b, "mul", truth, sign * _LARGE), _LARGE)
