"""Older forms of quantization: of tensors as a whole, then along an axis, to the type of the zero point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ops.dialects.onnx.older import unsupported
from graphport.ops.pages.quantization import DequantizeLinear, QuantizeLinear

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@QuantizeLinear.lift("onnx", until=22)
def quantize_to_zero_point(
    b: Builder,
    x: Value,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DType | None = None,
    precision: DType | None = None,
    saturate: int = 1,
) -> Value | None:
    """The zero point said the type."""
    version = b.version or 0
    unsupported((precision is not None, "the quotient had the type of the scale"))
    if version >= 21:
        return None
    if y_zero_point is None and output_dtype not in (None, DType.UINT8):
        y_zero_point = b.constant(np.zeros(_shape(y_scale), np.int8), None) if output_dtype is DType.INT8 else None
        unsupported((y_zero_point is None, f"there was no {output_dtype}"))
    stated = _granularity(b, x, y_scale, axis, block_size)
    if version >= 19:
        stated["saturate"] = saturate
    return b.word("QuantizeLinear", x, y_scale, y_zero_point, facts=[UNKNOWN], **stated)[0]


@DequantizeLinear.lift("onnx", until=22)
def dequantize_to_scale(
    b: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DType | None = None,
) -> Value | None:
    """The scale said the type."""
    unsupported((output_dtype is not None, "the result had the type of the scale"))
    if (b.version or 0) >= 21:
        return None
    stated = _granularity(b, x, x_scale, axis, block_size)
    return b.word("DequantizeLinear", x, x_scale, x_zero_point, facts=[UNKNOWN], **stated)[0]


def _granularity(b: Builder, x: Value, scale: Value, axis: int, block_size: int) -> dict[str, int]:
    """The axis where scales are one for each of its entries; blocks came later, and first there was one scale."""
    unsupported((block_size != 0, "there were no blocks"))
    if b.dims(scale) in ((), (1,)):
        return {}
    unsupported(((b.version or 0) < 13, "there was one scale"))
    return {"axis": axis}


def _shape(value: Value) -> tuple[int, ...]:
    dims = value.fact.dims if isinstance(value.fact, TensorFact) else ()
    known = tuple(n for n in dims if isinstance(n, int))
    unsupported((len(known) != len(dims), "scales of unknown number"))
    return known
