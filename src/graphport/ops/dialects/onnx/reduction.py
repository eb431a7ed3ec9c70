"""Older forms of reductions: axes were an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import UNKNOWN
from graphport.ops.dialects.onnx.older import ROWS, from_front, integers, unsupported
from graphport.ops.pages.reduction import (
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
from graphport.ops.views.reduction import TopKView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


ROWS.lower("ReduceSum(data, *, axes=None, keepdims=1) -> ReduceSum(data, axes, keepdims=keepdims)", until=12)
ROWS.lower(
    """
ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp,
    ReduceSumSquare(data, *, axes=None, keepdims=1) -> _(data, axes, keepdims=keepdims)
""",
    until=17,
)
ROWS.lower("TopK(x, *, k, axis=-1) -> TopK(x, [k], axis=axis)", until=9)
ROWS.lower("TopK(x, k, *, axis=-1) -> TopK(x, k, axis=axis)", until=10)


def _emitted_with_attribute(page: Page, until: int) -> None:
    @page.lift("onnx", until=until)
    def lifted(
        b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value:
        places = () if axes is None else from_front(b, integers(axes, "axes"), data)
        if places:
            return b.word(page.name, data, axes=places, keepdims=keepdims)[0]
        unsupported((noop_with_empty_axes != 0, "without axes it was over all of them"))
        return b.word(page.name, data, keepdims=keepdims)[0]


_emitted_with_attribute(ReduceSum, 12)
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
    _emitted_with_attribute(_page, 17)


@TopKView.lift("onnx", until=10)
def topk_of_the_largest(b: Builder, op: TopKView) -> tuple[Value, ...]:
    """Always the largest, in order; up to opset 9 their count was an attribute."""
    unsupported((not op.largest, "it was of the largest"))
    place, facts = from_front(b, (op.axis,), op.x)[0], [UNKNOWN] * b.count
    if b.version is not None and b.version >= 10:
        return b.word("TopK", op.x, op.k, facts=facts, axis=place)
    return b.word("TopK", op.x, facts=facts, axis=place, k=integers(op.k, "k")[0])
