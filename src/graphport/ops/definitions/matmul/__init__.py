"""Products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim, decide_equal, product
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.matmul.determinant import Det
from graphport.ops.definitions.matmul.quantized import MatMulInteger, QLinearMatMul
from graphport.ops.definitions.matmul.shapes import multiplied, product_macs
from graphport.ops.types import FLOATS, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.matmul import GemmView

__all__ = ["Det", "Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"]

NUMBERS = FLOATS | {DType.INT32, DType.INT64, DType.UINT32, DType.UINT64}
T = Annotated[Tensor, Types("T", NUMBERS)]


def _matmul_shape(a: TensorFact, b: TensorFact) -> TensorFact:
    return a.with_shape(multiplied(a.dims, b.dims))


@op(
    shape=_matmul_shape,
    since=1,
    exactness="accumulation",
    role="weighted",
    macs=product_macs,
    ranks={"a": (1, None), "b": (1, None)},
)
def MatMul(a: T, b: T) -> T:
    """Matrix product of the last two axes; leading axes broadcast, a vector is treated as a row or a column.

    Shapes: a [*s, M, K], b [*t, K, N] → [*broadcast(s, t), M, N].

    Raises:
        ShapeError: the inner dims differ, an operand has rank 0, or leading dims do not broadcast.

    Source: ONNX MatMul-13.
    """
    if a.dtype.kind in "iu":
        return np.matmul(a, b)
    wide = np.result_type(a.dtype, np.float32)
    return np.matmul(a.astype(wide), b.astype(wide)).astype(a.dtype)


@viewed
def _gemm_shape(op: GemmView[TensorFact]) -> TensorFact:
    for name, fact in (("a", op.a), ("b", op.b)):
        if fact.rank != 2:
            message = f"{name} has rank {fact.rank}"
            raise ShapeError(message, "expected rank 2; use MatMul for other ranks")
    rows, inner = reversed(op.a.dims) if op.transA else op.a.dims
    shape = multiplied((rows, inner), tuple(reversed(op.b.dims)) if op.transB else op.b.dims)
    _check_summand(op.c, shape)
    return op.a.with_shape(shape)


def _check_summand(c: TensorFact | None, shape: tuple[Dim, ...]) -> None:
    if c is None or c.shape is None:
        return
    fits = len(c.shape) <= 2 and all(
        decide_equal(c.shape[-axis], 1) is not False or decide_equal(c.shape[-axis], shape[-axis]) is not False
        for axis in range(1, len(c.shape) + 1)
    )
    if not fits:
        message = f"c has the shape {list(c.shape)}, the product {list(shape)}"
        raise ShapeError(message, "c must broadcast to the product and not make it larger")


def _gemm_macs(y: TensorFact, a: TensorFact, *_operands: object, transA: int = 0, **_attributes: object) -> Dim:
    return product([*y.dims, a.dims[0 if transA else 1]])


@op(
    bias="c",
    shape=_gemm_shape,
    since=7,
    exactness="accumulation",
    role="weighted",
    macs=_gemm_macs,
    ranks={"a": 2, "b": 2, "c": (0, 2)},
)
def Gemm(
    a: T, b: T, c: T | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> T:
    """`alpha * a @ b + beta * c`, with `a` or `b` transposed before if `transA` or `transB`; `c` broadcasts.

    Shapes: a [M, K] (or [K, M]), b [K, N] (or [N, K]), c broadcasts to [M, N] → [M, N].

    Raises:
        ShapeError: a factor is no matrix, the inner dims differ, or `c` does not broadcast.

    Source: ONNX Gemm-13.
    """
    wide = np.result_type(a.dtype, np.float32) if a.dtype.kind not in "iu" else a.dtype
    left, right = (a.T if transA else a).astype(wide), (b.T if transB else b).astype(wide)
    y = np.matmul(left, right)
    if alpha != 1:
        y = (y * alpha).astype(wide)
    if c is not None:
        y = y + (c.astype(wide) if beta == 1 else (c.astype(wide) * beta).astype(wide))
    return y.astype(a.dtype)
