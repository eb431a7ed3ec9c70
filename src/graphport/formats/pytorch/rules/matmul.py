"""Matrix products in exported programs."""

from __future__ import annotations

from typing import Any

from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.functions.indexing_masks import diagonal_of
from graphport.formats.pytorch.rules.functions.matmul import matrix_power, vander
from graphport.formats.pytorch.rules.functions.reduction_norms import matrix_norm
from graphport.formats.pytorch.rules.matmul_factors import in_order, inverse, iterated, solved, swap_last_axes
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.inverse import MAX_ROWS, inverted
from graphport.ops.definitions.arithmetic import Abs, Log, Mul, Sign
from graphport.ops.definitions.matmul import Det, MatMul
from graphport.ops.definitions.reshape import Concat, Flatten, Reshape, Shape, Squeeze, Unsqueeze


@aten("aten._linalg_det", "aten.linalg_det", "aten.det")
def det(b: Builder, self: Any = None, A: Any = None) -> Any:
    y = b(Det, self if self is not None else A)
    if any(b.wants(place) for place in range(1, b.count)):
        message = "the LU factors of the determinant are used"
        raise UnsupportedError(message)
    return y if b.count == 1 else (y, *[None] * (b.count - 1))


def _is_small(b: Builder, x: Value) -> bool:
    """Whether matrices are small enough for the adjugate formula."""
    rows = b.dims(x, at_least=1)[-1]
    return isinstance(rows, int) and rows <= MAX_ROWS


def _inverse(b: Builder, x: Value) -> Value:
    return inverted(b, x) if _is_small(b, x) else inverse(b, x)


@aten("aten.linalg_inv_ex", by_position=False)
@aten("aten.inverse", "aten.linalg_inv")
def inv(b: Builder, self: Any = None, A: Any = None, check_errors: Any = False) -> Any:
    """Matrix inverse; infinite for a singular matrix, for which PyTorch raises an error."""
    del check_errors
    x: Value = self if self is not None else A
    y = _inverse(b, x)
    return y if b.count == 1 else (y, in_order(b, x))


@aten("aten.linalg_solve", "aten.linalg_solve_ex", "aten._linalg_solve_ex")
def solve(b: Builder, A: Value, B: Value, left: Any = True, check_errors: Any = False) -> Any:
    """Solve A X = B; B is a batch of vectors if its rank is one less than A's."""
    del check_errors
    if any(b.wants(place) for place in range(2, b.count)):
        message = "the LU factors of the matrix are used"
        raise UnsupportedError(message)
    is_vector = len(b.dims(B)) == 1 or (len(b.dims(B)) + 1 == len(b.dims(A)) and b.dims(B) == b.dims(A)[:-1])
    right = b(Unsqueeze, B, [-1]) if is_vector else B
    if _is_small(b, A):
        y = b(MatMul, inverted(b, A), right) if scalar_of(left) else b(MatMul, right, inverted(b, A))
    else:
        y = (
            solved(b, A, right)
            if scalar_of(left)
            else swap_last_axes(b, solved(b, swap_last_axes(b, A), swap_last_axes(b, right)))
        )
    y = b(Squeeze, y, [-1]) if is_vector else y
    return y if b.count == 1 else (y, None, None, in_order(b, A))[: b.count]


RULES.having(diagonal=diagonal_of).lower("""
# No number below 0, as PyTorch has it.
aten.logdet(self) -> Log(Det(self))
aten.linalg_diagonal(A, offset: any = 0, dim1: any = -2, dim2: any = -1) -> diagonal(A, offset, dim1, dim2)
aten.linalg_vecdot(x, y, dim=-1) -> ReduceSum(Mul(x, y), [dim], keepdims=0)
""")


@aten("aten.slogdet", "aten.linalg_slogdet", "aten._linalg_slogdet")
def slogdet(b: Builder, self: Any = None, A: Any = None) -> Any:
    y = b(Det, self if self is not None else A)
    if any(b.wants(place) for place in range(2, b.count)):
        message = "the LU factors of the determinant are used"
        raise UnsupportedError(message)
    return (b(Sign, y), b(Log, b(Abs, y)), *[None] * (b.count - 2))


@aten("aten.inner")
def inner(b: Builder, self: Value, other: Value) -> Value:
    """Inner products over the last axes of both tensors."""
    rank = len(b.dims(other))
    if not rank or not b.dims(self):
        return b(Mul, self, other)
    if rank == 1:
        return b(MatMul, self, other)
    rows = other if rank == 2 else b(Flatten, other, axis=rank - 1)
    y = b(MatMul, self, swap_last_axes(b, rows))
    if rank == 2:
        return y
    return b(Reshape, y, b(Concat, b(Shape, self, end=-1), b(Shape, other, end=-1), axis=0))


@aten("aten.linalg_matrix_power", "aten.matrix_power")
def powers(b: Builder, self: Value, n: Any) -> Value:
    """Matrix power; of the inverse if `n` is negative."""
    count = int(scalar_of(n))
    return matrix_power(b, self, count) if count >= 0 else matrix_power(b, _inverse(b, self), -count)


@aten("aten.linalg_cond")
def cond(b: Builder, self: Value, p: Any = None) -> Value:
    """Condition number: norm of the matrix times norm of its inverse."""
    if p is None or p in (2, -2, "nuc"):
        return iterated("singular values")(b)
    return b(Mul, matrix_norm(b, self, p), matrix_norm(b, _inverse(b, self), p))


@aten("aten.linalg_vander")
def linalg_vander(b: Builder, x: Value, N: Any = None) -> Value:
    """Vandermonde matrix with ascending powers from 0."""
    return vander(b, x, N, increasing=True)
