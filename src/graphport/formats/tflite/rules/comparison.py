"""Comparisons, logic and choices of TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import NARROW, Operator, import_rule
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops import registry
from graphport.ops.definitions.comparison import And, Not, Or, Where
from graphport.ops.lowering.operands import cast, dtype_of, reshaped

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _compare_widened(b: Builder, operator: str, x: Value, y: Value) -> Value:
    """Compare; int8 and int16 are compared in int32."""
    if dtype_of(x) in NARROW:
        x, y = cast(b, x, DType.INT32), cast(b, y, DType.INT32)
    return b(registry.op_defs()[operator], x, y)


# int16 kernels compare stored integers and ignore quantization parameters.
RULES.having(compared=_compare_widened).lower(
    """
EQUAL(x, y) -> compared("Equal", x, y)
NOT_EQUAL(x, y) -> Not(compared("Equal", x, y))
LESS(x, y) -> compared("Less", x, y)
LESS_EQUAL(x, y) -> compared("LessOrEqual", x, y)
GREATER(x, y) -> compared("Greater", x, y)
GREATER_EQUAL(x, y) -> compared("GreaterOrEqual", x, y)
""",
    is_raw=DType.INT16,
    layout="any",
)
RULES.lower(
    """
LOGICAL_AND(x, y) -> And(x, y)
LOGICAL_OR(x, y) -> Or(x, y)
LOGICAL_NOT(x) -> Not(x)
""",
    layout="any",
)


@import_rule("SELECT", moves=(1, 2))
def select(op: Operator) -> Value:
    """Select elements of x where the condition holds, else of y; a condition of rank 1 selects rows."""
    condition, rank = op.raw(0), len(op.dims(1))
    if len(op.dims(0)) == 1 and rank > 1:
        condition = reshaped(op.b, condition, (-1, *[1] * (rank - 1)))
    return select_elements(op.b, condition, op[1], op[2])


def select_elements(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Emit Where; for types that ONNX Runtime lacks, And and Or of booleans, or Where of int32 and a cast."""
    own = dtype_of(x)
    if own is DType.BOOL:
        return b(Or, b(And, condition, x), b(And, b(Not, condition), y))
    if own in (DType.INT16, DType.UINT16):
        return cast(b, b(Where, condition, cast(b, x, DType.INT32), cast(b, y, DType.INT32)), own)
    return b(Where, condition, x, y)


RULES.having(chosen=select_elements).lower(
    "SELECT_V2(condition, x, y) -> chosen(condition, x, y)", moves=(1, 2), layout="any"
)
