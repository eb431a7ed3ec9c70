"""Comparison and logic in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.comparison import And, Equal, Greater, GreaterOrEqual, IsNaN, Less, LessOrEqual, Not, Or, Where, Xor
from graphport.ops.declare import lower
from graphport.ops.leading import said, spelled, trailed

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
):
    spelled(_page, _word, DType.BOOL)
spelled(Where, "select")


@lower("nnef", "ne")
def ne(b: Builder, x: Value, y: Value) -> Value:
    """Whether `x != y`."""
    return b(Not, b(Equal, *trailed(b, x, y)))


@IsNaN.lift("nnef")
def lift_is_nan(b: Builder, x: Value) -> tuple[Value, ...]:
    """Nothing else differs from itself."""
    return b.word("ne", x, x, facts=[TensorFact(DType.BOOL, b.dims(x))])


@Xor.lift("nnef")
def lift_xor(b: Builder, a: Value, other: Value) -> tuple[Value, ...]:
    """One, and not both."""
    either, both = (said(b, word, a, other, dtype=DType.BOOL)[0] for word in ("or", "and"))
    (neither,) = b.word("not", both, facts=[both.fact])
    return b.word("and", either, neither, facts=[either.fact])
