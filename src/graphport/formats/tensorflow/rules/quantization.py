"""Simulated quantization of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Floor, Max, Min, Mul, Round, Sub
from graphport.ops.definitions.comparison import Greater, Less, Where
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.definitions.reduction import ReduceMax, ReduceMin
from graphport.ops.lowering.operands import cast, dtype_of, needed_integer, reshaped, round_half_away, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _nudged(
    low: np.ndarray, high: np.ndarray, num_bits: int, *, narrow_range: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Return scale, zero point, lowest float and integer range of a float range moved so that 0 is an integer."""
    least, most = int(narrow_range), (1 << num_bits) - 1
    one = np.float32
    scale = ((high - low) / one(most - least)).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        from_low = (one(least) - low / scale).astype(np.float32)
    rounded = np.where(from_low < least, least, np.where(from_low > most, most, np.floor(from_low + one(0.5))))
    zero = np.where(scale == 0, 0, rounded).astype(np.int64)
    return scale, zero, ((least - zero) * scale).astype(np.float32), least, most


def _constant(value: Value, name: str) -> np.ndarray:
    storage = folded(value)
    if storage is None:
        message = f"{name} is computed"
        raise UnsupportedError(message)
    return storage.numpy().astype(np.float32)


def _faked(
    b: Builder, x: Value, low: np.ndarray, high: np.ndarray, num_bits: int, *, narrow_range: bool, axis: int | None
) -> Value:
    """Quantize `x` to the integer range and dequantize it."""
    scale, zero, first, least, most = _nudged(low, high, num_bits, narrow_range=narrow_range)
    last = ((most - zero) * scale).astype(np.float32)
    clipped = b(Min, b(Max, x, b.constant(first)), b.constant(last))
    if num_bits == 8 and bool((scale > 0).all()) and least == 0:
        parameters = b.constant(scale), b.constant(zero.astype(np.uint8), DType.UINT8)
        return b(DequantizeLinear, b(QuantizeLinear, clipped, *parameters, axis=axis), *parameters, axis=axis)
    with np.errstate(divide="ignore"):
        inverse = np.where(scale == 0, 0, np.float32(1) / scale).astype(np.float32)
    steps = b(Floor, b(Add, b(Mul, b(Sub, clipped, b.constant(first)), b.constant(inverse)), b.like(x, 0.5)))
    return b(Add, b(Mul, steps, b.constant(scale)), b.constant(first))


