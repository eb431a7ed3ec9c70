"""Comparisons, logic and choices of TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.dialects.operands import cast, dtype_of, reshaped
from graphport.ops.dialects.tflite.binding import Operator, word
from graphport.ops.dialects.tflite.rows import ROWS
from graphport.ops.pages.comparison import And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Not, Or, Where

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page

_NARROW = frozenset((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16))


def _compared(name: str, page: Page, *, is_opposite: bool = False) -> None:
    @word(name, layout="any")
    def rule(op: Operator) -> Value:
        # Kernels of int16 compare what is stored, whatever it stands for.
        is_short = dtype_of(op.raw(0)) is DType.INT16
        x, y = (op.raw(0), op.raw(1)) if is_short else (op[0], op[1])
        if dtype_of(x) in _NARROW:
            x, y = cast(op.b, x, DType.INT32), cast(op.b, y, DType.INT32)
        found = op.b(page, x, y)
        return op.b(Not, found) if is_opposite else found

    del rule


_compared("EQUAL", Equal)
_compared("NOT_EQUAL", Equal, is_opposite=True)
_compared("LESS", Less)
_compared("LESS_EQUAL", LessOrEqual)
_compared("GREATER", Greater)
_compared("GREATER_EQUAL", GreaterOrEqual)


ROWS.lower(
    """
LOGICAL_AND(x, y) -> And(x, y)
LOGICAL_OR(x, y) -> Or(x, y)
LOGICAL_NOT(x) -> Not(x)
""",
    layout="any",
)


@word("SELECT", moves=(1, 2))
def select(op: Operator) -> Value:
    """Elements of x where the condition holds, else of y; a condition of rank 1 chooses rows."""
    condition, rank = op.raw(0), len(op.dims(1))
    if len(op.dims(0)) == 1 and rank > 1:
        condition = reshaped(op.b, condition, (-1, *[1] * (rank - 1)))
    return chosen(op.b, condition, op[1], op[2])


def chosen(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Elements of x where the condition holds, else of y, of all types that ONNX Runtime does not choose between."""
    own = dtype_of(x)
    if own is DType.BOOL:
        return b(Or, b(And, condition, x), b(And, b(Not, condition), y))
    if own in (DType.INT16, DType.UINT16):
        return cast(b, b(Where, condition, cast(b, x, DType.INT32), cast(b, y, DType.INT32)), own)
    return b(Where, condition, x, y)


ROWS.having(chosen=chosen).lower("SELECT_V2(condition, x, y) -> chosen(condition, x, y)", moves=(1, 2), layout="any")
