"""Arithmetic of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from graphport.core.dims import Dim, settle_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import Page, ShapeError, UnsupportedError, lift
from graphport.ops.dialects.ncnn.binding import (
    NONE,
    Layer,
    emitted,
    folded,
    joining,
    laid,
    layer,
    refuse_constants,
    settled,
)
from graphport.ops.dialects.ncnn.integers import bounded, counted, dtype_in, is_bits, is_left, kept, most, real
from graphport.ops.dialects.torch_functions import vector
from graphport.ops.dialects.torch_promotion import kernel
from graphport.ops.pages.arithmetic import (
    Abs,
    Acos,
    Acosh,
    Add,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Cast,
    Ceil,
    Cos,
    Cosh,
    Div,
    Erf,
    Exp,
    Floor,
    Log,
    Max,
    Mean,
    Min,
    Mod,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Sub,
    Sum,
    Tan,
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


@layer("AbsVal")
def absolute(at: Layer) -> Value:
    return at.b(Abs, at.x)


@layer("Erf")
def erf(at: Layer) -> Value:
    return at.b(Erf, at.x)


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


@layer("Cast", "DeepCopy", "Packing")
def same(at: Layer) -> Value:
    """Element types and packing are matters of ncnn's memory: the numbers are the same."""
    return at.x


@layer("Split")
def split(at: Layer) -> Sequence[Value]:
    return (at.x,) * at.b.count


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _register_unary() -> None:
    pages = {
        Abs: 0,
        Neg: 1,
        Floor: 2,
        Ceil: 3,
        Sqrt: 5,
        Exp: 7,
        Log: 8,
        Sin: 9,
        Cos: 10,
        Tan: 11,
        Asin: 12,
        Acos: 13,
        Atan: 14,
        Reciprocal: 15,
        Round: 18,
        Sign: 20,
        Sinh: 22,
        Asinh: 23,
        Cosh: 24,
        Acosh: 25,
        Atanh: 26,
    }
    for page, number in pages.items():
        _register_one(page, number)


def _register_one(page: Page, number: int) -> None:
    @lift("ncnn", page.name)
    def lifted(b: Builder, x: Value) -> Value:
        y = emitted(b, "UnaryOp", x, p0=number)
        kept(y, x)
        return y


def _register_binary() -> None:
    for page, number in ((Add, 0), (Sub, 1), (Mul, 2), (Div, 3)):
        _register_two(page, number)
    for page, number in ((Max, 4), (Min, 5), (Sum, 0)):
        _register_many(page, number)


def _register_two(page: Page, number: int) -> None:
    @lift("ncnn", page.name)
    def lifted(b: Builder, x: Value, y: Value) -> Value:
        return _exact(b, number, x, y)


def _register_many(page: Page, number: int) -> None:
    @lift("ncnn", page.name)
    def lifted(b: Builder, *operands: Value) -> Value:
        if len(operands) == 1:
            return emitted(b, "Noop", operands[0])
        return reduce(lambda x, y: _exact(b, number, x, y), operands)


def _exact(b: Builder, number: int, x: Value, y: Value) -> Value:
    """As `both`; of integers, if single precision has the result."""
    dtype = dtype_in(x)
    if dtype is None or dtype.is_floating:
        return both(b, number, x, y)
    if number == _OVER:
        return _divided(b, x, y, dtype)
    sizes = most(x), most(y)
    size = bounded(
        "arithmetic",
        sizes[0] * sizes[1] if number == _TIMES else sum(sizes) if all(sizes) else 0,
        is_secondary=is_left(x) or is_left(y),
    )
    found = both(b, number, x, y)
    found.fact = TensorFact(dtype, b.dims(found))
    return counted(found, size)


def _divided(b: Builder, x: Value, y: Value, dtype: DType) -> Value:
    """Towards zero: what is left of the sign is put back."""
    signs = emitted(b, "UnaryOp", x, p0=_SIGN)
    found = both(b, _TIMES, signs, _quotient(b, emitted(b, "AbsVal", x), y, most(x)))
    found.fact = TensorFact(dtype, b.dims(x))
    return counted(found, most(x))


def _quotient(b: Builder, x: Value, y: Value, size: int) -> Value:
    """Rounded towards minus infinity. Layers may multiply by a reciprocal, so what is divided is half a one larger.

    Raises:
        UnsupportedError: it is divided by what is no positive number that is known, or it may be too large for that.
    """
    storage = folded(y)
    divisor = 0 if storage is None or storage.count != 1 else int(storage.numpy().reshape(-1)[0])
    if divisor < 1 or not 0 < size < _MOST_DIVIDED:
        message = f"integers up to {_MOST_DIVIDED} are divided by positive ones that are known"
        raise UnsupportedError(message)
    halved = emitted(b, "BinaryOp", x, p0=0, p1=1, p2=0.5)
    return emitted(b, "UnaryOp", emitted(b, "BinaryOp", halved, p0=_OVER, p1=1, p2=float(divisor)), p0=_FLOOR)


_MOST_DIVIDED = 1 << 20
_CUBE, _MOST_FACTORS = 3, 8
"""Powers that are products: of negative numbers those by logarithms are wrong."""
_TIMES, _OVER = 2, 3
_FLOOR, _TRUNC, _SIGN = 2, 19, 20


_SWAPPED = {1: 7, 3: 8, 6: 9}
"""Operations with operands in the other order."""


