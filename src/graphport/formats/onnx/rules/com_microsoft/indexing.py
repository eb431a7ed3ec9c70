"""Picking entries as ONNX Runtime's own domain has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.onnx.rules.com_microsoft.binding import RULES, dtype_of, import_rule, only
from graphport.formats.onnx.rules.com_microsoft.matmul import INTEGERS, read_as
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.indexing.indices import Unique
from graphport.ops.definitions.quantization import DequantizeLinear
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


RULES.lower("""
GatherND(data, indices) -> GatherND(data, indices)
Trilu(x, k=None, *, upper=1) -> Trilu(x, k, upper=upper)
""")


@import_rule("Unique")
def unique(b: Builder, x: Value) -> tuple[Value, ...]:
    """Unique entries in order of first occurrence, the inverse indices, and the counts."""
    y, _, inverse, counts = b.results(Unique, 4, x, sorted=0)
    return y, inverse, counts


@import_rule("GatherBlockQuantized")
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
    """Gather entries of a tensor quantized to 2, 4 or 8 bits in blocks, packed or as narrow integers."""
    dims = b.dims(data)
    axis = axis_index(quantize_axis, len(dims))
    steps, shift = data, zero_points
    if dtype_of(data) is DType.UINT8:
        only("2-bit, 4-bit or 8-bit integers", holds=bits in INTEGERS)
        blocks = [int(dim) for dim in b.dims(scales) if isinstance(dim, int)]
        whole = [int(dim) for dim in dims if isinstance(dim, int)]
        is_last = axis == len(dims) - 1 and len(whole) == len(dims) == len(blocks)
        only("static dims, and blocks along the last axis", holds=is_last)
        read = read_as(b, data, bits, (*whole[:-1], whole[-1] * (8 // bits)))
        shift = _shifts(b, zero_points, bits, tuple(blocks))
        only("constant integers", holds=read is not None and shift is not None)
        steps = data if read is None else read
    only("4-bit integers, or bytes that pack them", holds=dtype_of(steps) in _STEPS and block_size > 0)
    dense = b(DequantizeLinear, steps, scales, shift, axis=axis, block_size=block_size)
    return b(Gather, dense, indices, axis=axis_index(gather_axis, len(dims)))


_STEPS = (DType.INT4, *INTEGERS.values())


def _shifts(b: Builder, packed: Value | None, bits: int, shape: tuple[int, ...]) -> Value | None:
    """Return the zero point of each block: unpacked, or the middle of the range if absent; rows are byte-aligned."""
    dtype = INTEGERS[bits]
    if packed is None:
        return b.constant(np.full(shape, 1 << (bits - 1)).astype(dtype.numpy), dtype)
    only("integer zero points", holds=dtype_of(packed) is DType.UINT8)
    row = -(-shape[-1] * bits // 8) * 8 // bits
    whole = read_as(b, packed, bits, (*shape[:-1], row))
    if whole is None or whole.storage is None or row == shape[-1]:
        return whole
    return b.constant(whole.storage.numpy()[..., : shape[-1]], dtype)
