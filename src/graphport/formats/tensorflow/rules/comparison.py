"""Comparisons, logic and choices of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import RULES, operator
from graphport.ops.definitions.comparison import And, Not, Or, Where
from graphport.ops.lowering.operands import dtype_of, reshaped

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

RULES.lower("""
Equal(x, y) -> Equal(x, y)
NotEqual(x, y) -> Not(Equal(x, y))
Less(x, y) -> Less(x, y)
LessEqual(x, y) -> LessOrEqual(x, y)
Greater(x, y) -> Greater(x, y)
GreaterEqual(x, y) -> GreaterOrEqual(x, y)
LogicalAnd(x, y) -> And(x, y)
LogicalOr(x, y) -> Or(x, y)
LogicalNot(x) -> Not(x)
IsNan(x) -> IsNaN(x)
IsInf(x) -> IsInf(x)
IsFinite(x) -> Not(Or(IsNaN(x), IsInf(x)))
ApproximateEqual(x, y, *, tolerance=0.00001) -> Less(Abs(Sub(x, y)), tolerance)
""")


@operator("Select")
def select(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Elements of `x` where the condition holds, else of `y`; a vector of conditions chooses rows."""
    rank = len(b.dims(x))
    if len(b.dims(condition)) == 1 and rank > 1:
        condition = reshaped(b, condition, (-1, *[1] * (rank - 1)))
    return select_by_mask(b, condition, x, y)


@operator("SelectV2")
def select_v2(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Elements of `x` where the condition holds, else of `y`, with broadcasting."""
    return select_by_mask(b, condition, x, y)


def select_by_mask(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Elements of `x` where the condition holds, else of `y`."""
    if dtype_of(x) is DType.BOOL:
        return b(Or, b(And, condition, x), b(And, b(Not, condition), y))
    return b(Where, condition, x, y)
