"""Arithmetic of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np

from graphport.core.dims import Dim, settle_equal
from graphport.core.dtypes import DType
from graphport.formats.ncnn.rules.binding import NONE, Layer, layer
from graphport.formats.ncnn.rules.emitting import blob_dims, emitted
from graphport.formats.ncnn.rules.functions import BINARY, UNARY, binary_with_constant, both, infinite, unary
from graphport.formats.ncnn.rules.rule_table import RULES
from graphport.formats.pytorch.rules.promotion import kernel
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import (
    Abs,
    Add,
    Cast,
    Div,
    Floor,
    Max,
    Mean,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Round,
    Sign,
    Sqrt,
    Sub,
)
from graphport.ops.definitions.comparison import Greater
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.reshape import Identity, Unsqueeze


def aligned(b: Builder, *blobs: Value) -> list[Value]:
    """Unsqueeze blobs to the maximum rank: a vector is along the channels if its length equals their number."""
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
    return b(Unsqueeze, blob, list(range(first, first + missing)))


@layer("BinaryOp")
def binary_op(at: Layer) -> Value:
    name = at.choice(0, BINARY, "operation")
    if at.integer(1):
        operands = [at.x, at.b.like(at.x, at.float_value(2))]
    elif len(at.inputs) == 2:
        operands = aligned(at.b, *at.inputs)
    else:
        message = f"{len(at.inputs)} operands, 2 expected"
        raise ShapeError(message)
    operands = operands[::-1] if name.startswith("-") else operands
    return (
        _emit_remainder(at.b, *operands)
        if name.endswith("remainder")
        else kernel(at.b, name.removeprefix("-"), *operands)
    )


def _emit_remainder(b: Builder, x: Value, y: Value) -> Value:
    """Compute `x - y * round(x / y)`, like C's `remainder`."""
    return b(Sub, x, b(Mul, y, b(Round, b(Div, x, y))))


@layer("UnaryOp")
def unary_op(at: Layer) -> Value:
    return kernel(at.b, at.choice(0, UNARY, "operation"), at.x)


@layer("Eltwise")
def eltwise(at: Layer) -> Value:
    """Eltwise: product, sum with coefficients, or maximum of the operands, by parameter 0."""
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
            message = f"unsupported op_type {other}"
            raise UnsupportedError(message)


def _line(b: Builder, x: Value, scale: float, shift: float) -> Value:
    """Compute `x * scale + shift`; omit a factor of 1 and a shift of 0."""
    x = x if scale == 1 else b(Mul, x, scale)
    return x if shift == 0 else b(Add, x, shift)


