"""Functions of real numbers, which OpenVINO also computes of integers: as reals, rounded to integers again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import lower
from graphport.ops.dialects.operands import cast
from graphport.ops.pages.arithmetic import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Cos,
    Cosh,
    Erf,
    Exp,
    Log,
    Round,
    Sin,
    Sinh,
    Sqrt,
    Tan,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


def of_reals(page: Page, word: str) -> None:
    """Register `word` for a page that takes reals alone."""

    @lower("openvino", word)
    def lowered(b: Builder, x: Value, **attributes: float) -> Value:
        dtype = x.fact.dtype if isinstance(x.fact, TensorFact) else None
        if dtype is None or not dtype.is_integer:
            return b(page, x, **attributes)
        return cast(b, b(Round, b(page, cast(b, x, DType.FLOAT32), **attributes)), dtype)


for _page, _opset in (
    *((page, 1) for page in (Acos, Asin, Atan, Cos, Cosh, Erf, Exp, Log, Sin, Sinh, Sqrt, Tan)),
    *((page, 4) for page in (Acosh, Asinh, Atanh)),
):
    of_reals(_page, f"opset{_opset}.{_page.name}")
