"""Export of integer arithmetic to ncnn, whose blobs are float: each type wraps around at its width."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.ncnn.rules.arithmetic import floating
from graphport.formats.ncnn.rules.emitting import emitted, refuse_constants
from graphport.formats.ncnn.rules.functions import binary_with_constant, both, unary
from graphport.formats.ncnn.rules.generate import float_size
from graphport.formats.ncnn.rules.integers import (
    LIMIT,
    NARROW,
    copy_integer_range,
    counted,
    has_float_blob,
    has_unexported_producer,
    is_bits,
    max_magnitude,
    range_of,
    span_of,
    spanned,
    to_float_blob,
)
from graphport.formats.ncnn.rules.rule_table import RULES
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Cast, Min, Mod, Mul, Neg, Sign, Sub
from graphport.ops.definitions.comparison import GreaterOrEqual

_MOST_DIVIDED = 1 << 20
Span = tuple[int, int]


def _is_of_integers(x: Value) -> bool:
    dtype = x.dtype
    return dtype is not None and not dtype.is_floating


def _typed(y: Value, dtype: DType | None) -> Value:
    y.fact = TensorFact(dtype, y.shape)
    return y


def _wrap_integers(b: Builder, y: Value, dtype: DType, span: Span) -> Value:
    """Wrap integers of an element type if the elements of `y` may exceed its range (`span`).

    Raises:
        UnsupportedError: float32 cannot represent the intermediate values.
    """
    low, high = range_of(dtype)
    if low <= span[0] and span[1] <= high:
        return spanned(_typed(y, dtype), *span)
    if dtype.bits > NARROW:
        message = f"integers from {span[0]} to {span[1]} wrap around in {dtype}, and float32 blobs do not wrap"
        raise UnsupportedError(message, help="use int32 or int64")
    width = float(1 << dtype.bits)
    shifted = binary_with_constant(b, "add", y, float(-low)) if low else y
    # A product with a power of two is exact.
    turns = unary(b, "floor", binary_with_constant(b, "mul", shifted, 1 / width))
    found = both(b, "sub", y, binary_with_constant(b, "mul", turns, width))
    return spanned(_typed(found, dtype), low, high)


# ── one operand ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _emit_unary_integer(name: str, spanning: Callable[[Span], Span], b: Builder, x: Value) -> Value:
    y, dtype, span = unary(b, name, x), x.dtype, span_of(x)
    if dtype is None or not dtype.is_integer:
        return y
    return counted(_typed(y, dtype)) if span is None else _wrap_integers(b, y, dtype, spanning(span))


Abs.export_rule("ncnn")(partial(_emit_unary_integer, "abs", lambda span: (0, max(-span[0], span[1]))))
Neg.export_rule("ncnn")(partial(_emit_unary_integer, "neg", lambda span: (-span[1], -span[0])))
Sign.export_rule("ncnn")(partial(_emit_unary_integer, "sign", lambda _: (-1, 1)))


# ── two ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _exact(b: Builder, name: str, x: Value, y: Value) -> Value:
    """Emit a binary function as `both` does; check that float32 represents integer results exactly, and wrap them.

    Raises:
        UnsupportedError: a result may exceed the integers that float32 represents.
    """
    dtype = x.dtype
    if dtype is None or not _is_of_integers(x):
        return both(b, name, x, y)
    if name == "div":
        return _divided(b, x, y, dtype)
    first, second = span_of(x), span_of(y)
    span = None if first is None or second is None else _spans(name, first, second)
    if span is None or max(-span[0], span[1]) >= LIMIT:
        message = f"integer arithmetic may exceed {LIMIT}, the largest range that float32 blobs represent exactly"
        raise UnsupportedError(message, is_secondary=has_unexported_producer(x) or has_unexported_producer(y))
    return _wrap_integers(b, both(b, name, x, y), dtype, span)


def _spans(name: str, x: Span, y: Span) -> Span:
    match name:
        case "add":
            return x[0] + y[0], x[1] + y[1]
        case "sub":
            return x[0] - y[1], x[1] - y[0]
        case "mul":
            products = [p * q for p in x for q in y]
            return min(products), max(products)
        case "maximum":
            return max(x[0], y[0]), max(x[1], y[1])
        case _:
            return min(x[0], y[0]), min(x[1], y[1])


def _divided(b: Builder, x: Value, y: Value, dtype: DType) -> Value:
    """Divide and truncate towards zero."""
    x = to_float_blob(b, x)
    signs = unary(b, "sign", x)
    found = both(b, "mul", signs, _quotient(b, emitted(b, "AbsVal", x), y, max_magnitude(x)))
    return spanned(_typed(found, dtype), *(span_of(x) or range_of(dtype)))


def _quotient(b: Builder, x: Value, y: Value, size: int) -> Value:
    """Floor division. Layers may multiply by a reciprocal, so the dividend is increased by one half.

    Raises:
        UnsupportedError: the divisor is not a positive constant, or the dividend may be too large.
    """
    storage = folded(y)
    divisor = 0 if storage is None or storage.count != 1 else int(storage.numpy().reshape(-1)[0])
    if divisor < 1 or not 0 < size < _MOST_DIVIDED:
        message = f"integer division requires a constant positive divisor and dividends below {_MOST_DIVIDED}"
        raise UnsupportedError(message)
    plus_half = binary_with_constant(b, "add", x, 0.5)
    return unary(b, "floor", binary_with_constant(b, "div", plus_half, float(divisor)))


@Mod.export_rule("ncnn")
def export_mod(b: Builder, a: Value, b_: Value, *, fmod: int = 0) -> Value:
    """Export Mod: of floats with the sign of the dividend (`fmod`), of integers by floor division."""
    dtype = a.dtype
    if fmod:
        return _without_divisor(b, both(b, "fmod", floating(a), floating(b_)), floating(b_))
    if dtype is None or dtype.is_floating:
        message = "ncnn supports the float remainder with the sign of the dividend only; expected fmod=1"
        raise UnsupportedError(message)
    a = to_float_blob(b, a)
    whole = _quotient(b, a, b_, max_magnitude(a))
    found = both(b, "sub", a, both(b, "mul", whole, b_))
    return spanned(_typed(found, dtype), 0, max_magnitude(b_) - 1)


def _without_divisor(b: Builder, remainder: Value, divisor: Value) -> Value:
    """Correct ncnn's `fmod`, which for rows of few elements may return the divisor instead of 0."""
    sizes = b(Abs, remainder), b(Abs, divisor)
    is_whole = b(Cast, b(GreaterOrEqual, *sizes), to=DType.FLOAT32)
    return b(Sub, remainder, b(Mul, b(Mul, b(Sign, remainder), b(Min, *sizes)), is_whole))


