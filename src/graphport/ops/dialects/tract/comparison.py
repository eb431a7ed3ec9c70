"""Comparisons and choices in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import lift
from graphport.ops.dialects.leading_broadcast import emitted, led, trailed
from graphport.ops.dialects.nnef import comparison as nnef
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.tract.binding import DIALECT, ROWS, dtype_of, elementwise, unified, word
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


ROWS.lower("""
tract_core_is_inf(input, *, detect_positive: any = True, detect_negative: any = True)
    -> IsInf(input, detect_positive=detect_positive, detect_negative=detect_negative)
""")


# Lifting


@lift(DIALECT, "IsNaN")
def lift_is_nan(b: Builder, x: Value) -> Any:
    if dtype_of(x) is DType.FLOAT64:
        return nnef.lift_is_nan(b, x)
    return b.word("tract_core_is_nan", x, facts=[fact_like(x, DType.BOOL)])


@lift(DIALECT, "IsInf")
def lift_is_inf(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    """Of doubles what is beyond the largest one: tract asks half and single floats alone."""
    fact, sides = fact_like(x, DType.BOOL), (bool(detect_positive), bool(detect_negative))
    if dtype_of(x) is not DType.FLOAT64:
        given = dict(zip(("detect_positive", "detect_negative"), sides, strict=True))
        return b.word("tract_core_is_inf", x, facts=[fact], **given)
    if all(sides):
        x = b.word("abs", x, facts=[fact_like(x)])[0]
    most = b.like(x, np.full([1] * len(b.dims(x)), np.finfo(np.float64).max * (1 if sides[0] else -1)))
    return b.word("gt" if sides[0] else "lt", x, most, facts=[fact]) if any(sides) else None


def _turned(page: str, word: str) -> None:
    """Of integers the opposite of the opposite: tract 0.23.9 cuts products apart where `le` and `ge` compare ranges."""

    @lift(DIALECT, page)
    def lifted(b: Builder, x: Value, y: Value) -> Any:
        dtype = dtype_of(x)
        if dtype is None or not dtype.is_integer:
            return emitted(b, _WORDS[page], x, y, dtype=DType.BOOL)
        (opposite,) = emitted(b, word, x, y, dtype=DType.BOOL)
        return b.word("not", opposite, facts=[opposite.fact])

    del lifted


_WORDS = {"LessOrEqual": "le", "GreaterOrEqual": "ge"}
_turned("LessOrEqual", "gt")
_turned("GreaterOrEqual", "lt")


@lift(DIALECT, "Xor")
def lift_xor(b: Builder, x: Value, y: Value) -> Any:
    fact = TensorFact(DType.BOOL, broadcast(b.dims(x), b.dims(y)))
    return b.word("tract_core_xor", *led(b, x, y), facts=[fact])
