"""Functions of real numbers, which OpenVINO also computes of integers: as reals, rounded to integers again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.dialects.openvino.binding import ROWS
from graphport.ops.dialects.operands import cast
from graphport.ops.pages.arithmetic import Round

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _integer(x: Value) -> DType | None:
    dtype = x.fact.dtype if isinstance(x.fact, TensorFact) else None
    return dtype if dtype is not None and dtype.is_integer else None


def _real(b: Builder, x: Value) -> Value:
    """Integers as reals."""
    return x if _integer(x) is None else cast(b, x, DType.FLOAT32)


def _rounded(b: Builder, y: Value, x: Value) -> Value:
    """What was computed of `x`, rounded where that is of integers."""
    dtype = _integer(x)
    return y if dtype is None else cast(b, b(Round, y), dtype)


REALS = ROWS.having(real=_real, rounded=_rounded)
"""Rows with what makes a function of reals one of integers, too."""
REALS.lower("""
opset1.Acos, opset1.Asin, opset1.Atan, opset1.Cos, opset1.Cosh, opset1.Erf, opset1.Exp, opset1.Log, opset1.Sin,
    opset1.Sinh, opset1.Sqrt, opset1.Tan, opset4.Acosh, opset4.Asinh, opset4.Atanh(x) -> rounded(_(real(x)), x)
""")
