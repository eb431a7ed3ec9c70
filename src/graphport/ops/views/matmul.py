"""Views of the pages of matmul; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class GemmView(View):
    """A node of `Gemm`."""

    operator = "Gemm"

    a: Value
    b: Value
    c: Value | None = None
    _: KW_ONLY
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0


@dataclass(slots=True, eq=False, repr=False)
class QLinearMatMulView(View):
    """A node of `QLinearMatMul`."""

    operator = "QLinearMatMul"

    a: Value
    a_scale: Value
    a_zero_point: Value
    b: Value
    b_scale: Value
    b_zero_point: Value
    y_scale: Value
    y_zero_point: Value
