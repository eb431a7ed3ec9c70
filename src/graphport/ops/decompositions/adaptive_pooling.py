"""Adaptive pooling of axes whose lengths only a run can tell: each region is cut out where it begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.ops.lowering.operands import vector
from graphport.ops.pages.arithmetic import Add, Div, Mul
from graphport.ops.pages.indexing import GatherElements, Slice
from graphport.ops.pages.reduction import ArgMax, ReduceMax
from graphport.ops.pages.reshape import Concat, Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def pooled(b: Builder, x: Value, axis: int, count: int, page: Any) -> Value:
    """`x` with `axis` in `count` regions, each what `page` makes of it: a mean, or the largest.

    Both go axis by axis, for a region is the product of what it is along each.
    """
    at = vector(b, [axis])
    reserve(count, what="regions")
    parts = [b(page, cut(x), at, keepdims=1) for cut, _ in _regions(b, x, axis, count)]
    return parts[0] if count == 1 else b(Concat, *parts, axis=axis)


def largest(b: Builder, x: Value, axes: dict[int, int]) -> tuple[Value, Value]:
    """The largest entry of each region, and the first place where it stands, counted over these axes of `x`.

    `axes`, the last ones of `x` in their order, say in how many regions each is.
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
            parts.append(b(ReduceMax, part, vector(b, [axis]), keepdims=1))
            place = b(Mul, b(Add, best, begin), stride)
            placed.append(place if indices is None else b(Add, place, b(GatherElements, cut(indices), best, axis=axis)))
        stride = b(Mul, stride, b(Shape, x, start=axis, end=axis + 1))
        y, indices = b(Concat, *parts, axis=axis), b(Concat, *placed, axis=axis)
    return y, y if indices is None else indices


def _regions(b: Builder, x: Value, axis: int, count: int) -> list[tuple[Callable[[Value], Value], Value]]:
    """How each region is cut out of a tensor, and where it begins: bounds of equal parts, rounded outwards."""
    length, at = b(Shape, x, start=axis, end=axis + 1), vector(b, [axis])
    found: list[tuple[Callable[[Value], Value], Value]] = []
    for place in range(count):
        begin = b(Div, b(Mul, length, vector(b, [place])), vector(b, [count]))
        behind = b(Add, b(Mul, length, vector(b, [place + 1])), vector(b, [count - 1]))
        end = b(Div, behind, vector(b, [count]))
        found.append((lambda y, p=begin, q=end: b(Slice, y, p, q, at), begin))
    return found
