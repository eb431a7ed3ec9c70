"""Arithmetic of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import isfinite

from graphport.core.dims import Dim, settle_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.dialects.ncnn.binding import (
    NONE,
    Layer,
    emitted,
    folded,
    joining,
    laid,
    layer,
    settled,
)
from graphport.ops.dialects.ncnn.integers import dtype_in, real
from graphport.ops.dialects.ncnn.rows import ROWS
from graphport.ops.dialects.torch_functions import vector
from graphport.ops.dialects.torch_promotion import kernel
from graphport.ops.pages.arithmetic import (
    Add,
    Div,
    Exp,
    Log,
    Max,
    Mean,
    Mul,
    Pow,
    Round,
    Sub,
)
from graphport.ops.pages.indexing import Slice
from graphport.ops.pages.reshape import Identity, Unsqueeze
from graphport.ops.shapes import broadcast

_BINARY = (
    *("add", "sub", "mul", "div", "maximum", "minimum", "pow", "-sub", "-div", "-pow", "atan2", "-atan2", "fmod"),
    *("-fmod", "logaddexp", "floor_divide", "-floor_divide", "remainder", "-remainder"),
)
"""Functions by number; a minus marks those whose operands change places."""
_REMAINDER = 17
"""The first of those that give what a quotient, rounded to the nearest integer, leaves."""
_UNARY = (
    *("abs", "neg", "floor", "ceil", "square", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "reciprocal", "tanh", "log10", "round", "trunc", "sign", "expm1", "sinh", "asinh", "cosh", "acosh"),
    *("atanh", "log1p"),
)


def aligned(b: Builder, *blobs: Value) -> list[Value]:
    """Blobs with as many axes as the one that has most: a vector stands for channels if their number is its length."""
    rank = max(len(b.dims(blob)) for blob in blobs)
    largest = next(blob for blob in blobs if len(b.dims(blob)) == rank)
    return [_aligned(b, blob, b.dims(largest)) for blob in blobs]


def _aligned(b: Builder, blob: Value, target: Sequence[Dim]) -> Value:
    dims = b.dims(blob)
    missing = len(target) - len(dims)
    if not missing:
        return blob
    is_inner = len(dims) == 2 and not settle_equal(dims[1], target[1])
    first = 1 if is_inner else len(dims)
    return b(Unsqueeze, blob, vector(b, list(range(first, first + missing))))


@layer("BinaryOp")
def binary(at: Layer) -> Value:
    number = at.integer(0)
    if not 0 <= number < len(_BINARY):
        message = f"there is no operation {number}"
        raise UnsupportedError(message)
    name = _BINARY[number]
    if at.integer(1):
        operands = [at.x, at.b.like(at.x, at.real(2))]
    elif len(at.inputs) == 2:
        operands = aligned(at.b, *at.inputs)
    else:
        message = f"{len(at.inputs)} operands, 2 are needed"
        raise ShapeError(message)
    operands = operands[::-1] if name.startswith("-") else operands
    return _rest(at.b, *operands) if number >= _REMAINDER else kernel(at.b, name.removeprefix("-"), *operands)


def _rest(b: Builder, x: Value, y: Value) -> Value:
    """`x - y round(x / y)`, as C's `remainder`: its sign is neither that of the divisor nor of the dividend."""
    return b(Sub, x, b(Mul, y, b(Round, b(Div, x, y))))


@layer("UnaryOp")
def unary(at: Layer) -> Value:
    number = at.integer(0)
    if not 0 <= number < len(_UNARY):
        message = f"there is no operation {number}"
        raise UnsupportedError(message)
    return kernel(at.b, _UNARY[number], at.x)


@layer("Eltwise")
def eltwise(at: Layer) -> Value:
    """Products, sums with factors, or maxima of any number of blobs."""
    b = at.b
    match at.integer(0):
        case 0:
            return reduce(lambda x, y: b(Mul, x, y), at.inputs)
        case 1:
            factors = at.array(1) or (1.0,) * len(at.inputs)
            terms = [x if f == 1 else b(Mul, x, b.like(x, f)) for x, f in zip(at.inputs, factors, strict=True)]
            return reduce(lambda x, y: b(Add, x, y), terms)
        case 2:
            return b(Max, *at.inputs)
        case other:
            message = f"there is no operation {other}"
            raise UnsupportedError(message)


def _line(at: Layer, scale: int, shift: int) -> Value:
    """`x * scale + shift`."""
    b, x = at.b, at.x
    factor, offset = at.real(scale, 1.0), at.real(shift)
    x = x if factor == 1 else b(Mul, x, b.like(x, factor))
    return x if offset == 0 else b(Add, x, b.like(x, offset))


@layer("Power")
def power(at: Layer) -> Value:
    line, exponent = _line(at, 1, 2), at.real(0, 1.0)
    return line if exponent == 1 else at.b(Pow, line, at.b.like(line, exponent))


@layer("Exp")
def exp(at: Layer) -> Value:
    line, base = _line(at, 1, 2), at.real(0, -1.0)
    return at.b(Exp, line) if base == -1 else at.b(Pow, at.b.like(line, base), line)