# ── other types ───────────────────────────────────────────────────────────────────────────────────────────────────────

_FEWEST_BITS = 16
"""Minimum mantissa bits of blobs in 16-bit modes."""


@Cast.export_rule("ncnn")
def export_cast(b: Builder, input: Value, *, to: DType, **attributes: Any) -> Value:
    """Export Cast: blobs are float; float16 is supported, 8-bit floats are not.

    Integers are floats without a fraction, and true is 1.

    Raises:
        UnsupportedError: the target type has fewer bits than a blob.
    """
    del attributes
    refuse_constants(input)
    source = input.dtype
    if to.is_floating:
        if to.bits < _FEWEST_BITS:
            message = f"cast of {input.name} to {to}: ncnn has no blobs of this type"
            raise UnsupportedError(message)
        size = None if has_float_blob(input) else float_size(b, input, TensorFact(to, b.outcome.dims))
        return emitted(b, "Noop", to_float_blob(b, input)) if size is None else size
    if to is DType.BOOL:
        return _is_true(b, input)
    if not to.is_integer or source is None:
        message = f"cast of {input.name} to {to}: ncnn has no blobs of this type"
        raise UnsupportedError(message)
    if not source.is_floating:
        return _of_integers(b, input, source, to)
    if to.bits <= NARROW:
        message = f"cast to {to}: ncnn cannot truncate values to {to.bits} bits"
        raise UnsupportedError(message)
    return counted(_typed(unary(b, "trunc", input), to))


def _of_integers(b: Builder, x: Value, source: DType, to: DType) -> Value:
    """Convert integers to another type; unbounded integers only to types that contain all of them."""
    span = span_of(x)
    if span is not None and not (is_bits(x) and source is to):
        return _wrap_integers(b, emitted(b, "Noop", to_float_blob(b, x)), to, span)
    if to.bits <= NARROW:
        message = f"cast to {to}: ncnn cannot truncate integers to {to.bits} bits"
        raise UnsupportedError(message)
    if source.kind == "i" and to.kind == "u":
        message = f"negative integers wrap around in {to}, and float32 blobs do not wrap"
        raise UnsupportedError(message, help="use int32 or int64")
    if is_bits(x):
        return _typed(emitted(b, "Noop", x), to)
    x = to_float_blob(b, x)
    y = _typed(emitted(b, "Noop", x), to)
    copy_integer_range(y, x)
    return y


def _is_true(b: Builder, x: Value) -> Value:
    """Return 1 for nonzero elements, including NaN, which compares false."""
    if x.dtype is DType.BOOL:
        return emitted(b, "Noop", x)
    size = emitted(b, "AbsVal", to_float_blob(b, x))
    y = emitted(b, "Threshold", size, p0=0.0)
    source = x.dtype
    if source is None or source.is_floating:
        is_number = emitted(b, "Threshold", size, p0=-1.0)
        y = both(b, "maximum", y, binary_with_constant(b, "-sub", is_number, 1.0))
    y.fact = TensorFact(DType.BOOL, b.dims(y))
    return y


def _chained(b: Builder, name: str, *operands: Value) -> Value:
    """Chain a binary layer over the operands."""
    if len(operands) == 1:
        return emitted(b, "Noop", operands[0])
    return reduce(partial(_exact, b, name), operands)


RULES.having(exact=_chained).export_rules("""
Add -> exact("add", a, b)
Sub -> exact("sub", a, b)
Mul -> exact("mul", a, b)
Div -> exact("div", a, b)
Max -> exact("maximum", *data_0)
Min -> exact("minimum", *data_0)
Sum -> exact("add", *data_0)
""")