@operator("FakeQuantWithMinMaxArgs")
def fake_quant_args(
    b: Builder, x: Value, *, min: float = -6.0, max: float = 6.0, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """`x` rounded to integers of the range from `min` to `max`, and back."""
    low, high = np.array(min, np.float32), np.array(max, np.float32)
    return _faked(b, x, low, high, num_bits, narrow_range=narrow_range, axis=None)


@operator("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_vars(
    b: Builder, x: Value, low: Value, high: Value, *, num_bits: int = 8, narrow_range: bool = False
) -> Value:
    """`x` rounded to integers of a range, for all elements or for each of the last axis, and back."""
    if folded(low) is None or folded(high) is None:
        scale, inverse, first, last = _nudge(b, low, high, num_bits, narrow_range=narrow_range)
        clipped = b(Min, b(Max, x, first), last)
        steps = b(Floor, b(Add, b(Mul, b(Sub, clipped, first), inverse), b.like(x, 0.5)))
        return b(Add, b(Mul, steps, scale), first)
    ends = _constant(low, "the range"), _constant(high, "the range")
    axis = len(b.dims(x)) - 1 if ends[0].ndim else None
    return _faked(b, x, *ends, num_bits, narrow_range=narrow_range, axis=axis)


def _nudge(
    b: Builder, low: Value, high: Value, num_bits: int, *, narrow_range: bool
) -> tuple[Value, Value, Value, Value]:
    """The scale, its inverse, and the least and the largest value of a range that is computed; see `_nudged`."""
    least, most = (b.like(low, n) for n in (int(narrow_range), (1 << num_bits) - 1))
    scale = b(Div, b(Sub, high, low), b(Sub, most, least))
    inverse = b(Div, b.like(low, 1), scale)
    start = b(Floor, b(Add, b(Sub, least, b(Div, low, scale)), b.like(low, 0.5)))
    zero = b(Min, b(Max, start, least), most)
    return scale, inverse, b(Mul, b(Sub, least, zero), scale), b(Mul, b(Sub, most, zero), scale)


@operator("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def quantize_and_dequantize(
    b: Builder,
    x: Value,
    low: Value | None = None,
    high: Value | None = None,
    bits: Value | None = None,
    *,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    narrow_range: bool = False,
    axis: int = -1,
) -> Value:
    """`x` rounded to integers with a symmetric scale, and back.

    If `range_given` is false, the range is the minimum and maximum of `x`, per index of `axis` unless it is -1.

    Raises:
        UnsupportedError: the number of bits is computed when the model runs.

    Source: tensorflow/core/kernels/quantize_and_dequantize_op.h.
    """
    num_bits = num_bits if bits is None else needed_integer(bits, "the number of bits")
    rank = len(b.dims(x))
    axes = [i for i in range(rank) if axis == -1 or i != axis]
    if not range_given or low is None or high is None:
        low, high = (b(reduce, x, vector(b, axes)) for reduce in (ReduceMin, ReduceMax))
    elif axis != -1:
        low, high = (reshaped(b, each, [1 if i in axes else -1 for i in range(rank)]) for each in (low, high))
    least = -(1 << (num_bits - 1)) + int(narrow_range) if signed_input else 0
    most = (1 << (num_bits - int(signed_input))) - 1
    largest = b.like(x, float(np.finfo(dtype_of(x).numpy).max))
    zero, ends = b.like(x, 0), (b.like(x, least), b.like(x, most))
    scales = [
        b(Where, b(Greater, b(Mul, end, n), zero), b(Div, n, end), largest)
        for end, n in zip((low, high), ends, strict=True)
    ]
    inverse = b(Div, high, ends[1])
    if least:
        inverse = b(Where, b(Less, *scales), b(Div, low, ends[0]), inverse)
    if range_given:
        x = b(Min, b(Max, x, b(Mul, ends[0], inverse)), b(Mul, ends[1], inverse))
    steps = b(Mul, x, b(Min, *scales))
    rounded = b(Floor, b(Add, steps, b.like(x, 0.5))) if round_mode == "HALF_UP" else b(Round, steps)
    return b(Mul, rounded, inverse)


_QUANTIZED = (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16, DType.INT32)
_QUANTIZE_MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


def _ends(dtype: DType) -> tuple[int, int]:
    """The least and the largest integer of a quantized type.

    Raises:
        UnsupportedError: it is none.
    """
    if dtype not in _QUANTIZED:
        message = f"quantization to {dtype}"
        raise UnsupportedError(message)
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def _range(low: Value, high: Value) -> tuple[float, float]:
    """The ends of the range of a tensor.

    Raises:
        UnsupportedError: they are computed, or each channel has its own.
    """
    ends = [_constant(each, "the range").reshape(-1) for each in (low, high)]
    if any(each.size != 1 for each in ends):
        message = "a per-channel range"
        raise UnsupportedError(message)
    return float(ends[0][0]), float(ends[1][0])


def _check_mode(mode: str) -> None:
    if mode not in _QUANTIZE_MODES:
        message = f"mode is {mode!r}"
        raise ShapeError(message, f"use {', '.join(_QUANTIZE_MODES)}")


@operator("QuantizeV2")
def quantize(
    b: Builder,
    x: Value,
    low: Value,
    high: Value,
    *,
    T: DType,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    ensure_minimum_range: float = 0.01,
) -> list[Value]:
    """`x` as integers of a range, and the ends of the range that the integers cover.

    Source: tensorflow/core/kernels/quantize_op.cc.
    """
    _check_mode(mode)
    (least, most), (first, last) = _ends(T), _range(low, high)
    first = min(0.0, first)
    room = max(1.0, abs(first), abs(last)) * ensure_minimum_range
    last = max(0.0, last, first + room)
    if mode == "SCALED":
        least += int(narrow_range)
        sides = [n / end for n, end in zip((least, most), (first, last), strict=True) if n * end > 0]
        scale = min(sides)
        first, last = least / scale, most / scale
        steps = b(Mul, b(Max, b(Min, x, b.like(x, last)), b.like(x, first)), b.like(x, scale))
        rounded = b(Round, steps) if round_mode == "HALF_TO_EVEN" else round_half_away(b, steps)
    elif mode == "MIN_COMBINED":
        clipped = b(Max, b(Min, x, b.like(x, last)), b.like(x, first))
        steps = b(Mul, b(Sub, clipped, b.like(x, first)), b.like(x, (most - least) / (last - first)))
        rounded = round_half_away(b, b(Add, steps, b.like(x, -((most - least + 1) // 2))) if least < 0 else steps)
    else:
        steps = _first_steps(first, last, least, most)
        start = _round_half_away(np.float32(first) * np.float32(steps))
        rounded = b(Add, round_half_away(b, b(Mul, x, b.like(x, steps))), b.like(x, least - start))
        # 2^31 - 1 is not a float32: clip at the largest float32 below.
        top = np.float32(most) if int(np.float32(most)) == most else np.nextafter(np.float32(most), np.float32(0))
        rounded = b(Max, b(Min, rounded, b.like(x, float(top))), b.like(x, least))
    return [cast(b, rounded, T), *(b.constant(np.float32(end)) for end in (first, last))]


def _round_half_away(number: np.float32) -> float:
    """Round a float32 to the nearest integer, ties away from zero."""
    return float(np.trunc(float(number) + float(np.copysign(0.5, number))))


def _first_steps(first: float, last: float, least: int, most: int) -> float:
    """Return the number of integers per unit of the float range (mode MIN_FIRST)."""
    return (most - least) / (last - first)


@operator("Dequantize")
def dequantize(
    b: Builder,
    x: Value,
    low: Value,
    high: Value,
    *,
    mode: str = "MIN_COMBINED",
    narrow_range: bool = False,
    dtype: DType = DType.FLOAT32,
) -> Value:
    """Integers of a range as floats.

    Source: tensorflow/core/kernels/dequantize_op.cc.
    """
    _check_mode(mode)
    (least, most), (first, last) = _ends(dtype_of(x)), _range(low, high)
    numbers = cast(b, x, DType.FLOAT32)
    if mode == "SCALED":
        least += int(narrow_range)
        scale = last / most if least == 0 else max(first / least, last / most)
        return cast(b, b(Mul, numbers, b.like(numbers, scale)), dtype)
    scale = (last - first) / (most - least)
    if mode == "MIN_COMBINED":
        start, offset = first, (most - least + 1) // 2 if least < 0 else 0
    else:
        # TensorFlow computes in float32, where -1 / (2 / 255) is above -127.5.
        scale = float(np.float32(np.float32(last) - np.float32(first)) / np.float64(most - least))
        start, offset = _round_half_away(np.float32(first) / np.float32(scale)) * scale, -least
    shifted = b(Add, numbers, b.like(numbers, offset)) if offset else numbers
    return cast(b, b(Add, b(Mul, shifted, b.like(numbers, scale)), b.like(numbers, start)), dtype)
