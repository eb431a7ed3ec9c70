"""Reductions of ncnn."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.arithmetic import Mul
from graphport.ops.blobs import Layer, blob_axis, layer, lengths_of, said
from graphport.ops.builder import Builder
from graphport.ops.declare import Page, UnsupportedError, lift
from graphport.ops.pattern import constant_numbers
from graphport.ops.pytorch import vector
from graphport.ops.reduction import (
    CumSum,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)
from graphport.ops.reshape import Reshape

PAGES = (
    *(ReduceSum, ReduceL1, ReduceSumSquare, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2),
    *(ReduceLogSum, ReduceLogSumExp),
)
"""By number."""


@layer("Reduction")
def reduction(at: Layer) -> Value:
    """Of given axes or all; where all are reduced, a vector of one element is left."""
    number = at.integer(0)
    if not 0 <= number < len(PAGES):
        message = f"there is no operation {number}"
        raise UnsupportedError(message)
    rank = at.rank
    axes = list(range(1, rank + 1)) if at.integer(1, 1) else sorted({at.axis(int(n)) for n in at.array(3)})
    keeps = bool(at.integer(4))
    y = at.b(PAGES[number], at.x, vector(at.b, axes), keepdims=None if keeps else 0)
    if len(axes) == rank and not keeps:
        y = at.b(Reshape, y, vector(at.b, [1, 1]))
    factor = at.real(2, 1.0)
    return y if factor == 1 else at.b(Mul, y, at.b.like(y, factor))


@layer("CumulativeSum")
def cumulative_sum(at: Layer) -> Value:
    return at.b(CumSum, at.x, at.b.constant(at.axis(at.integer(0)), DType.INT64))


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _spell_reductions() -> None:
    for number, page in enumerate(PAGES):
        if number != 7:  # the same as number 1
            _spell_reduction(page, number)


def _spell_reduction(page: Page, number: int) -> None:
    @lift("ncnn", page.name)
    def lifted(
        b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value | None:
        rank = len(lengths_of(b, data)) + 1
        numbers = () if axes is None else constant_numbers(axes)
        if numbers is None or not numbers or (noop_with_empty_axes and not numbers):
            return None
        places = tuple(sorted(blob_axis(int(axis), rank) for axis in numbers))
        if len(places) == rank - 1 and not keepdims:
            return None
        return said(b, "Reduction", data, p0=number, p1=0, p3=places, p4=keepdims, p5=1)


_spell_reductions()
