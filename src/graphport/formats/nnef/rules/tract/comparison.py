"""Comparisons and choices in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.nnef.rules.tract.binding import BROADCAST, DIALECT, RULES, import_rule, unified
from graphport.formats.nnef.rules.tract.rule_table import fact_like
from graphport.ops.declare import export_rule
from graphport.ops.lowering.leading_broadcast import append_axes, emit_elementwise
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

BROADCAST.lower("""
lt(x, y) -> Less(*aligned(x, y))
le(x, y) -> LessOrEqual(*aligned(x, y))
gt(x, y) -> Greater(*aligned(x, y))
ge(x, y) -> GreaterOrEqual(*aligned(x, y))
eq(x, y) -> Equal(*aligned(x, y))
ne(x, y) -> Not(Equal(*aligned(x, y)))
tract_core_is_nan(x) -> IsNaN(x)
tract_core_xor(x, y) <-> Xor(*aligned(x, y))
""")


@import_rule("select")
def select(b: Builder, condition: Value, true_value: Value, false_value: Value) -> Value:
    """Select between two values."""
    emit = OpBuilder(b)
    test = condition if condition.dtype in (None, DType.BOOL) else emit("Cast", condition, to=DType.BOOL)
    yes, no = unified(b, true_value, false_value)
    return emit("Where", *append_axes(b, test, yes, no))


RULES.lower("""
tract_core_is_inf(input, *, detect_positive: any = True, detect_negative: any = True)
    -> IsInf(input, detect_positive=detect_positive, detect_negative=detect_negative)
""")


# Export rules


RULES.export_rules("""
IsNaN
    -> is_double(x): ne(x, x)
    -> tract_core_is_nan(x)
""")


@export_rule(DIALECT, "IsInf")
def export_is_inf(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    """Export IsInf; float64 is compared with the largest number: tract tests float16 and float32 only."""
    sides = bool(detect_positive), bool(detect_negative)
    if x.dtype is not DType.FLOAT64:
        given = dict(zip(("detect_positive", "detect_negative"), sides, strict=True))
        return b.emit("tract_core_is_inf", x, **given)
    if all(sides):
        x = b.emit("abs", x, facts=[fact_like(x)])[0]
    most = b.like(x, np.full([1] * len(b.dims(x)), np.finfo(np.float64).max * (1 if sides[0] else -1)))
    return b.emit("gt" if sides[0] else "lt", x, most) if any(sides) else None


# tract 0.23.9 miscompiles products around `le` and `ge` of integers, and splits a `select` by `lt`, `le` or `ge` of two
# ranges at the index of another axis. It analyzes no `gt`.
@export_rule(DIALECT, "Less")
def export_less(b: Builder, x: Value, y: Value) -> Any:
    return emit_elementwise(b, "gt", y, x, dtype=DType.BOOL)


@export_rule(DIALECT, "LessOrEqual")
def export_less_or_equal(b: Builder, x: Value, y: Value) -> Any:
    return _negate_greater(b, x, y) or emit_elementwise(b, "le", x, y, dtype=DType.BOOL)


@export_rule(DIALECT, "GreaterOrEqual")
def export_greater_or_equal(b: Builder, x: Value, y: Value) -> Any:
    return _negate_greater(b, y, x) or emit_elementwise(b, "ge", x, y, dtype=DType.BOOL)


def _negate_greater(b: Builder, x: Value, y: Value) -> Any:
    """Return not (x > y) of integers; NaN makes it another result for floats."""
    if x.dtype is None or not x.dtype.is_integer:
        return None
    return b.emit("not", *emit_elementwise(b, "gt", x, y, dtype=DType.BOOL))
