"""Linear algebra of TensorFlow: matrices in the last two axes, of few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.tensorflow.rules.binding import by_pytorch, operator
from graphport.ops.lowering.operands import transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _adjoint(b: Builder, x: Value, *, is_asked: bool) -> Value:
    rank = len(b.dims(x))
    return transposed(b, x, (*range(rank - 2), rank - 1, rank - 2)) if is_asked else x


@operator("Cholesky")
def cholesky(b: Builder, x: Value) -> Value:
    """The lower factor of symmetric matrices."""
    return by_pytorch(b, "aten.linalg_cholesky.default", x)[0]


@operator("MatrixInverse")
def matrix_inverse(b: Builder, x: Value, *, adjoint: bool = False) -> Value:
    """The inverse of matrices, or of their transposes."""
    return by_pytorch(b, "aten.linalg_inv.default", _adjoint(b, x, is_asked=adjoint))[0]


@operator("LogMatrixDeterminant")
def log_matrix_determinant(b: Builder, x: Value) -> list[Value]:
    """The sign of the determinant, and the logarithm of its magnitude."""
    return by_pytorch(b, "aten.linalg_slogdet.default", x, count=2)


@operator("MatrixSolve")
def matrix_solve(b: Builder, x: Value, right: Value, *, adjoint: bool = False) -> Value:
    """The solutions of linear equations, a column each."""
    return by_pytorch(b, "aten.linalg_solve.default", _adjoint(b, x, is_asked=adjoint), right)[0]


@operator("MatrixTriangularSolve")
def triangular_solve(b: Builder, x: Value, right: Value, *, lower: bool = True, adjoint: bool = False) -> Value:
    """The solutions of linear equations with triangular matrices."""
    x = _adjoint(b, x, is_asked=adjoint)
    return by_pytorch(b, "aten.linalg_solve_triangular.default", x, right, upper=lower == adjoint)[0]
