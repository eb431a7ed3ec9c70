"""Older forms of comparison and logic: broadcasting was asked for, and aligned by an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.dialects.leading_broadcast import explicit_broadcast
from graphport.ops.pages.comparison import And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Or, Xor

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

for _page in (Equal, Less, Greater, And, Or, Xor):
    explicit_broadcast(_page, until=6)


@GreaterOrEqual.lift("onnx", until=11)
def greater_or_equal_in_steps(builder: Builder, a: Value, b: Value) -> Value:
    """One or the other."""
    return builder(Or, builder(Greater, a, b), builder(Equal, a, b))


@LessOrEqual.lift("onnx", until=11)
def less_or_equal_in_steps(builder: Builder, a: Value, b: Value) -> Value:
    """One or the other."""
    return builder(Or, builder(Less, a, b), builder(Equal, a, b))