def both(b: Builder, number: int, x: Value, y: Value) -> Value:
    """A layer of two blobs, of which one may be a number."""
    x, y = real(b, x), real(b, y)
    first, second = folded(x), folded(y)
    if second is not None and second.count == 1 and first is None:
        return emitted(b, "BinaryOp", x, p0=number, p1=1, p2=float(second.numpy().reshape(-1)[0]))
    if first is not None and first.count == 1 and second is None:
        return emitted(b, "BinaryOp", y, p0=_SWAPPED.get(number, number), p1=1, p2=float(first.numpy().reshape(-1)[0]))
    fact = TensorFact(DType.FLOAT32, broadcast(b.dims(x), b.dims(y)))
    blobs, batch = joining(b, x, y)
    return settled(b, emitted(b, "BinaryOp", *blobs, fact=fact, p0=number), batch)


_register_unary()
_register_binary()


_POWERS = {2.0: 4, 0.5: 5, -1.0: 15}


@Pow.lift("ncnn")
def lift_pow(b: Builder, x: Value, y: Value) -> Value:
    """A power by logarithms, which negative numbers have none of: squares are a function of their own."""
    exponent = folded(y)
    if exponent is not None and exponent.count == 1:
        number = _POWERS.get(float(exponent.numpy().reshape(-1)[0]))
        if number is not None and len(b.dims(y)) <= len(b.dims(x)):
            return emitted(b, "UnaryOp", _floating(x), p0=number)
        power = float(exponent.numpy().reshape(-1)[0])
        if power.is_integer() and _CUBE <= power <= _MOST_FACTORS and len(b.dims(y)) <= len(b.dims(x)):
            return reduce(lambda product, factor: both(b, _TIMES, product, factor), [_floating(x)] * int(power))
    return both(b, 6, _floating(x), _floating(y))


@Mod.lift("ncnn")
def lift_mod(b: Builder, a: Value, b_: Value, *, fmod: int = 0) -> Value:
    """The remainder of a division that rounds towards zero, or of integers towards minus infinity."""
    dtype = dtype_in(a)
    if fmod:
        return both(b, 12, _floating(a), _floating(b_))
    if dtype is None or dtype.is_floating:
        message = "the remainder of reals takes its sign from the dividend (fmod=1)"
        raise UnsupportedError(message)
    a = real(b, a)
    whole = _quotient(b, a, b_, most(a))
    y = both(b, 1, a, both(b, _TIMES, whole, b_))
    y.fact = TensorFact(dtype, b.dims(y))
    return counted(y, most(b_))


def _floating(x: Value) -> Value:
    dtype = dtype_in(x)
    if dtype is not None and not dtype.is_floating:
        message = f"{x.name} is {x.fact}: of integers this is not what blobs of real numbers give"
        raise UnsupportedError(message)
    return x


@Erf.lift("ncnn")
def lift_erf(b: Builder, input: Value) -> Value:
    return emitted(b, "Erf", input)


@Identity.lift("ncnn")
def lift_identity(b: Builder, input: Value) -> Value:
    laid(b, input)
    return emitted(b, "Noop", input)


@Cast.lift("ncnn")
def lift_cast(b: Builder, input: Value, *, to: DType, **attributes: Any) -> Value:
    """Blobs have real numbers: of half precision they may be, too, of eight bits they are not.

    Integers are numbers without a fraction, and truth is 1.

    Raises:
        UnsupportedError: numbers are rounded to fewer bits than blobs can have.
    """
    del attributes
    refuse_constants(input)
    source = dtype_in(input)
    if to.is_floating:
        if to.bits < _FEWEST_BITS:
            message = f"{input.name} is rounded to {to}, which no blob has"
            raise UnsupportedError(message)
        return emitted(b, "Noop", real(b, input))
    if to is DType.BOOL:
        return _is_true(b, input)
    if not to.is_integer or source is None:
        message = f"{input.name} is made {to}, which no blob has"
        raise UnsupportedError(message)
    if not source.is_floating:
        if is_bits(input) and source is not DType.BOOL and min(to.bits, source.bits) >= _INTEGER:
            return emitted(b, "Noop", input)
        x = real(b, input)
        if to.bits < _INTEGER and not 0 < most(x) < 1 << (to.bits - 1):
            message = f"integers are cut to the {to.bits} bits of {to}"
            raise UnsupportedError(message)
        y = emitted(b, "Noop", x)
        y.fact = TensorFact(to, b.dims(y))
        kept(y, x)
        return y
    if to.bits < _INTEGER:
        message = f"numbers are cut to the {to.bits} bits of {to}"
        raise UnsupportedError(message)
    y = emitted(b, "UnaryOp", input, p0=_TRUNC)
    y.fact = TensorFact(to, b.dims(y))
    return counted(y)


_INTEGER = 32


def _is_true(b: Builder, x: Value) -> Value:
    """1 of what is not 0: also of what is no number, which is neither above 0 nor not."""
    if dtype_in(x) is DType.BOOL:
        return emitted(b, "Noop", x)
    size = emitted(b, "AbsVal", real(b, x))
    y = emitted(b, "Threshold", size, p0=0.0)
    source = dtype_in(x)
    if source is None or source.is_floating:
        is_number = emitted(b, "Threshold", size, p0=-1.0)
        y = both(b, 4, y, emitted(b, "BinaryOp", is_number, p0=7, p1=1, p2=1.0))
    y.fact = TensorFact(DType.BOOL, b.dims(y))
    return y


_FEWEST_BITS = 16
"""Of numbers that blobs can have where that is asked for."""


@Mean.lift("ncnn")
def lift_mean(b: Builder, *operands: Value) -> Value:
    total = reduce(lambda x, y: both(b, 0, x, y), operands)
    return emitted(b, "BinaryOp", total, p0=2, p1=1, p2=1 / len(operands))
