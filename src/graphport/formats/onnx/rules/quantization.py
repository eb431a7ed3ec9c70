"""Older forms of quantization: of tensors as a whole, then along an axis, to the type of the zero point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.onnx.rules.older import unsupported
from graphport.ops.views.quantization import DequantizeLinearView, QuantizeLinearView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@QuantizeLinearView.export_rule("onnx", until=22)
def quantize_to_zero_point(b: Builder, op: QuantizeLinearView) -> Value | None:
    """Export QuantizeLinear whose zero point determines the type."""
    y_zero_point = op.y_zero_point
    version = b.version or 0
    unsupported((op.precision is not None, "x must have the element type of the scale"))
    if version >= 21:
        return None
    if y_zero_point is None and op.output_dtype not in (None, DType.UINT8):
        y_zero_point = (
            b.constant(np.zeros(_shape(op.y_scale), np.int8), None) if op.output_dtype is DType.INT8 else None
        )
        unsupported((y_zero_point is None, f"output_dtype {op.output_dtype} is not supported"))
    stated = _granularity(b, op.x, op.y_scale, op.axis, op.block_size)
    if version >= 19:
        stated["saturate"] = op.saturate
    return b.emit("QuantizeLinear", op.x, op.y_scale, y_zero_point, facts=[UNKNOWN], **stated)[0]


@DequantizeLinearView.export_rule("onnx", until=22)
def dequantize_to_scale(b: Builder, op: DequantizeLinearView) -> Value | None:
    """Export DequantizeLinear whose scale determines the type."""
    unsupported((op.output_dtype is not None, "the result must have the element type of the scale"))
    if (b.version or 0) >= 21:
        return None
    stated = _granularity(b, op.x, op.x_scale, op.axis, op.block_size)
    return b.emit("DequantizeLinear", op.x, op.x_scale, op.x_zero_point, facts=[UNKNOWN], **stated)[0]


def _granularity(b: Builder, x: Value, scale: Value, axis: int, block_size: int) -> dict[str, int]:
    """Return the attribute `axis` for per-axis scales (opset 13 and later), else no attributes."""
    unsupported((block_size != 0, "block-wise quantization is not supported"))
    if b.dims(scale) in ((), (1,)):
        return {}
    unsupported(((b.version or 0) < 13, "per-axis scales are not supported"))
    return {"axis": axis}


def _shape(value: Value) -> tuple[int, ...]:
    dims = value.fact.dims if isinstance(value.fact, TensorFact) else ()
    known = tuple(n for n in dims if isinstance(n, int))
    unsupported((len(known) != len(dims), "an unknown number of scales"))
    return known