@layer("Log")
def log(at: Layer) -> Value:
    found, base = at.b(Log, _line(at, 1, 2)), at.real(0, -1.0)
    return found if base == -1 else at.b(Div, found, at.b(Log, at.b.like(found, base)))


ROWS.lower("""
AbsVal(x) -> Abs(x)
Erf(x) <-> Erf(x)
# Element types and packing are matters of ncnn's memory: the numbers are the same.
Cast, DeepCopy, Packing(x) -> x
""")


@layer("Scale")
def scale(at: Layer) -> Value:
    """A factor for each channel, from a weight or a second blob."""
    b, rank = at.b, at.rank
    count = at.integer(0)
    if count == NONE:
        (factor,) = aligned(b, at.inputs[1], at.x)[:1]
        return b(Mul, at.x, factor)
    shape = [count, *[1] * (rank - 1)]
    y = b(Mul, at.x, at.weight(0, shape))
    return b(Add, y, at.weight(1, shape)) if at.integer(1) else y


@layer("Bias")
def bias(at: Layer) -> Value:
    """One number for each channel; vectors and matrices are one channel."""
    bias = at.weight(0, [at.integer(0)])
    if at.rank < 3:
        return at.b(Add, at.x, at.b(Slice, bias, vector(at.b, [0]), vector(at.b, [1])))
    return at.b(Add, at.x, at.weight(0, [at.integer(0), *[1] * (at.rank - 1)]))


@layer("Split")
def split(at: Layer) -> Sequence[Value]:
    return (at.x,) * at.b.count


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


ROWS.lift("""
Floor -> UnaryOp(x, p0=2)
Ceil -> UnaryOp(x, p0=3)
Sqrt -> UnaryOp(x, p0=5)
Exp -> UnaryOp(input, p0=7)
Log -> UnaryOp(input, p0=8)
Sin -> UnaryOp(input, p0=9)
Cos -> UnaryOp(input, p0=10)
Tan -> UnaryOp(input, p0=11)
Asin -> UnaryOp(input, p0=12)
Acos -> UnaryOp(input, p0=13)
Atan -> UnaryOp(input, p0=14)
Reciprocal -> UnaryOp(x, p0=15)
Round -> UnaryOp(x, p0=18)
Sinh -> UnaryOp(input, p0=22)
Asinh -> UnaryOp(input, p0=23)
Cosh -> UnaryOp(input, p0=24)
Acosh -> UnaryOp(input, p0=25)
Atanh -> UnaryOp(input, p0=26)
""")


_TIMES = 2
_LARGE = 1e30
"""A number whose square is infinite."""
_SWAPPED = {1: 7, 3: 8, 6: 9}
"""Operations with operands in the other order."""


def both(b: Builder, number: int, x: Value, y: Value) -> Value:
    """A layer of two blobs, of which one may be a number."""
    x, y = real(b, x), real(b, y)
    first, second = _number(x), _number(y)
    if second is not None and folded(x) is None:
        return emitted(b, "BinaryOp", x, p0=number, p1=1, p2=second)
    if first is not None and folded(y) is None:
        return emitted(b, "BinaryOp", y, p0=_SWAPPED.get(number, number), p1=1, p2=first)
    fact = TensorFact(DType.FLOAT32, broadcast(b.dims(x), b.dims(y)))
    blobs, batch = joining(b, x, y)
    return settled(b, emitted(b, "BinaryOp", *blobs, fact=fact, p0=number), batch)


def _number(x: Value) -> float | None:
    """The one number of a constant, if a layer can have it in its text."""
    storage = folded(x)
    number = None if storage is None or storage.count != 1 else float(storage.numpy().reshape(-1)[0])
    return number if number is not None and isfinite(number) else None


def infinite(b: Builder, truth: Value, sign: int = 1) -> Value:
    """Infinity for 1, and 0 for 0; ncnn's logarithm and quotient of 0 are no numbers."""
    large = emitted(b, "BinaryOp", truth, p0=_TIMES, p1=1, p2=sign * _LARGE)
    return emitted(b, "BinaryOp", large, p0=_TIMES, p1=1, p2=_LARGE)


def floating(x: Value) -> Value:
    """A value of real numbers.

    Raises:
        UnsupportedError: it has integers.
    """
    dtype = dtype_in(x)
    if dtype is not None and not dtype.is_floating:
        message = f"{x.name} is {x.fact}: of integers this is not what blobs of real numbers give"
        raise UnsupportedError(message)
    return x


@Identity.lift("ncnn")
def lift_identity(b: Builder, input: Value) -> Value:
    laid(b, input)
    return emitted(b, "Noop", input)


@Mean.lift("ncnn")
def lift_mean(b: Builder, *operands: Value) -> Value:
    total = reduce(lambda x, y: both(b, 0, x, y), operands)
    return emitted(b, "BinaryOp", total, p0=2, p1=1, p2=1 / len(operands))
