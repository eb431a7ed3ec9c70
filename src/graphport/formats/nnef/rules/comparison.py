"""Comparison and logic in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.nnef.rules.formula import BROADCAST, RULES, term
from graphport.ops.definitions.comparison import Equal, IsInf, Xor
from graphport.ops.lowering.leading_broadcast import emit_elementwise
from graphport.ops.lowering.operands import dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

BROADCAST.lower("""
eq(x, y) -> Equal(*trailed(x, y))
lt(x, y) <-> Less(*trailed(x, y))
gt(x, y) <-> Greater(*trailed(x, y))
le(x, y) <-> LessOrEqual(*trailed(x, y))
ge(x, y) <-> GreaterOrEqual(*trailed(x, y))
and(x, y) <-> And(*trailed(x, y))
or(x, y) <-> Or(*trailed(x, y))
select(condition, true_value, false_value) <-> Where(*trailed(condition, true_value, false_value))
""")


RULES.lower("ne(x, y) -> Not(Equal(*trailed(x, y)))")


# Nothing else differs from itself.
RULES.export_rules("IsNaN -> ne(x, x)")


@IsInf.export_rule("nnef")
def export_is_inf(
    b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1
) -> tuple[Value, ...] | None:
    """Export IsInf: greater than the largest float32."""
    dtype = x.dtype
    if dtype is None or not (detect_negative or detect_positive):
        return None
    most = float(np.finfo(np.float32).max)
    if detect_negative and detect_positive:
        x = term(b, "abs", x)
    if detect_positive:
        return b.emit("gt", x, b.constant(most, DType.FLOAT32))
    return b.emit("lt", x, b.constant(-most, DType.FLOAT32))


@Equal.export_rule("nnef")
def export_equal(b: Builder, a: Value, other: Value) -> tuple[Value, ...]:
    """Export Equal. `eq` compares numbers only, so booleans become (a and b) or not (a or b)."""
    if dtype_of(a) is not DType.BOOL:
        return emit_elementwise(b, "eq", a, other, dtype=DType.BOOL)
    either, both = (emit_elementwise(b, op_type, a, other, dtype=DType.BOOL)[0] for op_type in ("or", "and"))
    return b.emit("or", both, term(b, "not", either))


@Xor.export_rule("nnef")
def export_xor(b: Builder, a: Value, other: Value) -> tuple[Value, ...]:
    """Export Xor as (a or b) and not (a and b)."""
    either, both = (emit_elementwise(b, op_type, a, other, dtype=DType.BOOL)[0] for op_type in ("or", "and"))
    return b.emit("and", either, term(b, "not", both))
