"""Comparison and logic in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.comparison import And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Not, Or, Where
from graphport.ops.declare import lower
from graphport.ops.leading import spelled

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

for _page, _word in (
    (Equal, "eq"),
    (Less, "lt"),
    (Greater, "gt"),
    (LessOrEqual, "le"),
    (GreaterOrEqual, "ge"),
    (And, "and"),
    (Or, "or"),
    (Where, "select"),
):
    spelled(_page, _word)


@lower("nnef", "ne")
def ne(b: Builder, x: Value, y: Value) -> Value:
    """Whether `x != y`."""
    from graphport.ops.leading import trailed

    return b(Not, b(Equal, *trailed(b, x, y)))
