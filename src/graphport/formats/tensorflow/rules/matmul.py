"""Products of matrices in TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.definitions.arithmetic import Mul, Sub
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.matmul import Det, MatMul
from graphport.ops.lowering.operands import cast, dtype_of, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def swap_last_axes(b: Builder, x: Value) -> Value:
    """`x` with its last two axes exchanged."""
    rank = len(b.dims(x, at_least=2))
    return transposed(b, x, (*range(rank - 2), rank - 1, rank - 2))


@operator("MatMul")
def matmul(b: Builder, x: Value, y: Value, *, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    """The product of two matrices."""
    return b(MatMul, swap_last_axes(b, x) if transpose_a else x, swap_last_axes(b, y) if transpose_b else y)


@operator("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(
    b: Builder, x: Value, y: Value, *, adj_x: bool = False, adj_y: bool = False, Tout: DType | None = None
) -> Value:
    """Matrix products over the last two axes, with broadcast of the leading axes."""
    x, y = (swap_last_axes(b, x) if adj_x else x), (swap_last_axes(b, y) if adj_y else y)
    if Tout is not None and Tout is not dtype_of(x):
        x, y = cast(b, x, Tout), cast(b, y, Tout)
    return b(MatMul, x, y)


@operator("MatrixDeterminant", "BatchMatrixDeterminant")
def matrix_determinant(b: Builder, x: Value) -> Value:
    """Determinants of the last two axes."""
    return b(Det, x)


@operator("Cross")
def cross(b: Builder, x: Value, y: Value) -> Value:
    """Cross products of vectors of three elements."""
    x1, x2, y1, y2 = (b(Gather, each, order, axis=-1) for each in (x, y) for order in ((1, 2, 0), (2, 0, 1)))
    return b(Sub, b(Mul, x1, y2), b(Mul, x2, y1))
