"""Quantization operators of NNEF: round real numbers to representable ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Floor, Log, Max, Min, Mul, Pow, Sign, Sub
from graphport.ops.definitions.arithmetic.cast import CastLike
from graphport.ops.definitions.comparison import Less
from graphport.ops.lowering.leading_broadcast import append_axes
from graphport.ops.views.quantization import DequantizeLinearView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _rounded(b: Builder, x: Value) -> Value:
    """Round to the nearest integer, ties upward."""
    return b(Floor, b(Add, x, 0.5))


def _check(bits: int) -> None:
    if not 1 <= bits <= 64:
        message = f"bits is {bits}"
        raise ShapeError(message, "1 to 64")


@lower("nnef", "min_max_linear_quantize")
def min_max_linear_quantize(
    b: Builder, x: Value, min: Value, max: Value, *, bits: int, signed: bool, symmetric: bool
) -> Value:
    """Quantize to equal steps between `min` and `max` (one fewer if signed and symmetric)."""
    _check(bits)
    x, low, high = append_axes(b, x, min, max)
    steps = b.like(x, float(2**bits - 1 - int(signed and symmetric)))
    extent = b(Sub, high, low)
    clamped = b(Max, b(Min, x, high), low)
    codes = _rounded(b, b(Mul, b(Div, b(Sub, clamped, low), extent), steps))
    return b(Add, b(Mul, b(Div, codes, steps), extent), low)


@lower("nnef", "linear_quantize")
def linear_quantize(b: Builder, x: Value, min: Value, max: Value, *, bits: int) -> Value:
    """Quantize to equal steps between `min` and `max`."""
    return min_max_linear_quantize(b, x, min, max, bits=bits, signed=False, symmetric=False)


@lower("nnef", "zero_point_linear_quantize")
def zero_point_linear_quantize(
    b: Builder, x: Value, zero_point: Value, scale: Value, *, bits: int, signed: bool, symmetric: bool
) -> Value:
    """Quantize with `scale` and `zero_point`, saturated to the integer range."""
    _check(bits)
    x, zero_point, scale = append_axes(b, x, zero_point, scale)
    largest = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    smallest = 0 if not signed else -largest if symmetric else -largest - 1
    shift = b(CastLike, zero_point, x)
    codes = b(Add, _rounded(b, b(Div, x, scale)), shift)
    codes = b(Max, b(Min, codes, float(largest)), float(smallest))
    return b(Mul, b(Sub, codes, shift), scale)


@lower("nnef", "logarithmic_quantize")
def logarithmic_quantize(b: Builder, x: Value, max: Value, *, bits: int) -> Value:
    """Quantize to sign(x) * 2^n; the largest power is the first one that is at least `max`."""
    _check(bits)
    x, top = append_axes(b, x, max)
    highest = _next_exponent(b, top)
    lowest = b(Sub, highest, float(2**bits - 1))
    codes = _rounded(b, b(Max, b(Min, _log_2(b, b(Abs, x)), highest), lowest))
    return b(Mul, b(Sign, x), b(Pow, 2.0, codes))


@lower("nnef", "provisional.logarithmic_quantize")
def provisional_logarithmic_quantize(b: Builder, x: Value, max: Value, *, bits: int) -> Value:
    """Quantize to powers of 2: `bits` exponents below the first power that is not less than `max`."""
    _check(bits)
    x, top = append_axes(b, x, max)
    largest = _next_exponent(b, top)
    least = b(Pow, 2.0, b(Sub, largest, float(bits)))
    clamped = b(Max, b(Min, x, b(Pow, 2.0, largest)), least)
    return b(Pow, 2.0, _rounded(b, _log_2(b, b(Div, clamped, least))))


def _log_2(b: Builder, x: Value) -> Value:
    return b(Div, b(Log, x), float(np.log(2.0)))


def _next_exponent(b: Builder, x: Value) -> Value:
    """Return ceil(log2(x)), exact for powers of 2."""
    # Quotients of logarithms are not exact: that of 8192 is above 13.
    nearest = _rounded(b, _log_2(b, x))
    return b(Add, nearest, b(CastLike, b(Less, b(Pow, 2.0, nearest), x), x))


@DequantizeLinearView.export_rule("nnef")
def export_dequantize(b: Builder, op: DequantizeLinearView) -> tuple[Value, ...] | None:
    """Export DequantizeLinear without quantization note (for example blocked) as a decoded constant."""
    numbers = None if b.before is None else folded(b.before.output)
    return None if numbers is None else (b.constant(numbers, name=b.stem),)
