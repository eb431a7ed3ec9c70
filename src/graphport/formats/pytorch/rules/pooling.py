"""Pooling with indices and unpooling in exported programs."""

from __future__ import annotations

from math import prod
from typing import Any

from graphport.formats.pytorch.rules.binding import bounded, integers, static
from graphport.formats.pytorch.rules.functions.convolution import batched, unbatched
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.indexing import ScatterElements
from graphport.ops.definitions.reduction import ReduceProd
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape
from graphport.ops.lowering.operands import vector

RULES.having(integers=lambda _b, x, count: integers(x, count)).lower("""
aten.max_pool1d_with_indices,
    aten.max_pool1d(self, kernel_size, stride=None, padding: any = 0, dilation: any = 1, ceil_mode: any = False)
    -> F.max_pool1d(self, integers(kernel_size, 1), stride, padding, dilation, ceil_mode)
aten.max_pool2d_with_indices,
    aten.max_pool2d(self, kernel_size, stride=None, padding: any = 0, dilation: any = 1, ceil_mode: any = False)
    -> F.max_pool2d(self, integers(kernel_size, 2), stride, padding, dilation, ceil_mode)
aten.max_pool3d_with_indices,
    aten.max_pool3d(self, kernel_size, stride=None, padding: any = 0, dilation: any = 1, ceil_mode: any = False)
    -> F.max_pool3d(self, integers(kernel_size, 3), stride, padding, dilation, ceil_mode)
aten.avg_pool1d(self, kernel_size, stride=None, padding: any = 0, ceil_mode: any = False,
                count_include_pad: any = True, divisor_override=None)
    -> F.avg_pool1d(self, integers(kernel_size, 1), stride, padding, ceil_mode, count_include_pad, divisor_override)
aten.avg_pool2d(self, kernel_size, stride=None, padding: any = 0, ceil_mode: any = False,
                count_include_pad: any = True, divisor_override=None)
    -> F.avg_pool2d(self, integers(kernel_size, 2), stride, padding, ceil_mode, count_include_pad, divisor_override)
aten.avg_pool3d(self, kernel_size, stride=None, padding: any = 0, ceil_mode: any = False,
                count_include_pad: any = True, divisor_override=None)
    -> F.avg_pool3d(self, integers(kernel_size, 3), stride, padding, ceil_mode, count_include_pad, divisor_override)
aten.adaptive_avg_pool1d, aten._adaptive_avg_pool1d(self, output_size)
    -> F.adaptive_avg_pool1d(self, integers(output_size, 1))
aten.adaptive_avg_pool2d, aten._adaptive_avg_pool2d(self, output_size)
    -> F.adaptive_avg_pool2d(self, integers(output_size, 2))
aten.adaptive_avg_pool3d, aten._adaptive_avg_pool3d(self, output_size)
    -> F.adaptive_avg_pool3d(self, integers(output_size, 3))
aten.adaptive_max_pool1d(self, output_size) -> F.adaptive_max_pool1d(self, integers(output_size, 1))
aten.adaptive_max_pool2d(self, output_size) -> F.adaptive_max_pool2d(self, integers(output_size, 2))
aten.adaptive_max_pool3d(self, output_size) -> F.adaptive_max_pool3d(self, integers(output_size, 3))
""")


def _unpooled(b: Builder, x: Value, indices: Value, size: Any, rank: int) -> Value:
    """Scatter elements by flat index into planes of zeros."""
    entries, is_added = batched(b, x, rank + 2)
    positions, _ = batched(b, indices, rank + 2)
    sizes = lengths(b, size)
    known = static(sizes) or ()
    if known:
        bounded(prod(known))
    front = b(Shape, entries, start=0, end=2)
    flat = b(Concat, front, [-1], axis=0)
    area = vector(b, [prod(known)]) if known else b(ReduceProd, sizes)
    planes = b(Expand, b.like(x, 0), b(Concat, front, area, axis=0))
    y = b(ScatterElements, planes, b(Reshape, positions, flat), b(Reshape, entries, flat), axis=2)
    return unbatched(b, b(Reshape, y, b(Concat, front, sizes, axis=0)), is_added=is_added)


@aten("aten.max_unpool2d")
def max_unpool2d(b: Builder, self: Value, indices: Value, output_size: Any) -> Value:
    return _unpooled(b, self, indices, output_size, 2)


@aten("aten.max_unpool3d", ignores=("stride", "padding"))
def max_unpool3d(b: Builder, self: Value, indices: Value, output_size: Any) -> Value:
    return _unpooled(b, self, indices, output_size, 3)
