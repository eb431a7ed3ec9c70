"""Comparisons and choices in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import lift
from graphport.ops.dialects.leading_broadcast import led, trailed
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.tract.binding import DIALECT, dtype_of, elementwise, unified, word
from graphport.ops.dialects.tract.rows import fact_like
from graphport.ops.shapes import broadcast

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

for _page, _word in (
    ("Less", "lt"),
    ("LessOrEqual", "le"),
    ("Greater", "gt"),
    ("GreaterOrEqual", "ge"),
    ("Equal", "eq"),
):
    elementwise(_page, _word)
for _page, _word in (("IsNaN", "tract_core_is_nan"), ("Xor", "tract_core_xor")):
    elementwise(_page, _word)


@word("ne")
def ne(b: Builder, x: Value, y: Value) -> Value:
    """Whether they differ."""
    emit = OpBuilder(b)
    return emit("Not", emit("Equal", *trailed(b, *unified(b, x, y))))


@word("select")
def select(b: Builder, condition: Value, true_value: Value, false_value: Value) -> Value:
    """One or the other."""
    emit = OpBuilder(b)
    test = condition if dtype_of(condition) in (None, DType.BOOL) else emit("Cast", condition, to=DType.BOOL)
    yes, no = unified(b, true_value, false_value)
    return emit("Where", *trailed(b, test, yes, no))


@word("tract_core_is_inf")
def is_inf(b: Builder, input: Value, *, detect_positive: bool = True, detect_negative: bool = True) -> Value:
    """Whether an entry is infinite, on the sides that count."""
    return OpBuilder(b)("IsInf", input, detect_positive=int(detect_positive), detect_negative=int(detect_negative))


# Lifting


@lift(DIALECT, "IsNaN")
def lift_is_nan(b: Builder, x: Value) -> Any:
    return b.word("tract_core_is_nan", x, facts=[fact_like(x, DType.BOOL)])


@lift(DIALECT, "IsInf")
def lift_is_inf(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    given = {"detect_positive": bool(detect_positive), "detect_negative": bool(detect_negative)}
    return b.word("tract_core_is_inf", x, facts=[fact_like(x, DType.BOOL)], **given)


@lift(DIALECT, "Xor")
def lift_xor(b: Builder, x: Value, y: Value) -> Any:
    fact = TensorFact(DType.BOOL, broadcast(b.dims(x), b.dims(y)))
    return b.word("tract_core_xor", *led(b, x, y), facts=[fact])
