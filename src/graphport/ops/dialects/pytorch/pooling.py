"""Pools of exported programs: with indices, and what undoes them."""

from __future__ import annotations

from math import prod
from typing import Any

from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.dialects.pnnx.convolution import batched, unbatched
from graphport.ops.dialects.pnnx.pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool
from graphport.ops.dialects.pnnx.reshape_shapes import lengths
from graphport.ops.dialects.pytorch.overloads import aten
from graphport.ops.dialects.torch_functions import bounded, integers, static, vector
from graphport.ops.pages.indexing import ScatterElements
from graphport.ops.pages.reduction import ReduceProd
from graphport.ops.pages.reshape import Concat, Expand, Reshape, Shape

for _rank in (1, 2, 3):

    @aten(f"aten.max_pool{_rank}d_with_indices", f"aten.max_pool{_rank}d")
    def max_pool_with_indices(
        b: Builder, self: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: Any = False, rank: int = _rank,
    ) -> Any:  # fmt: skip
        return max_pool(b, self, integers(kernel_size, rank), stride, padding, dilation, ceil_mode)

    @aten(f"aten.avg_pool{_rank}d")
    def avg_pools(
        b: Builder, self: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: Any = False,
        count_include_pad: Any = True, divisor_override: Any = None, rank: int = _rank,
    ) -> Value:  # fmt: skip
        kernel = integers(kernel_size, rank)
        return avg_pool(b, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)

    @aten(f"aten.adaptive_avg_pool{_rank}d", f"aten._adaptive_avg_pool{_rank}d")
    def adaptive_mean(b: Builder, self: Value, output_size: Any, rank: int = _rank) -> Value:
        return adaptive_avg_pool(b, self, tuple(integers(output_size, rank)))

    @aten(f"aten.adaptive_max_pool{_rank}d")
    def adaptive_max(b: Builder, self: Value, output_size: Any, rank: int = _rank) -> Any:
        return adaptive_max_pool(b, self, tuple(integers(output_size, rank)))


def _unpooled(b: Builder, x: Value, indices: Value, size: Any, rank: int) -> Value:
    """Each entry at its place in a plane of zeros."""
    entries, is_added = batched(b, x, rank + 2)
    places, _ = batched(b, indices, rank + 2)
    sizes = lengths(b, size)
    known = static(sizes) or ()
    if known:
        bounded(prod(known))
    front = b(Shape, entries, start=0, end=2)
    flat = b(Concat, front, vector(b, [-1]), axis=0)
    area = vector(b, [prod(known)]) if known else b(ReduceProd, sizes)
    planes = b(Expand, b.like(x, 0), b(Concat, front, area, axis=0))
    y = b(ScatterElements, planes, b(Reshape, places, flat), b(Reshape, entries, flat), axis=2)
    return unbatched(b, b(Reshape, y, b(Concat, front, sizes, axis=0)), is_added=is_added)


@aten("aten.max_unpool2d")
def max_unpool2d(b: Builder, self: Value, indices: Value, output_size: Any) -> Value:
    return _unpooled(b, self, indices, output_size, 2)


@aten("aten.max_unpool3d", ignores=("stride", "padding"))
def max_unpool3d(b: Builder, self: Value, indices: Value, output_size: Any) -> Value:
    return _unpooled(b, self, indices, output_size, 3)
