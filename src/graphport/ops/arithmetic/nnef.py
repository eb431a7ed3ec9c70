"""Arithmetic in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.arithmetic import Add, Div, Floor, Log, Max, Min, Mul, Pow, Reciprocal, Sqrt, Sub
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.leading import spelled, trailed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

for _page, _word in ((Add, "add"), (Sub, "sub"), (Mul, "mul"), (Div, "div"), (Pow, "pow"), (Min, "min"), (Max, "max")):
    spelled(_page, _word)


def number(b: Builder, x: Value, value: float) -> Value:
    """A constant of rank 0 in the element type of `x`."""
    dtype = x.fact.dtype if isinstance(x.fact, TensorFact) else None
    return b.constant(value, dtype or DType.FLOAT32)


@lower("nnef", "sqr")
def sqr(b: Builder, x: Value) -> Value:
    """The square."""
    return b(Mul, x, x)


@lower("nnef", "sqrt")
def sqrt(b: Builder, x: Value) -> Value:
    """The square root."""
    return b(Sqrt, x)


@Sqrt.lift("nnef")
def lift_sqrt(b: Builder, x: Value) -> tuple[Value, ...]:
    return b.word("sqrt", x)


@lower("nnef", "rsqr")
def rsqr(b: Builder, x: Value) -> Value:
    """One over the square."""
    return b(Reciprocal, b(Mul, x, x))


@lower("nnef", "rsqrt")
def rsqrt(b: Builder, x: Value) -> Value:
    """One over the square root."""
    return b(Reciprocal, b(Sqrt, x))


@lower("nnef", "log2")
def log2(b: Builder, x: Value) -> Value:
    """The logarithm to base 2."""
    return b(Div, b(Log, x), number(b, x, float(np.log(2.0))))


@lower("nnef", "round")
def round_half_up(b: Builder, x: Value) -> Value:
    """The nearest integer, halves upwards (ONNX rounds them to even)."""
    return b(Floor, b(Add, x, number(b, x, 0.5)))


@lower("nnef", "add_n")
def add_n(b: Builder, *x: Value) -> Value:
    """The sum of all."""
    if not x:
        message = "the sum of no tensor"
        raise UnsupportedError(message)
    total = x[0]
    for operand in x[1:]:
        total = b(Add, *trailed(b, total, operand))
    return total


@lower("nnef", "copy_n")
def copy_n(b: Builder, x: Value, *, times: int) -> tuple[Value, ...]:
    """The same tensor so many times."""
    del b
    return (x,) * times
