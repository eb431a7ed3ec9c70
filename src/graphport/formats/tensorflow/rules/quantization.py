"""Simulated quantization of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.operands import needed_integer
from graphport.ops.pages.arithmetic import Add, Floor, Max, Min, Mul, Round, Sub
from graphport.ops.pages.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.pages.reshape import Identity

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _nudged(
    low: np.ndarray, high: np.ndarray, num_bits: int, *, narrow_range: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """The scale, the zero point, the least value, and the range of the integers of a range of floats, in float32."""
    least, most = int(narrow_range), (1 << num_bits) - 1
    one = np.float32
    scale = ((high - low) / one(most - least)).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        from_low = (one(least) - low / scale).astype(np.float32)
    rounded = np.where(from_low < least, least, np.where(from_low > most, most, np.floor(from_low + one(0.5))))
    zero = np.where(scale == 0, 0, rounded).astype(np.int64)
    return scale, zero, ((least - zero) * scale).astype(np.float32), least, most


def _constant(value: Value, name: str) -> np.ndarray:
    if value.storage is None:
        message = f"{name} is computed"
        raise UnsupportedError(message)
    return value.storage.numpy().astype(np.float32)


def _faked(
    b: Builder, x: Value, low: np.ndarray, high: np.ndarray, num_bits: int, *, narrow_range: bool, axis: int | None
) -> Value:
    """`x` rounded to integers and back."""
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
    ends = _constant(low, "the range"), _constant(high, "the range")
    axis = len(b.dims(x)) - 1 if ends[0].ndim else None
    return _faked(b, x, *ends, num_bits, narrow_range=narrow_range, axis=axis)


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

    Raises:
        UnsupportedError: the number of bits or the range is computed when the model runs, or is that of an axis.
    """
    num_bits = num_bits if bits is None else needed_integer(bits, "the number of bits")
    if axis != -1 or not range_given or low is None or high is None:
        message = "a range that is measured when the model runs, or that of each channel"
        raise UnsupportedError(message)
    ends = [float(_constant(each, "the range").reshape(-1)[0]) for each in (low, high)]
    least = -(1 << (num_bits - 1)) + int(narrow_range) if signed_input else 0
    most = (1 << (num_bits - int(signed_input))) - 1
    scales = [n / end for n, end in zip((least, most), ends, strict=True) if n * end > 0]
    if not scales:
        return b(Identity, x)
    scale = np.float32(min(scales))
    clipped = b(Min, b(Max, x, b.like(x, least / scale)), b.like(x, most / scale))
    steps = b(Mul, clipped, b.like(x, scale))
    half_up = round_mode == "HALF_UP"
    rounded = b(Floor, b(Add, steps, b.like(x, 0.5))) if half_up else b(Round, steps)
    return b(Mul, rounded, b.like(x, 1 / scale))
