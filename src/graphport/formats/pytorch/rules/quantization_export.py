"""Export rules of quantization to ATen.

By default it is arithmetic, which torch loads without further imports and which rounds as ONNX does. With the option
`qdq` it is the operators of `quantized_decomposed`, which PyTorch's quantization tools read.
"""

from __future__ import annotations

from typing import Any

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.arithmetic_export import HELD_AS, NARROW
from graphport.formats.pytorch.rules.binding import KEYS, QDQ
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, dtype_name
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.quantization import DynamicQuantizeLinear
from graphport.ops.lowering.operands import cast, dtype_of, reshaped
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.quantization import DequantizeLinearView, QuantizeLinearView

_HELD = frozenset(
    (
        *(DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.FLOAT8E4M3FN, DType.FLOAT8E5M2),
        *(DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2FNUZ),
    )
)
_WIDEST_EXACT = 24
"""Maximum integer width in bits that float32 represents exactly."""


def _check(dtype: DType) -> None:
    if dtype not in _HELD and dtype not in HELD_AS:
        message = f"PyTorch does not support tensors of {dtype}"
        raise UnsupportedError(message)


def _range_of(dtype: DType) -> tuple[int, int]:
    """Return the minimum and maximum of an integer type."""
    return (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.kind == "i" else (0, (1 << dtype.bits) - 1)


def _aligned(b: Builder, x: Value, grid: Value, axis: int, block_size: int) -> Value:
    """Reshape a scale or zero point so that it broadcasts to `x`."""
    rank, count = len(b.dims(x)), len(b.dims(grid))
    if count == 0:
        return grid
    if block_size:
        place = axis % rank
        wide = aten(b, "repeat_interleave.self_int", grid, block_size, place)
        size = b.dims(x)[place]
        return wide if isinstance(size, Symbolic) else aten(b, "slice.Tensor", wide, place, 0, size)
    if count == 1:
        if b.dims(grid)[0] == 1 and rank != 1:
            return reshaped(b, grid, [])
        shape = [1] * rank
        shape[axis % rank] = -1
        return reshaped(b, grid, shape)
    return grid


def _decomposed(
    b: Builder, verb: str, x: Value, qparams: tuple[Value, Value | None, int, int], dtype: Any
) -> Value | None:
    """Emit an operator of `quantized_decomposed`; `None` without the option `qdq`, or if its semantics differ.

    These operators compute in float32, per-tensor or per-axis.
    """
    scale, zero_point, axis, block_size = qparams
    rank = len(b.dims(scale))
    is_wanted = b.graph is not None and b.graph.root.has_notes and QDQ in b.graph.root.notes
    if not is_wanted or block_size or rank > 1 or dtype.is_floating or dtype_of(scale) is not DType.FLOAT32:
        return None
    if verb == "quantize" and dtype_of(x) is not DType.FLOAT32:
        return None
    limits = dict(zip(("quant_min", "quant_max"), _range_of(dtype), strict=True))
    held = HELD_AS.get(dtype, dtype)
    fact = TensorFact(held if verb == "quantize" else DType.FLOAT32, x.shape)
    numbers = None if rank else _constant_qparams(scale, zero_point)
    if numbers is not None:
        attributes: dict[str, Any] = {"scale": numbers[0], "zero_point": int(numbers[1]), KEYS: ("input",)}
        op_type, operands = "per_tensor.default", [x]
    else:
        zeros = (
            aten(b, "zeros_like", scale, dtype=DType.INT64) if zero_point is None else cast(b, zero_point, DType.INT64)
        )
        names = ("input", "scales", "zero_points") if rank else ("input", "scale", "zero_point")
        attributes = {KEYS: names} | ({"axis": axis % len(b.dims(x))} if rank else {})
        op_type, operands = "per_channel.default" if rank else "per_tensor.tensor", [x, scale, zeros]
    attributes |= {**limits, "dtype": dtype_name(held)}
    return b.emit(f"quantized_decomposed.{verb}_{op_type}", *operands, facts=[fact], **attributes)[0]


def _constant_qparams(scale: Value, zero_point: Value | None) -> tuple[float, float] | None:
    """Return a constant per-tensor scale and zero point; `None` if one is not constant or not a scalar."""
    found = [(0.0,) if x is None else constant_numbers(x) for x in (scale, zero_point)]
    numbers = [each[0] for each in found if each is not None and len(each) == 1]
    return (numbers[0], numbers[1]) if len(numbers) == len(found) else None


@QuantizeLinearView.export_rule(DIALECT)
def export_quantize(b: Builder, op: QuantizeLinearView) -> Value:
    """round(x / scale) + zero_point, saturated."""
    to = op.output_dtype or b.outcome.dtype
    if to is None:
        message = "the element type of the result is unknown"
        raise UnsupportedError(message)
    _check(to)
    decomposed = _decomposed(b, "quantize", op.x, (op.y_scale, op.y_zero_point, op.axis, op.block_size), to)
    if decomposed is not None:
        return decomposed
    computed = DType.FLOAT64 if dtype_of(op.y_scale) is DType.FLOAT64 else DType.FLOAT32
    scale = cast(b, _aligned(b, op.x, op.y_scale, op.axis, op.block_size), computed)
    ratio = aten(b, "div.Tensor", cast(b, op.x, computed), scale)
    if to.is_floating:
        return b(Cast, ratio, to=to, saturate=op.saturate)
    y = aten(b, "round", ratio)
    if op.y_zero_point is not None:
        zero = cast(b, _aligned(b, op.x, op.y_zero_point, op.axis, op.block_size), computed)
        y = aten(b, "add.Tensor", y, zero)
    low, high = _range_of(to)
    return aten(b, "to.dtype", aten(b, "clamp", y, low, high), HELD_AS.get(to, to))


@DequantizeLinearView.export_rule(DIALECT)
def export_dequantize(b: Builder, op: DequantizeLinearView) -> Value:
    """(x - zero_point) * scale."""
    own, result = dtype_of(op.x), b.outcome.dtype or dtype_of(op.x_scale)
    _check(own)
    qparams = (op.x_scale, op.x_zero_point, op.axis, op.block_size)
    decomposed = _decomposed(b, "dequantize", op.x, qparams, op.x.note(NARROW) or own)
    if decomposed is not None:
        return decomposed
    computed = result if result.bits >= DType.FLOAT32.bits else DType.FLOAT32
    scale = cast(b, _aligned(b, op.x, op.x_scale, op.axis, op.block_size), computed)
    if op.x_zero_point is None or own.is_floating:
        return cast(b, aten(b, "mul.Tensor", cast(b, op.x, computed), scale), result)
    wide = DType.INT32 if own is DType.INT32 or own.bits > _WIDEST_EXACT else computed
    zero = cast(b, _aligned(b, op.x, op.x_zero_point, op.axis, op.block_size), wide)
    shifted = aten(b, "sub.Tensor", cast(b, op.x, wide), zero)
    return cast(b, aten(b, "mul.Tensor", cast(b, shifted, computed), scale), result)


@DynamicQuantizeLinear.export_rule(DIALECT)
def export_dynamic_quantize(b: Builder, x: Value) -> tuple[Value, ...]:
    """Export DynamicQuantizeLinear: the range is that of the elements, extended to include 0.  Source: ONNX-11."""
    axes = tuple(range(len(b.dims(x))))
    low = aten(b, "clamp", aten(b, "amin", x, axes), None, 0.0)
    high = aten(b, "clamp", aten(b, "amax", x, axes), 0.0)
    step = aten(b, "div.Tensor", aten(b, "sub.Tensor", high, low), 255.0)
    # All-zero input has scale 1.
    scale = aten(b, "where.self", aten(b, "gt.Scalar", step, 0.0), step, b.like(step, 1.0))
    start = aten(b, "neg", aten(b, "div.Tensor", low, scale))
    zero = aten(b, "clamp", aten(b, "round", start), 0.0, 255.0)
    y = aten(b, "add.Tensor", aten(b, "round", aten(b, "div.Tensor", x, scale)), zero)
    quantized = aten(b, "to.dtype", aten(b, "clamp", y, 0.0, 255.0), DType.UINT8)
    return quantized, scale, aten(b, "to.dtype", zero, DType.UINT8)