RULES.having(line=_line).lower("""
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
    """Scale: multiply by a factor per channel, from a weight or the second blob; optionally add a bias weight."""
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
    """Bias: add one number per channel; vectors and matrices have a single channel."""
    bias = at.weight(0, [at.integer(0)])
    if at.rank < 3:
        return at.b(Add, at.x, at.b(Slice, bias, [0], [1]))
    return at.b(Add, at.x, at.weight(0, [at.integer(0), *[1] * (at.rank - 1)]))


@layer("Split")
def split(at: Layer) -> Sequence[Value]:
    return (at.x,) * at.b.count


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


RULES.export_rules("""
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
    """Return `x` after a check that it has a float type.

    Raises:
        UnsupportedError: it has integers.
    """
    dtype = x.dtype
    if dtype is not None and not dtype.is_floating:
        message = f"{x.name} is {x.fact}: ncnn computes floats, and the integer result would differ"
        raise UnsupportedError(message)
    return x


@Identity.export_rule("ncnn")
def export_identity(b: Builder, input: Value) -> Value:
    blob_dims(b, input)
    return emitted(b, "Noop", input)


@Mean.export_rule("ncnn")
def export_mean(b: Builder, *operands: Value) -> Value:
    return binary_with_constant(b, "mul", reduce(partial(both, b, "add"), operands), 1 / len(operands))


# Powers, of which ncnn's own go by logarithms: those are right above 0 alone.

_TINY = float(np.finfo(np.float32).tiny)
"""The least number that has a logarithm there."""
_MOST_FACTORS = 1 << 24
"""Maximum exponent that is computed by multiplication: larger ones are even and give 0 or infinity for nearly all
bases.
"""


@Pow.export_rule("ncnn")
def export_pow(b: Builder, x: Value, y: Value) -> Value:
    """Export Pow: small constant multiples of 1/2 by products and square roots, other exponents by ncnn's `pow`."""
    base, exponent = folded(floating(x)), folded(y)
    if exponent is not None and exponent.count == 1 and len(b.dims(y)) <= len(b.dims(x)):
        return _emit_power_by_constant(b, x, float(exponent.numpy().reshape(-1)[0]))
    if base is not None and bool((base.numpy() > 0).all()):
        return both(b, "pow", x, floating(y))
    return _emit_elementwise_power(b, x, floating(y))


def _emit_power_by_constant(b: Builder, x: Value, exponent: float) -> Value:
    size = abs(exponent)
    if exponent < 0:
        return b(Reciprocal, _emit_power_by_constant(b, x, size))
    if not (2 * size).is_integer() or size > _MOST_FACTORS:
        return _by_logarithm(b, x, size)
    y = _multiplied(b, x, int(size))
    if not size.is_integer():
        y = b(Sqrt, x) if size < 1 else b(Mul, y, b(Sqrt, x))
    return y


def _multiplied(b: Builder, x: Value, count: int) -> Value:
    """Compute x**count by repeated squaring."""
    if not count:
        return emitted(b, "Clip", x, p0=1.0, p1=1.0)
    found, square = None, x
    while count:
        if count & 1:
            found = square if found is None else b(Mul, found, square)
        count >>= 1
        square = unary(b, "square", square) if count else square
    return emitted(b, "Noop", x) if found is None or found is x else found


def _by_logarithm(b: Builder, x: Value, exponent: float) -> Value:
    """Compute x**exponent for an exponent above 0 by ncnn's `pow`; 0 for x = 0, NaN for x < 0."""
    power = both(b, "pow", b(Max, x, _TINY), b.like(x, exponent))
    return b(Mul, power, b(Sqrt, b(Sign, x)))


def _emit_elementwise_power(b: Builder, x: Value, y: Value) -> Value:
    """Compute x**y per element from |x|**y, with a sign for odd y, and NaN for negative x with fractional y."""
    for operand in (x, y):
        # Constants without a blob are rejected before twenty layers are created.
        if folded(operand) is None:
            blob_dims(b, operand)
    size, below = b(Abs, x), _above(b, b(Neg, x))
    is_zero = _one_minus(b, _above(b, size))
    is_part = _above(b, _fraction(b, y))
    is_odd = b(Mul, _above(b, _fraction(b, b(Mul, y, 0.5))), _one_minus(b, is_part))
    power = both(b, "pow", b(Max, size, _TINY), y)
    power = b(Mul, power, _one_minus(b, b(Mul, is_zero, _above(b, y))))
    power = b(Add, power, infinite(b, b(Mul, is_zero, _above(b, b(Neg, y)))))
    signed = b(Mul, power, _one_minus(b, b(Mul, below, is_odd), 2.0))
    return b(Mul, signed, b(Sqrt, _one_minus(b, b(Mul, below, is_part), 2.0)))


def _above(b: Builder, x: Value) -> Value:
    """Return 1 for elements above 0, else 0."""
    return b(Cast, b(Greater, x, 0.0), to=DType.FLOAT32)


def _fraction(b: Builder, x: Value) -> Value:
    """Return the fractional part."""
    return b(Sub, x, b(Floor, x))


def _one_minus(b: Builder, x: Value, factor: float = 1.0) -> Value:
    """Compute `1 - factor * x`."""
    return b(Sub, b.like(x, 1.0), x if factor == 1 else b(Mul, x, factor))
