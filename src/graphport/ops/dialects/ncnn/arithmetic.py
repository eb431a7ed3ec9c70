"""Arithmetic of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from graphport.core.dims import Dim, settle_equal
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.dialects.ncnn.binding import (
    NONE,
    Layer,
    emitted,
    laid,
    layer,
)
from graphport.ops.dialects.ncnn.functions import BINARY, UNARY, both, by_number
from graphport.ops.dialects.ncnn.integers import dtype_in
from graphport.ops.dialects.ncnn.rows import ROWS
from graphport.ops.dialects.torch_functions import vector
from graphport.ops.dialects.torch_promotion import kernel
from graphport.ops.pages.arithmetic import (
    Add,
    Div,
    Max,
    Mean,
    Mul,
    Round,
    Sub,
)
from graphport.ops.pages.indexing import Slice
from graphport.ops.pages.reshape import Identity, Unsqueeze


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
    name = at.choice(0, BINARY, "operation")
    if at.integer(1):
        operands = [at.x, at.b.like(at.x, at.real(2))]
    elif len(at.inputs) == 2:
        operands = aligned(at.b, *at.inputs)
    else:
        message = f"{len(at.inputs)} operands, 2 are needed"
        raise ShapeError(message)
    operands = operands[::-1] if name.startswith("-") else operands
    return _rest(at.b, *operands) if name.endswith("remainder") else kernel(at.b, name.removeprefix("-"), *operands)


def _rest(b: Builder, x: Value, y: Value) -> Value:
    """`x - y round(x / y)`, as C's `remainder`: its sign is neither that of the divisor nor of the dividend."""
    return b(Sub, x, b(Mul, y, b(Round, b(Div, x, y))))


@layer("UnaryOp")
def unary(at: Layer) -> Value:
    return kernel(at.b, at.choice(0, UNARY, "operation"), at.x)


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


def _line(b: Builder, x: Value, scale: float, shift: float) -> Value:
    """`x * scale + shift`."""
    x = x if scale == 1 else b(Mul, x, b.like(x, scale))
    return x if shift == 0 else b(Add, x, b.like(x, shift))


ROWS.having(line=_line).lower("""
Power(x, *, p0=1.0, p1=1.0, p2=0.0)
    -> y = line(x, p1, p2); p0 == 1: y
    -> Pow(y, p0)
Exp(x, *, p0=-1.0, p1=1.0, p2=0.0)
    -> y = line(x, p1, p2); p0 == -1: Exp(y)
    -> Pow(like(y, p0), y)
Log(x, *, p0=-1.0, p1=1.0, p2=0.0)
    -> y = Log(line(x, p1, p2)); p0 == -1: y
    -> Div(y, Log(like(y, p0)))
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
    return by_number(b, "mul", reduce(partial(both, b, "add"), operands), 1 / len(operands))
