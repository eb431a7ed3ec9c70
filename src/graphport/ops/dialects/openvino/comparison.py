"""Comparisons, logic and choices in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import UnsupportedError, lift, lower
from graphport.ops.dialects.openvino.binding import ROWS
from graphport.ops.dialects.operands import cast, dtype_of
from graphport.ops.pages.comparison import (
    And,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Or,
    Where,
    Xor,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


_CHOSEN = {DType.BOOL: DType.UINT8, DType.INT16: DType.INT32, DType.UINT16: DType.INT32}
"""What ONNX Runtime does not choose between, and a type that it chooses between and that has all these numbers."""


def _binary(page: Page, *words: str) -> None:
    """Register words of two operands for a page, the newest first."""

    def lowered(b: Builder, x: Value, y: Value) -> Value:
        return b(page, x, y)

    for word in words:
        lower("openvino", word)(lowered)

    @lift("openvino", page.name)
    def lifted(b: Builder, x: Value, y: Value) -> tuple[Value, ...]:
        return b.word(words[0], x, y)


_binary(And, "opset1.LogicalAnd")
_binary(Or, "opset1.LogicalOr")
_binary(Xor, "opset1.LogicalXor", "opset1.Xor")


def _ordered(page: Page, word: str) -> None:
    """Register a word that also puts `false` before `true`."""

    @lower("openvino", word)
    def lowered(b: Builder, x: Value, y: Value) -> Value:
        if dtype_of(x) is not DType.BOOL:
            return b(page, x, y)
        return b(page, *(cast(b, side, DType.INT32) for side in (x, y)))

    @lift("openvino", page.name)
    def lifted(b: Builder, x: Value, y: Value) -> tuple[Value, ...]:
        return b.word(word, x, y)


_ordered(Less, "opset1.Less")
_ordered(LessOrEqual, "opset1.LessEqual")
_ordered(Greater, "opset1.Greater")
_ordered(GreaterOrEqual, "opset1.GreaterEqual")


@lower("openvino", "opset1.Select")
def select(b: Builder, condition: Value, x: Value, y: Value, *, auto_broadcast: str = "numpy") -> Value:
    """One of two elements.

    The rule `pdpd` fits the others to `x` from the last axis on, as NumPy does where that has all axes.
    """
    if auto_broadcast not in ("numpy", "none", "pdpd"):
        message = f"a choice by the rule {auto_broadcast!r}"
        raise UnsupportedError(message)
    dtype = x.fact.dtype if isinstance(x.fact, TensorFact) else None
    if dtype not in _CHOSEN:
        return b(Where, condition, x, y)
    wide = _CHOSEN[dtype]
    return cast(b, b(Where, condition, cast(b, x, wide), cast(b, y, wide)), dtype)


ROWS.lift("""
Where -> opset1.Select(condition, x, y)
IsInf -> opset10.IsInf(x, detect_negative=detect_negative == 1, detect_positive=detect_positive == 1)
""")


ROWS.lower("""
opset1.NotEqual(x, y) -> Not(Equal(x, y))
opset10.IsInf(x, *, detect_negative=True, detect_positive=True)
    -> IsInf(x, detect_negative=detect_negative, detect_positive=detect_positive)
opset10.IsFinite(x)
    -> is_floating(x): Not(Or(IsInf(x), IsNaN(x)))
    -> Equal(x, x)
""")
