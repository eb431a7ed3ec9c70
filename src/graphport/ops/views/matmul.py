"""Views of the pages of matmul; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class GemmView(View[T]):
    """A node of `Gemm`."""

    operator = "Gemm"

    a: T
    b: T
    c: T | None = None
    _: KW_ONLY
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0


@dataclass(slots=True, eq=False, repr=False)
class QLinearMatMulView(View[T]):
    """A node of `QLinearMatMul`."""

    operator = "QLinearMatMul"

    a: T
    a_scale: T
    a_zero_point: T
    b: T
    b_scale: T
    b_zero_point: T
    y_scale: T
    y_zero_point: T
