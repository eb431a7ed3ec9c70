"""Quantization in OpenVINO: FakeQuantize, and integers by arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.emitting import emitted_reshape
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed, folded
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.quantization import (
    DequantizeLinear,
    DynamicQuantizeLinear,
    QuantizeLinear,
    integer_range,
)
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import dtype_of, sizes
from graphport.ops.views.quantization import DequantizeLinearView, QuantizeLinearView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ops.lowering.emitting import Exported


LEVELS = 256
"""Levels of an 8-bit quantization, which can be exported as integers."""
_MOST = 1024
"""Limits that are looked at: a number for each channel."""
_WHOLE = 1e-3
"""Tolerance of zero points, in steps, from rounding of the float32 limits."""


@lower("openvino", "opset1.FakeQuantize")
def fake_quantize(
    b: Builder, x: Value, input_low: Value, input_high: Value, output_low: Value, output_high: Value, *, levels: int
) -> Value:
    """Quantize to `levels` steps between the input limits, and map them to the output limits.

    y = output_low where x <= min(input_low, input_high), output_high where x is above the greater one, else
    round((x - input_low) / (input_high - input_low) * (levels - 1)) / (levels - 1) * (output_high - output_low)
    + output_low.
    """
    if levels < 2:
        message = f"levels is {levels}"
        raise ShapeError(message, "set levels to 2 or more")
    limits = [_constant_of(limit) for limit in (input_low, input_high, output_low, output_high)]
    parameters = _as_bytes(x, limits, levels)
    if parameters is not None:
        return _by_integers(b, x, *parameters)
    emit_ = OpBuilder(b)
    last = b.like(x, levels - 1)
    step = emit_("Div", emit_("Sub", x, input_low), emit_("Sub", input_high, input_low))
    rounded = emit_("Div", emit_("Round", emit_("Mul", step, last)), last)
    inside = emit_("Add", emit_("Mul", rounded, emit_("Sub", output_high, output_low)), output_low)
    is_low = emit_("LessOrEqual", x, emit_("Min", input_low, input_high))
    is_high = emit_("Greater", x, emit_("Max", input_low, input_high))
    return emit_("Where", is_low, output_low, emit_("Where", is_high, output_high, inside))


def _constant_of(limit: Value) -> np.ndarray | None:
    storage = limit.storage
    if storage is None or storage.count > _MOST or not (limit.graph is None or limit.is_constant):
        return None
    return storage.numpy().astype(np.float64)


def _as_bytes(
    x: Value, limits: list[np.ndarray | None], levels: int
) -> tuple[np.ndarray, np.ndarray, int | None] | None:
    """Return scale, zero point and axis of an equivalent uint8 quantization; `None` if there is none."""
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits) or levels != LEVELS or dtype_of(x) is not DType.FLOAT32:
        return None
    low, high, out_low, out_high = known
    if not (np.array_equal(low, out_low) and np.array_equal(high, out_high)) or low.shape != high.shape:
        return None
    if not np.isfinite(low).all() or not np.isfinite(high).all() or not (high > low).all():
        return None
    scale = (high - low) / (levels - 1)
    zero = -low / scale
    is_whole = np.abs(zero - np.rint(zero)) < _WHOLE
    if not is_whole.all() or (np.rint(zero) < 0).any() or (np.rint(zero) >= levels).any():
        return None
    axis = _axis(x, low.shape)
    if low.size > 1 and axis is None:
        return None
    return scale.reshape(-1), np.rint(zero).reshape(-1), axis


def _axis(x: Value, shape: tuple[int, ...]) -> int | None:
    """Return the axis of `x` along which the limits differ; `None` if there is not exactly one."""
    fact = x.fact
    wide = [place for place, extent in enumerate(shape) if extent > 1]
    if len(wide) != 1 or not isinstance(fact, TensorFact) or fact.shape is None or len(shape) > len(fact.shape):
        return None
    axis = wide[0] + len(fact.shape) - len(shape)
    return axis if fact.shape[axis] == shape[wide[0]] else None


def _by_integers(b: Builder, x: Value, scale: np.ndarray, zero: np.ndarray, axis: int | None) -> Value:
    shape = () if axis is None else (scale.size,)
    scales = b.constant(scale.astype(np.float32).reshape(shape))
    zeros = b.constant(zero.astype(np.uint8).reshape(shape))
    along = {} if axis is None else {"axis": axis}
    return b(DequantizeLinear, b(QuantizeLinear, x, scales, zeros, **along), scales, zeros, **along)


# Export rules


@DequantizeLinearView.export_rule("openvino")
def export_dequantize(b: Builder, op: DequantizeLinearView) -> Exported:
    """Export DequantizeLinear in the form of compressed weights, whose Convert is kept at run time."""
    dtype = dtype_of(op.x_scale)
    form = _ParameterLayout(b, op.x, op.axis, op.block_size)
    if form.is_ragged:
        return (_fold_to_float(b, op.x, op.x_scale, op.x_zero_point, axis=op.axis, block_size=op.block_size),)
    # The runtime keeps weights compressed only if a Convert follows the constant directly.
    is_stored = op.x.storage is not None and op.x.is_constant
    codes = form.cut(op.x) if is_stored else op.x
    steps = emit(b, "opset1.Convert", codes, destination_type=dtype)
    steps = steps if is_stored else form.cut(steps)
    if op.x_zero_point is not None:
        is_stored = op.x_zero_point.storage is not None and op.x_zero_point.is_constant
        point = form.parameter(op.x_zero_point, op.x_zero_point) if is_stored else op.x_zero_point
        zero = emit(b, "opset1.Convert", point, destination_type=dtype)
        steps = emit(b, "opset1.Subtract", steps, zero if is_stored else form.parameter(zero, op.x_zero_point))
    real = form.joined(emit(b, "opset1.Multiply", steps, form.scale(op.x_scale)))
    if op.output_dtype not in (None, dtype):
        real = emit(b, "opset1.Convert", real, destination_type=op.output_dtype)
    return (real,)


def _fold_to_float(b: Builder, *operands: Value | None, axis: int, block_size: int) -> Value:
    """Dequantize constants whose blocks have no form in the runtime."""
    storages = [None if value is None else folded(value) for value in operands]
    known = [storage for storage in storages if storage is not None]
    if len(known) < sum(value is not None for value in operands):
        message = f"blocks of {block_size} that do not tile an axis, for operands that are not constant"
        raise UnsupportedError(message)

    def dequantize(*arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return DequantizeLinear.function(*arrays, axis=axis, block_size=block_size)

    return b.constant(Computed(dequantize, tuple(known), known[1].dtype, known[0].shape))


@QuantizeLinearView.export_rule("openvino")
def export_quantize(b: Builder, op: QuantizeLinearView) -> Exported:
    dtype = op.output_dtype or DType.UINT8 if op.y_zero_point is None else dtype_of(op.y_zero_point)
    kept = dtype_of(op.y_scale)
    if not dtype.is_integer or op.precision not in (None, kept):
        message = f"OpenVINO quantizes to integers in the precision of the scale, not to {dtype}"
        raise UnsupportedError(message)
    form = _ParameterLayout(b, op.x, op.axis, op.block_size)
    if form.is_ragged:
        message = f"blocks of {op.block_size} do not tile the axis"
        raise UnsupportedError(message)
    given = op.x if dtype_of(op.x) is kept else emit(b, "opset1.Convert", op.x, destination_type=kept)
    quotient = emit(b, "opset1.Divide", form.cut(given), form.parameter(op.y_scale, op.y_scale))
    steps = emit(b, "opset5.Round", quotient, mode="half_to_even")
    if op.y_zero_point is not None:
        zero = emit(b, "opset1.Convert", op.y_zero_point, destination_type=kept)
        steps = emit(b, "opset1.Add", steps, form.parameter(zero, op.y_zero_point))
    low, high = integer_range(dtype)
    clamped = emit(b, "opset1.Clamp", steps, min=float(low), max=float(high))
    return (form.joined(emit(b, "opset1.Convert", clamped, destination_type=dtype)),)


class _ParameterLayout:
    """Shape of scales and zero points: scalar, one per entry of an axis, or one per block."""

    def __init__(self, b: Builder, x: Value, axis: int, block_size: int) -> None:
        self._b = b
        self._x = x
        self._dims = b.dims(x)
        self._axis = axis % len(self._dims) if self._dims else 0
        self._block = block_size

    @property
    def is_ragged(self) -> bool:
        """Whether the axis has several blocks and the last one is incomplete, or its length is not static."""
        length = self._dims[self._axis] if self._block else 0
        return not isinstance(length, int) or (length > self._block > 0 and not self._tiles)

    @property
    def _tiles(self) -> bool:
        """Whether the axis consists of whole blocks."""
        length = self._dims[self._axis]
        return isinstance(length, int) and length % self._block == 0

    def parameter(self, value: Value, like: Value) -> Value:
        """Reshape a scale or zero point to broadcast over the tensor; `like` has its original shape."""
        shape = self._b.dims(like)
        if self._block and not self._tiles:
            # A single block: its parameters broadcast.
            return value
        if self._block:
            parted = [*shape[: self._axis + 1], 1, *shape[self._axis + 1 :]]
            return emitted_reshape(self._b, value, self._static(parted))
        if len(shape) == 1 and shape != (1,):
            # With a static length, a constant is reshaped in place, so OpenVINO recognizes compressed weights.
            length = shape[0] if isinstance(shape[0], int) and shape[0] else -1
            return emitted_reshape(self._b, value, [length, *(1 for _ in self._dims[self._axis + 1 :])])
        return value

    def scale(self, value: Value) -> Value:
        """Reshape a scale like `parameter`; for a converted constant, reshape the constant."""
        self._b.looks_around = True
        node = value.producer
        if node is None or node.op_type != "opset1.Convert" or node.operands[0].storage is None:
            return self.parameter(value, value)
        stored = node.operands[0]
        return emit(self._b, node.op_type, self.parameter(stored, stored), **node.attributes)

    def cut(self, x: Value) -> Value:
        """Split the axis into blocks."""
        length = self._dims[self._axis] if self._block and self._tiles else None
        if not isinstance(length, int):
            return x
        front, back = self._dims[: self._axis], self._dims[self._axis + 1 :]
        return emitted_reshape(self._b, x, self._static([*front, length // self._block, self._block, *back]))

    def joined(self, x: Value) -> Value:
        """Merge the blocks: reshape to the original shape of the tensor."""
        return emitted_reshape(self._b, x, self._static(self._dims)) if self._block and self._tiles else x

    @staticmethod
    def _static(dims: Sequence[Dim]) -> tuple[int, ...]:
        return sizes(dims, "the dims of a block-wise quantized tensor")


@DynamicQuantizeLinear.export_rule("openvino")
def export_dynamic_quantize(b: Builder, x: Value) -> Exported:
    """Export DynamicQuantizeLinear: scale and zero point from the minimum and maximum of `x`, including 0."""
    axes = b.constant(np.arange(len(b.dims(x)), dtype=np.int64))
    low = emit(b, "opset1.Minimum", emit(b, "opset1.ReduceMin", x, axes, keep_dims=False), 0.0)
    high = emit(b, "opset1.Maximum", emit(b, "opset1.ReduceMax", x, axes, keep_dims=False), 0.0)
    span = emit(b, "opset1.Divide", emit(b, "opset1.Subtract", high, low), 255.0)
    scale = emit(b, "opset1.Select", emit(b, "opset1.Greater", span, 0.0), span, b.like(x, 1.0))
    shift = emit(b, "opset5.Round", emit(b, "opset1.Divide", emit(b, "opset1.Negative", low), scale))
    zero = emit(b, "opset1.Clamp", shift, min=0.0, max=255.0)
    steps = emit(b, "opset1.Add", emit(b, "opset5.Round", emit(b, "opset1.Divide", x, scale)), zero)
    clamped = emit(b, "opset1.Clamp", steps, min=0.0, max=255.0)
    integers = [emit(b, "opset1.Convert", each, destination_type=DType.UINT8) for each in (clamped, zero)]
    return integers[0], scale, integers[1]
