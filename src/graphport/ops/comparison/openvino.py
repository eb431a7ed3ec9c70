"""Comparisons, logic and choices in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.comparison import And, Equal, Greater, IsInf, IsNaN, Less, Not, Or, Xor
from graphport.ops.declare import lift, lower
from graphport.ops.operands import dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


def _binary(page: Page, *words: str) -> None:
    """Register words of two operands for a page, the newest first."""

    def lowered(b: Builder, x: Value, y: Value) -> Value:
        return b(page, x, y)

    for word in words:
        lower("openvino", word)(lowered)

    @lift("openvino", page.name)
    def lifted(b: Builder, x: Value, y: Value) -> tuple[Value, ...]:
        return b.word(words[0], x, y)


_binary(Less, "opset1.Less")
_binary(Greater, "opset1.Greater")
_binary(And, "opset1.LogicalAnd")
_binary(Or, "opset1.LogicalOr")
_binary(Xor, "opset1.LogicalXor", "opset1.Xor")


@lower("openvino", "opset1.NotEqual")
def not_equal(b: Builder, x: Value, y: Value) -> Value:
    """Whether two elements differ; NaN differs from everything."""
    return b(Not, b(Equal, x, y))


@lower("openvino", "opset10.IsInf")
def is_inf(b: Builder, x: Value, *, detect_negative: bool = True, detect_positive: bool = True) -> Value:
    """Whether an element is infinite, of the signs that are asked for."""
    return b(IsInf, x, detect_negative=int(detect_negative), detect_positive=int(detect_positive))


@IsInf.lift("openvino")
def lift_is_inf(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> tuple[Value, ...]:
    return b.word("opset10.IsInf", x, detect_negative=bool(detect_negative), detect_positive=bool(detect_positive))


@lower("openvino", "opset10.IsFinite")
def is_finite(b: Builder, x: Value) -> Value:
    """Whether an element is neither infinite nor NaN; every integer is."""
    if not dtype_of(x).is_floating:
        return b(Equal, x, x)
    return b(Not, b(Or, b(IsInf, x), b(IsNaN, x)))
