"""Older forms of reductions: axes were an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.declare import lower
from graphport.ops.reduction import (
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
    TopK,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


def _with_attribute(page: Page, until: int) -> None:
    @lower("onnx", page.name, until=until)
    def lowered(b: Builder, data: Value, *, axes: tuple[int, ...] | None = None, keepdims: int = 1) -> Value:
        operand = None if axes is None else b.constant(np.array(axes, np.int64))
        return b(page, data, operand, keepdims=keepdims)


_with_attribute(ReduceSum, 12)
for _page in (
    ReduceMean,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceSumSquare,
):
    _with_attribute(_page, 17)


@TopK.lower("onnx", until=9)
def topk_1(b: Builder, x: Value, *, k: int, axis: int = -1) -> tuple[Value, ...]:
    """The count was an attribute."""
    return b.results(TopK, b.count, x, b.constant(np.array([k], np.int64)), axis=axis)


@TopK.lower("onnx", until=10)
def topk_10(b: Builder, x: Value, k: Value, *, axis: int = -1) -> tuple[Value, ...]:
    """Always the largest, in order."""
    return b.results(TopK, b.count, x, k, axis=axis)
