"""Adaptive pooling of dynamic axes: each region is sliced and reduced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.ops.definitions.arithmetic import Add, Div, Mul
from graphport.ops.definitions.indexing import GatherElements, Slice
from graphport.ops.definitions.reduction import ArgMax, ReduceMax
from graphport.ops.definitions.reshape import Concat, Shape
from graphport.ops.lowering.operands import vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def pooled(b: Builder, x: Value, axis: int, count: int, op_def: Any) -> Value:
    """Reduce `x` along `axis` in `count` regions, each by `op_def` (a mean or a maximum).

    Multi-dimensional pooling is separable: apply it axis by axis.
    """
    at = vector(b, [axis])
    reserve(count, what="regions")
    parts = [b(op_def, cut(x), at, keepdims=1) for cut, _ in _regions(b, x, axis, count)]
    return parts[0] if count == 1 else b(Concat, *parts, axis=axis)


def static_regions(length: int, count: int) -> list[tuple[int, int]]:
    """Return the regions of a static axis: floor(i * length / count) to ceil((i + 1) * length / count)."""
    return [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]


def largest(b: Builder, x: Value, axes: dict[int, int]) -> tuple[Value, Value]:
    """Return the maximum of each region and its first index, counted over `axes` of `x`.

    `axes` are the last axes of `x` in order, mapped to their number of regions.
    """
    indices, stride = None, b.constant(np.array(1, np.int64))
    y = x
    for axis, count in reversed(axes.items()):
        reserve(count, what="regions")
        parts: list[Value] = []
        placed: list[Value] = []
        for cut, begin in _regions(b, y, axis, count):
            part = cut(y)
            best = b(ArgMax, part, axis=axis, keepdims=1)
            parts.append(b(ReduceMax, part, [axis], keepdims=1))
            place = b(Mul, b(Add, best, begin), stride)
            placed.append(place if indices is None else b(Add, place, b(GatherElements, cut(indices), best, axis=axis)))
        stride = b(Mul, stride, b(Shape, x, start=axis, end=axis + 1))
        y, indices = b(Concat, *parts, axis=axis), b(Concat, *placed, axis=axis)
    return y, y if indices is None else indices


def _regions(b: Builder, x: Value, axis: int, count: int) -> list[tuple[Callable[[Value], Value], Value]]:
    """Yield the slices of a tensor and their starts: equal parts with bounds rounded outwards."""
    length, at = b(Shape, x, start=axis, end=axis + 1), vector(b, [axis])
    found: list[tuple[Callable[[Value], Value], Value]] = []
    for place in range(count):
        begin = b(Div, b(Mul, length, [place]), [count])
        behind = b(Add, b(Mul, length, [place + 1]), [count - 1])
        end = b(Div, behind, [count])
        found.append((lambda y, p=begin, q=end: b(Slice, y, p, q, at), begin))
    return found
