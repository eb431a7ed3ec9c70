"""Picking entries as ONNX Runtime's own domain has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.dialects.com_microsoft.binding import dtype_of, only, word
from graphport.ops.pages.indexing import Gather, GatherND, Trilu
from graphport.ops.pages.indexing.indices import Unique
from graphport.ops.pages.quantization import DequantizeLinear
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@word("GatherND")
def gather_nd(b: Builder, data: Value, indices: Value) -> Value:
    """As in the default domain."""
    return b(GatherND, data, indices)


@word("Trilu")
def trilu(b: Builder, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    """As in the default domain."""
    return b(Trilu, x, k, upper=upper)


@word("Unique")
def unique(b: Builder, x: Value) -> tuple[Value, ...]:
    """In the order of first occurrence, with the place of each entry in the result, and the counts."""
    y, _, inverse, counts = b.results(Unique, 4, x, sorted=0)
    return y, inverse, counts


@word("GatherBlockQuantized")
def gather_block_quantized(
    b: Builder,
    data: Value,
    indices: Value,
    scales: Value,
    zero_points: Value | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Value:
    """Entries of numbers that are kept as integers of four bits."""
    del bits  # it is the width of what bytes hold
    only("integers of four bits", holds=dtype_of(data) in (DType.INT4, DType.UINT4) and block_size > 0)
    rank = len(b.dims(data))
    axis = axis_index(quantize_axis, rank)
    dense = b(DequantizeLinear, data, scales, zero_points, axis=axis, block_size=block_size)
    return b(Gather, dense, indices, axis=axis_index(gather_axis, rank))
