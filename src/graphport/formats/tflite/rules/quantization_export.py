"""Export rules of quantization operators to TFLite; products of integers are computed in floats."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.emitting import cast_to, ints, is_foldable, needed_array, shaped
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions import arithmetic
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.matmul.quantized import MatMulInteger
from graphport.ops.definitions.quantization import DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear
from graphport.ops.definitions.reduction.reduce import ReduceMax, ReduceMin
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import cast, dtype_of, sizes, vector
from graphport.ops.views.convolution import ConvIntegerView, QLinearConvView
from graphport.ops.views.matmul import QLinearMatMulView
from graphport.ops.views.quantization import DequantizeLinearView, QuantizeLinearView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"
_FEW, _BYTE = 4, 8
_MAX_EXACT_PRODUCTS = 256
"""Maximum number of 8-bit products whose sum is exact in float32."""


_STORED = frozenset((DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT4, DType.INT2))


def _quantization(scale: Value, zero: Value | None, dtype: DType, axis: int, rank: int) -> object:
    scales = needed_array(scale, "its scale").astype(np.float32)
    zeros = np.zeros(scales.size, np.int64) if zero is None else needed_array(zero, "its zero point").astype(np.int64)
    if scales.ndim > 1 or dtype not in _STORED:
        message = f"{dtype} with scales of rank {scales.ndim}, expected int2 to int32 or uint8, and rank 0 or 1"
        raise UnsupportedError(message)
    own = axis % rank if scales.size > 1 else -1
    return dtype, own, tuple(map(float, scales.reshape(-1))), tuple(map(int, zeros.reshape(-1)))


def _is_computed(*values: Value | None) -> bool:
    return any(value is not None and not is_foldable(value) for value in values)


def _broadcast_parameter(b: Builder, parameter: Value, x: Value, axis: int, block_size: int) -> Value:
    """Reshape a scale or zero point to broadcast with x: per-tensor, per-axis or block-wise."""
    dims, rank = b.dims(parameter), len(b.dims(x))
    if block_size:
        axis %= rank
        unsqueezed = shaped(b, parameter, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
        table = [1] * (rank + 1)
        table[axis + 1] = block_size
        whole = emit(b, "TILE", unsqueezed, ints(b, table))
        wide = shaped(
            b, whole, (*dims[:axis], *(n * block_size for n in sizes(dims[axis : axis + 1])), *dims[axis + 1 :])
        )
        begin, lengths = [0] * rank, list(sizes(b.dims(x)))
        return emit(b, "SLICE", wide, ints(b, begin), ints(b, lengths))
    if len(dims) != 1 or dims == (1,):
        return shaped(b, parameter, ()) if dims == (1,) else parameter
    return shaped(b, parameter, (*dims, *[1] * (rank - axis % rank - 1)))


def _quantize_by_formula(
    b: Builder,
    x: Value,
    scale: Value,
    zero: Value | None,
    axis: int,
    block_size: int,
    dtype: DType | None = None,
) -> Value:
    """Quantize by formula, for computed scales, and for float16, whose quotients are float16."""
    dtype = dtype_of(zero) if zero is not None else dtype or DType.UINT8
    if not dtype.is_integer or dtype.bits not in (_FEW, _BYTE, 16):
        message = f"quantization to {dtype} by computed or float16 scales, expected integers of 4, 8 or 16 bits"
        raise UnsupportedError(message)
    real_x, real_scale = (cast_to(b, each, DType.FLOAT32) for each in (x, scale))
    quotient = emit(b, "DIV", real_x, _broadcast_parameter(b, real_scale, x, axis, block_size))
    if dtype_of(scale) is DType.FLOAT16:
        quotient = cast_to(b, cast_to(b, quotient, DType.FLOAT16), DType.FLOAT32)
    rounded = emit(b, "ROUND", quotient)
    if zero is not None:
        rounded = emit(b, "ADD", rounded, _broadcast_parameter(b, cast_to(b, zero, DType.FLOAT32), x, axis, block_size))
    least = -(1 << dtype.bits - 1) if dtype.kind == "i" else 0
    kept = emit(b, "MINIMUM", emit(b, "MAXIMUM", rounded, float(least)), float(least + (1 << dtype.bits) - 1))
    if dtype.bits == _FEW:
        return cast_to(b, kept, dtype)
    return cast_to(b, cast_to(b, kept, DType.INT32), dtype)


@QuantizeLinearView.export_rule("tflite")
def export_quantize_linear(b: Builder, op: QuantizeLinearView) -> Exported:
    dtype = dtype_of(op.y_zero_point) if op.y_zero_point is not None else op.output_dtype or DType.UINT8
    is_half = dtype_of(op.x) is DType.FLOAT16 and dtype is not DType.INT32
    if _is_computed(op.y_scale, op.y_zero_point) or op.block_size or dtype is DType.UINT16 or is_half:
        return (_quantize_by_formula(b, op.x, op.y_scale, op.y_zero_point, op.axis, op.block_size, dtype),)
    quantization = _quantization(op.y_scale, op.y_zero_point, dtype, op.axis, len(b.dims(op.x)))
    if dtype is DType.INT32 or dtype_of(op.x) is not DType.FLOAT32:
        return None
    return b.emit("QUANTIZE", op.x, facts=[TensorFact(dtype, b.dims(op.x))], quantized_results=(quantization,))  # type: ignore[arg-type]


@DequantizeLinearView.export_rule("tflite")
def export_dequantize_linear(b: Builder, op: DequantizeLinearView) -> Exported:
    dtype = dtype_of(op.x)
    is_odd = dtype is DType.UINT16 or (dtype is DType.INT32 and not is_foldable(op.x))
    if (
        (_is_computed(op.x_scale, op.x_zero_point) or op.block_size or is_odd)
        and dtype.is_integer
        and dtype.bits >= _FEW
    ):
        wide = cast_to(b, op.x, DType.FLOAT32)
        if op.x_zero_point is not None:
            zero = cast_to(b, op.x_zero_point, DType.FLOAT32)
            wide = emit(b, "SUB", wide, _broadcast_parameter(b, zero, op.x, op.axis, op.block_size))
        y = emit(
            b, "MUL", wide, _broadcast_parameter(b, cast_to(b, op.x_scale, DType.FLOAT32), op.x, op.axis, op.block_size)
        )
        return (cast_to(b, y, dtype_of(op.x_scale)),)
    quantization = _quantization(op.x_scale, op.x_zero_point, dtype, op.axis, max(len(b.dims(op.x)), 1))
    own = dtype_of(op.x_scale)
    if own not in (DType.FLOAT32, DType.FLOAT16) or (dtype is DType.INT32 and own is not DType.FLOAT32):
        return None
    if dtype is DType.INT32:
        scales, zeros = quantization[2], quantization[3]  # type: ignore[index]
        numbers = needed_array(op.x, "int32").astype(np.float64)
        shape = (-1, *[1] * (numbers.ndim - 1 - op.axis % max(numbers.ndim, 1))) if len(scales) > 1 else ()
        reals = (numbers - np.reshape(zeros, shape)) * np.reshape(scales, shape)
        return (emit(b, "RESHAPE", b.constant(reals.astype(np.float32)), ints(b, list(sizes(b.dims(op.x))))),)
    (y,) = b.emit("DEQUANTIZE", op.x, facts=[TensorFact(DType.FLOAT32, b.dims(op.x))], quantized=(quantization,))  # type: ignore[arg-type]
    return (cast_to(b, y, own),)


@DynamicQuantizeLinear.export_rule("tflite")
def export_dynamic_quantize_linear(b: Builder, x: Value) -> Exported:
    zero = b.like(x, 0)
    low = b(arithmetic.Min, zero, b(ReduceMin, x, keepdims=0))
    high = b(arithmetic.Max, zero, b(ReduceMax, x, keepdims=0))
    scale = b(arithmetic.Div, b(arithmetic.Sub, high, low), b.like(x, 255))
    # All-zero input has scale 1.
    is_flat = emit(b, "EQUAL", scale, 0.0)
    divisor = emit(b, "SELECT_V2", is_flat, b.like(scale, 1), scale)
    place = emit(b, "ROUND", b(arithmetic.Sub, zero, b(arithmetic.Div, low, divisor)))
    shift = emit(b, "MINIMUM", emit(b, "MAXIMUM", place, 0.0), 255.0)
    zero_point = cast_to(b, cast_to(b, shift, DType.INT32), DType.UINT8)
    return _quantize_by_formula(b, x, divisor, zero_point, 0, 0), divisor, zero_point


def _centred(b: Builder, x: Value, zero: Value | None) -> Value:
    wide = cast(b, x, DType.FLOAT32)
    return wide if zero is None else b(arithmetic.Sub, wide, cast(b, zero, DType.FLOAT32))


def _by_row(b: Builder, parameter: Value | None, a: Value) -> Value | None:
    """Reshape a vector with one element per row of `a` to a column."""
    if parameter is None or len(b.dims(parameter)) != 1 or b.dims(parameter) == (1,) or len(b.dims(a)) < 2:
        return parameter
    return b(Unsqueeze, parameter, [1])


def _product(b: Builder, left: Value, right: Value) -> Value:
    """Product of integers below 2^8 in float32, exact: split so that each partial sum is exact."""
    (inner,) = sizes(b.dims(left)[-1:], "the inner dim")
    if not inner:
        message = "a product over an empty axis"
        raise UnsupportedError(message)
    products: list[Value] = []
    for start in range(0, inner, _MAX_EXACT_PRODUCTS):
        parts = [left, right]
        if inner > _MAX_EXACT_PRODUCTS:
            bounds = vector(b, [start]), vector(b, [min(inner, start + _MAX_EXACT_PRODUCTS)])
            axes = len(b.dims(left)) - 1, max(0, len(b.dims(right)) - 2)
            parts = [b(Slice, x, *bounds, vector(b, [axis])) for x, axis in zip(parts, axes, strict=True)]
        products.append(b(Cast, b(MatMul, *parts), to=DType.INT32))
    return reduce(partial(b, arithmetic.Add), products)


@MatMulInteger.export_rule("tflite")
def export_matmul_integer(
    b: Builder, a: Value, other: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
) -> Exported:
    left = _centred(b, a, _by_row(b, a_zero_point, a))
    return (_product(b, left, _centred(b, other, b_zero_point)),)


@QLinearMatMulView.export_rule("tflite")
def export_qlinear_matmul(b: Builder, op: QLinearMatMulView) -> Exported:
    if not _is_computed(op.a_scale, op.a_zero_point, op.b_scale, op.b_zero_point, op.y_scale, op.y_zero_point):
        left = b(DequantizeLinear, op.a, op.a_scale, op.a_zero_point, axis=-2)
        right = b(DequantizeLinear, op.b, op.b_scale, op.b_zero_point, axis=-1)
        return (b(QuantizeLinear, b(MatMul, left, right), op.y_scale, op.y_zero_point, axis=-2),)
    left = _centred(b, op.a, _by_row(b, op.a_zero_point, op.a))
    total = cast(b, _product(b, left, _centred(b, op.b, op.b_zero_point)), DType.FLOAT32)
    scales = [cast(b, each, DType.FLOAT32) for each in (op.a_scale, op.b_scale, op.y_scale)]
    up = b(arithmetic.Mul, _by_row(b, scales[0], op.a) or scales[0], scales[1])
    scaled = b(arithmetic.Mul, total, b(arithmetic.Div, up, _by_row(b, scales[2], op.a) or scales[2]))
    one = b.constant(np.float32(1))
    return (_quantize_by_formula(b, scaled, one, _by_row(b, op.y_zero_point, op.a), -2, 0),)


@ConvIntegerView.export_rule("tflite")
def export_conv_integer(b: Builder, op: ConvIntegerView) -> Exported:
    _check_exact(b, op.w)
    rows = None if op.w_zero_point is None else _broadcast_parameter(b, op.w_zero_point, op.w, 0, 0)
    total = b(Conv, _centred(b, op.x, op.x_zero_point), _centred(b, op.w, rows), **op.non_defaults())
    return (b(Cast, total, to=DType.INT32),)


def _check_exact(b: Builder, w: Value) -> None:
    count = int(np.prod(sizes(b.dims(w)[1:], "the filters")))
    if count > _MAX_EXACT_PRODUCTS:
        message = f"sums of {count} products, which float32 does not represent exactly"
        raise UnsupportedError(message)


@QLinearConvView.export_rule("tflite")
def export_qlinear_conv(b: Builder, op: QLinearConvView) -> Exported:
    w = op.w
    if not _is_computed(op.x_scale, op.x_zero_point, op.w_scale, op.w_zero_point, op.y_scale, op.y_zero_point, op.b):
        scales = needed_array(op.x_scale, "its scale") * needed_array(op.w_scale, "its scale")
        reals = None if op.b is None else b.constant((needed_array(op.b, "its bias") * scales).astype(np.float32))
        given = b(DequantizeLinear, op.x, op.x_scale, op.x_zero_point)
        y = b(
            Conv,
            given,
            b(DequantizeLinear, w, op.w_scale, op.w_zero_point, axis=0),
            reals,
            **op.non_defaults(),
        )
        return (b(QuantizeLinear, y, op.y_scale, op.y_zero_point),)
    _check_exact(b, w)
    filters = _centred(b, w, _broadcast_parameter(b, op.w_zero_point, w, 0, 0))
    total = b(Conv, _centred(b, op.x, op.x_zero_point), filters, **op.non_defaults())
    if op.b is not None:
        total = b(arithmetic.Add, total, _broadcast_parameter(b, cast(b, op.b, DType.FLOAT32), total, 1, 0))
    factor = b(arithmetic.Mul, op.x_scale, _broadcast_parameter(b, op.w_scale, total, 1, 0))
    scaled = b(arithmetic.Mul, total, b(arithmetic.Div, factor, op.y_scale))
    return (_quantize_by_formula(b, scaled, b.constant(np.float32(1)), op.y_zero_point, 1, 0),)
