"""Quantization operators of exported programs (`quantized_decomposed`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axis_of, named_dtype, scalar_of
from graphport.formats.pytorch.rules.overloads import aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Cast, Div, Max, Min, Mul, Neg, Reciprocal, Round, Sub
from graphport.ops.definitions.comparison import And, Greater, GreaterOrEqual, LessOrEqual, Not, Or, Where
from graphport.ops.definitions.matmul import MatMul, MatMulInteger
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.definitions.reduction import ReduceMax, ReduceMin
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.lowering.operands import dtype_of, vector
from graphport.ops.pattern import constant_numbers

_SPACE = "quantized_decomposed."
_NARROW = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)


def _quantized_dtype(dtype: Any) -> DType:
    found = named_dtype(dtype)
    if found is None:
        message = "unsupported quantized element type"
        raise UnsupportedError(message)
    return found


def _bounds(low: Any, high: Any, dtype: DType) -> tuple[int, int] | None:
    """Return the quantization range if it is smaller than the range of the type, else `None`."""
    info = np.iinfo(dtype.numpy)
    ends = (
        info.min if low is None else int(scalar_of(low)),
        info.max if high is None else int(scalar_of(high)),
    )
    return None if ends == (info.min, info.max) else ends


def _parameters(b: Builder, scale: Any, zero_point: Any, dtype: DType) -> tuple[Value, Value]:
    """Return the scale in float32 and the zero point in the integer type."""
    factor = cast(b, scale, DType.FLOAT32) if isinstance(scale, Value) else b.constant(scalar_of(scale), DType.FLOAT32)
    if isinstance(zero_point, Value):
        return factor, cast(b, zero_point, dtype)
    return factor, b.constant(0 if zero_point is None else int(scalar_of(zero_point)), dtype)


def _quantized(
    b: Builder, x: Value, scale: Any, zero_point: Any, low: Any, high: Any, dtype: DType, axis: int | None
) -> Value:
    if dtype not in _NARROW:
        return _rounded(b, x, scale, zero_point, low, high, dtype, axis)
    factor, zero = _parameters(b, scale, zero_point, dtype)
    y = b(QuantizeLinear, cast(b, x, DType.FLOAT32), factor, zero, axis=axis)
    ends = _bounds(low, high, dtype)
    return y if ends is None else b(Clip, y, *(b.constant(end, dtype) for end in ends))


def _column(b: Builder, x: Value, parameter: Any, axis: int | None) -> Any:
    """Reshape per-channel parameters so that they broadcast to `x`."""
    if not isinstance(parameter, Value) or axis is None:
        return parameter
    rank = len(b.dims(x))
    return b(Reshape, parameter, [-1, *[1] * (rank - 1 - axis_of(axis, rank))])


def _integers(b: Builder, x: Value, scale: Any, zero_point: Any, axis: int | None) -> Value:
    """round(x * (1 / scale)) + zero_point without saturation; PyTorch multiplies by the reciprocal."""
    wide = cast(b, x, DType.FLOAT32)
    factor, zero = (_column(b, x, each, axis) for each in (scale, zero_point))
    if isinstance(factor, Value):
        inverse = b(Reciprocal, cast(b, factor, DType.FLOAT32))
    else:
        inverse = b.constant(np.float32(1) / np.float32(scalar_of(factor)), DType.FLOAT32)
    y = b(Round, b(Mul, wide, inverse))
    if zero is None:
        return y
    offset = cast(b, zero, DType.FLOAT32) if isinstance(zero, Value) else b.constant(scalar_of(zero), DType.FLOAT32)
    return b(Add, y, offset)


def _rounded(
    b: Builder, x: Value, scale: Any, zero_point: Any, low: Any, high: Any, dtype: DType, axis: int | None
) -> Value:
    """Quantize to element types that `QuantizeLinear` does not support."""
    y = _clipped(b, _integers(b, x, scale, zero_point, axis), low, high)
    return b(Cast, y, to=dtype)


def _clipped(b: Builder, y: Value, low: Any, high: Any) -> Value:
    ends = [None if end is None else b.like(y, scalar_of(end)) for end in (low, high)]
    return b(Clip, y, *ends) if any(end is not None for end in ends) else y


def _dequantized(b: Builder, x: Value, scale: Any, zero_point: Any, axis: int | None, out_dtype: Any) -> Value:
    dtype = dtype_of(x)
    if dtype in _NARROW:
        factor, zero = _parameters(b, scale, zero_point, dtype)
        y = b(DequantizeLinear, x, factor, None if zero_point is None else zero, axis=axis)
    else:
        factor, zero = (_column(b, x, each, axis) for each in (scale, zero_point))
        wide = cast(b, x, DType.FLOAT32)
        offset = zero if isinstance(zero, Value) else b.constant(0 if zero is None else scalar_of(zero), DType.FLOAT32)
        gap = b(Sub, wide, cast(b, offset, DType.FLOAT32))
        y = b(
            Mul,
            gap,
            cast(b, factor, DType.FLOAT32) if isinstance(factor, Value) else b.like(gap, scalar_of(factor)),
        )
    wanted = named_dtype(out_dtype)
    return y if wanted is None else cast(b, y, wanted)


@aten(f"{_SPACE}quantize_per_tensor")
def quantize_per_tensor(
    b: Builder, input: Value, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any, dtype: Any
) -> Value:
    return _quantized(b, input, scale, zero_point, quant_min, quant_max, _quantized_dtype(dtype), None)


@aten(f"{_SPACE}dequantize_per_tensor", ignores=("quant_min", "quant_max", "dtype"))
def dequantize_per_tensor(b: Builder, input: Value, scale: Any, zero_point: Any, out_dtype: Any = None) -> Value:
    return _dequantized(b, input, scale, zero_point, None, out_dtype)


@aten(f"{_SPACE}quantize_per_channel")
def quantize_per_channel(
    b: Builder, input: Value, scales: Value, zero_points: Any, axis: Any, quant_min: Any, quant_max: Any, dtype: Any
) -> Value:
    place = axis_of(scalar_of(axis), len(b.dims(input)))
    return _quantized(b, input, scales, zero_points, quant_min, quant_max, _quantized_dtype(dtype), place)


@aten(f"{_SPACE}dequantize_per_channel", ignores=("quant_min", "quant_max", "dtype"))
def dequantize_per_channel(
    b: Builder, input: Value, scales: Value, zero_points: Any, axis: Any, out_dtype: Any = None
) -> Value:
    return _dequantized(b, input, scales, zero_points, axis_of(scalar_of(axis), len(b.dims(input))), out_dtype)


def _compute_qparams(
    b: Builder, low: Value, high: Value, ends: tuple[Any, Any], eps: Any, dtype: DType
) -> tuple[Value, Value]:
    """Return scale and zero point that map the range, extended to include 0, to `ends`."""
    first, last = (float(scalar_of(end)) for end in ends)
    zero = b.like(low, 0)
    least, most = b(Min, low, zero), b(Max, high, zero)
    width = b.like(low, last - first)
    scale = b(Div, b(Sub, most, least), width)
    scale = b(Max, scale, float(scalar_of(eps))) if eps is not None else scale
    point = b(Sub, b.like(low, first), b(Round, b(Div, least, scale)))
    clipped = b(Clip, point, b.like(low, first), b.like(low, last))
    return scale, cast(b, clipped, dtype)


@aten(f"{_SPACE}choose_qparams.tensor")
def choose_qparams(
    b: Builder, input: Value, quant_min: Any, quant_max: Any, eps: Any, dtype: Any
) -> tuple[Value, Value]:
    """Choose asymmetric qparams; in float64 and int64, like PyTorch."""
    del dtype
    wide = cast(b, input, DType.FLOAT32)
    ends = b(ReduceMin, wide, keepdims=0), b(ReduceMax, wide, keepdims=0)
    scale, point = _compute_qparams(b, *ends, (quant_min, quant_max), eps, DType.INT64)
    shape = vector(b, [1])
    return b(Reshape, cast(b, scale, DType.FLOAT64), shape), b(Reshape, point, shape)


@aten(f"{_SPACE}choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    b: Builder, input: Value, quant_min: Any, quant_max: Any, eps: Any, dtype: Any
) -> tuple[Value, Value]:
    """Choose symmetric qparams."""
    wanted = _quantized_dtype(dtype)
    wide = cast(b, input, DType.FLOAT32)
    least, most = b(ReduceMin, wide, keepdims=0), b(ReduceMax, wide, keepdims=0)
    reach = b(Max, b(Neg, b(Min, least, 0)), b(Max, most, 0))
    half = (float(scalar_of(quant_max)) - float(scalar_of(quant_min))) / 2
    scale = b(Div, reach, b.like(reach, half))
    scale = b(Max, scale, float(scalar_of(eps)))
    middle = 0 if wanted is not DType.UINT8 else 128
    shape = vector(b, [1])
    return b(Reshape, cast(b, scale, DType.FLOAT64), shape), b(Reshape, b.constant(middle, DType.INT64), shape)


@aten(f"{_SPACE}choose_qparams_per_token_asymmetric", f"{_SPACE}_choose_qparams_per_token_asymmetric_impl")
def choose_qparams_per_token(b: Builder, input: Value, dtype: Any) -> tuple[Value, Value]:
    """Choose qparams for each row from its minimum and maximum."""
    wanted = _quantized_dtype(dtype)
    info = np.iinfo(wanted.numpy)
    wide = cast(b, input, DType.FLOAT32)
    last = vector(b, [-1])
    zero = b.like(wide, 0)
    least, most = b(Min, b(ReduceMin, wide, last), zero), b(Max, b(ReduceMax, wide, last), zero)
    first, end = float(info.min), float(info.max)
    scale = b(Div, b(Sub, most, least), b.like(least, end - first))
    scale = b(Max, scale, float(np.finfo(np.float32).eps))
    below, above = b(Div, least, scale), b(Div, most, scale)
    error = b(Add, b(Add, b.like(below, first), below), b(Add, b.like(above, end), above))
    point = b(Where, b(Greater, error, zero), b(Sub, b.like(below, first), below), b(Sub, b.like(above, end), above))
    point = b(Round, b(Clip, point, b.like(point, first), b.like(point, end)))
    return cast(b, scale, DType.FLOAT64), cast(b, point, DType.INT64)


@aten(f"{_SPACE}quantize_per_token")
def quantize_per_token(
    b: Builder, input: Value, scales: Value, zero_points: Value, quant_min: Any, quant_max: Any, dtype: Any
) -> Value:
    return _rounded(b, input, scales, zero_points, quant_min, quant_max, _quantized_dtype(dtype), None)


@aten(f"{_SPACE}dequantize_per_token", ignores=("quant_min", "quant_max", "dtype"))
def dequantize_per_token(
    b: Builder, input: Value, scales: Value, zero_points: Value, output_dtype: Any = None
) -> Value:
    gap = b(Sub, cast(b, input, DType.FLOAT32), cast(b, zero_points, DType.FLOAT32))
    y = b(Mul, gap, cast(b, scales, DType.FLOAT32))
    wanted = named_dtype(output_dtype)
    return y if wanted is None else cast(b, y, wanted)


# ── quantized and back at once ────────────────────────────────────────────────────────────────────────────────────────


def _faked(b: Builder, x: Value, scale: Any, zero_point: Any, low: Any, high: Any, axis: int | None) -> Value:
    integers = _integers(b, x, scale, zero_point, axis)
    clipped = _clipped(b, integers, low, high)
    factor, zero = (_column(b, x, each, axis) for each in (scale, zero_point))
    offset = zero if isinstance(zero, Value) else b.constant(scalar_of(zero), DType.FLOAT32)
    gap = b(Sub, clipped, cast(b, offset, DType.FLOAT32))
    size = cast(b, factor, DType.FLOAT32) if isinstance(factor, Value) else b.like(gap, scalar_of(factor))
    return cast(b, b(Mul, gap, size), dtype_of(x))


def _with_mask(
    b: Builder, x: Value, y: Value, scale: Any, zero_point: Any, low: Any, high: Any, axis: int | None
) -> Any:
    """Return the fake-quantized tensor, and the mask of elements inside the range."""
    if b.count == 1:
        return y
    if not b.wants(1):
        return y, None
    found = _integers(b, x, scale, zero_point, axis)
    inside = (
        b(GreaterOrEqual, found, b.like(found, scalar_of(low))),
        b(LessOrEqual, found, b.like(found, scalar_of(high))),
    )
    return y, b(And, *inside)


@aten("aten.fake_quantize_per_tensor_affine", "aten.fake_quantize_per_tensor_affine_cachemask")
def fake_quantize(b: Builder, self: Value, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any) -> Any:
    y = _faked(b, self, scale, zero_point, quant_min, quant_max, None)
    return _with_mask(b, self, y, scale, zero_point, quant_min, quant_max, None)


@aten("aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_cachemask(
    b: Builder, self: Value, scale: Value, zero_point: Value, fake_quant_enabled: Value, quant_min: Any, quant_max: Any
) -> Any:
    """Fake quantization if enabled; else the identity with a mask of ones."""
    switch = constant_numbers(fake_quant_enabled)
    if switch is not None and all(switch):
        return fake_quantize(b, self, scale, zero_point, quant_min, quant_max)
    y, *mask = registry.results(fake_quantize(b, self, scale, zero_point, quant_min, quant_max))
    is_on = cast(b, fake_quant_enabled, DType.BOOL)
    return b(Where, is_on, y, self), *(inside and b(Or, b(Not, is_on), inside) for inside in mask)


@aten("aten.fake_quantize_per_channel_affine", "aten.fake_quantize_per_channel_affine_cachemask")
def fake_quantize_per_channel(
    b: Builder, self: Value, scale: Value, zero_point: Value, axis: Any, quant_min: Any, quant_max: Any
) -> Any:
    place = axis_of(scalar_of(axis), len(b.dims(self)))
    y = _faked(b, self, scale, zero_point, quant_min, quant_max, place)
    return _with_mask(b, self, y, scale, zero_point, quant_min, quant_max, place)


@aten("aten._int_mm")
def int_mm(b: Builder, self: Value, mat2: Value) -> Value:
    if dtype_of(self) in (DType.INT8, DType.UINT8) and dtype_of(mat2) in (DType.INT8, DType.UINT8):
        return b(MatMulInteger, self, mat2)
    return b(MatMul, cast(b, self, DType.INT32), cast(b, mat2, DType.INT32))
