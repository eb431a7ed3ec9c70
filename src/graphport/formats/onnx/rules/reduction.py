"""Older forms of reductions: axes were an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import UNKNOWN
from graphport.formats.onnx.rules.older import OLD_WORDS, RULES, from_front, integers, unsupported
from graphport.ops.lowering.operands import needed_integer
from graphport.ops.views.reduction import TopKView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


RULES.lower("ReduceSum(data, *, axes=None, keepdims=1) -> ReduceSum(data, axes, keepdims=keepdims)", until=12)
RULES.lower(
    """
ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp,
    ReduceSumSquare(data, *, axes=None, keepdims=1) -> _(data, axes, keepdims=keepdims)
""",
    until=17,
)
RULES.lower("TopK(x, *, k, axis=-1) -> TopK(x, [k], axis=axis)", until=9)
RULES.lower("TopK(x, k, *, axis=-1) -> TopK(x, k, axis=axis)", until=10)


def _named(b: Builder, axes: Value | None, data: Value) -> tuple[int, ...]:
    """Return the axes in an operand; empty if the operand is absent."""
    return () if axes is None else from_front(b, integers(axes, "axes"), data)


_WITH_AXES = OLD_WORDS.having(named=_named)
_WITH_AXES.export_rules(
    """
ReduceSum
    -> places = named(axes, data); places: ReduceSum(data, axes=places, keepdims=keepdims)
    -> noop_with_empty_axes: unsupported("noop_with_empty_axes is not supported")
    -> ReduceSum(data, keepdims=keepdims)
""",
    until=12,
)
_WITH_AXES.export_rules(
    """
ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp, ReduceSumSquare
    -> places = named(axes, data); places: _(data, axes=places, keepdims=keepdims)
    -> noop_with_empty_axes: unsupported("noop_with_empty_axes is not supported")
    -> _(data, keepdims=keepdims)
""",
    until=17,
)


@TopKView.export_rule("onnx", until=10)
def topk_of_the_largest(b: Builder, op: TopKView) -> tuple[Value, ...]:
    """Export TopK to opsets 1 to 10: sorted largest elements; before opset 10, `k` is an attribute."""
    unsupported((not op.largest, "smallest = true is not supported"))
    place, facts = from_front(b, (op.axis,), op.x)[0], [UNKNOWN] * b.count
    if b.version is not None and b.version >= 10:
        return b.emit("TopK", op.x, op.k, facts=facts, axis=place)
    return b.emit("TopK", op.x, facts=facts, axis=place, k=needed_integer(op.k, "k"))
