"""Matrix factorizations in exported programs, unrolled over rows, because ONNX has no operator for them.

The number of rows must be static and small, because each row adds nodes. Iterative algorithms with data-dependent
termination (eigenvalues, singular values) are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import scalar_of
from graphport.formats.pytorch.rules.functions.indexing_slices import sliced
from graphport.formats.pytorch.rules.overloads import aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import Refusal, UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Mul, Neg, Sqrt, Sub
from graphport.ops.definitions.comparison import Equal, Less, Where
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reduction import ArgMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Shape
from graphport.ops.lowering.operands import dtype_of, sizes, transposed

LARGEST = 32
"""Maximum rows of a factorized matrix."""


def _rows(b: Builder, x: Value) -> tuple[int, int]:
    """Return the numbers of rows and columns.

    Raises:
        UnsupportedError: they are not static, or exceed the limit.
    """
    rows, columns = sizes(b.dims(x)[-2:], "the size of a matrix")
    if not 0 < max(rows, columns) <= LARGEST or not min(rows, columns):
        message = f"a {rows} x {columns} matrix, expected 1 to {LARGEST} rows and columns"
        raise UnsupportedError(message)
    return rows, columns


def _square(b: Builder, x: Value) -> int:
    rows, columns = _rows(b, x)
    if rows != columns:
        message = f"a {rows} x {columns} matrix is not square"
        raise UnsupportedError(message)
    return rows


def swap_last_axes(b: Builder, x: Value) -> Value:
    """Transpose the last two axes."""
    rank = len(b.dims(x))
    return transposed(b, x, [*range(rank - 2), rank - 1, rank - 2])


def _slice_matrix(
    b: Builder, x: Value, rows: tuple[int, int | None], columns: tuple[int, int | None] = (0, None)
) -> Value:
    rank = len(b.dims(x))
    return sliced(b, sliced(b, x, rank - 2, *rows), rank - 1, *columns)


def _joined(b: Builder, parts: Sequence[Value | None], axis: int = -2) -> Value:
    known = [part for part in parts if part is not None]
    return known[0] if len(known) == 1 else b(Concat, *known, axis=axis)


def _identity(b: Builder, x: Value, rows: int) -> Value:
    """Return an identity matrix for each matrix of `x`."""
    eye = b.constant(np.eye(rows), dtype_of(x))
    rank = len(b.dims(x))
    if rank == 2:
        return eye
    return b(Expand, eye, b(Concat, b(Shape, x, end=rank - 2), [rows, rows], axis=0))


def solved(b: Builder, a: Value, right: Value) -> Value:
    """a⁻¹ right, by Gaussian elimination with partial pivoting, like PyTorch."""
    n = _square(b, a)
    if dtype_of(a) is not dtype_of(right):
        message = "the matrices have different element types"
        raise UnsupportedError(message)
    if b.dims(a)[:-2] != b.dims(right)[:-2]:
        batch = b(Shape, b(MatMul, a, right), end=-2)
        a, right = (b(Expand, x, b(Concat, batch, b(Shape, x, start=-2), axis=0)) for x in (a, right))
    m = b(Concat, a, right, axis=-1)
    zero = b.like(m, 0)
    for k in range(n):
        below = _slice_matrix(b, m, (k, None))
        first = _slice_matrix(b, below, (0, 1))
        if k < n - 1:
            largest = b(ArgMax, b(Abs, _slice_matrix(b, below, (0, None), (k, k + 1))), axis=-2, keepdims=1)
            is_it = b(Equal, largest, b.constant(np.arange(n - k)[:, None], DType.INT64))
            chosen = b(ReduceSum, b(Where, is_it, below, zero), [-2], keepdims=1)
            rest = _slice_matrix(b, b(Where, is_it, first, below), (1, None))
        else:
            chosen, rest = first, None
        row = b(Div, chosen, _slice_matrix(b, chosen, (0, None), (k, k + 1)))
        cleared = [
            None if each is None else b(Sub, each, b(Mul, _slice_matrix(b, each, (0, None), (k, k + 1)), row))
            for each in (_slice_matrix(b, m, (0, k)) if k else None, rest)
        ]
        m = _joined(b, [cleared[0], row, cleared[1]])
    return _slice_matrix(b, m, (0, None), (n, None))


def inverse(b: Builder, a: Value) -> Value:
    """Invert each matrix of `a`."""
    return solved(b, a, _identity(b, a, _square(b, a)))


@aten("aten.linalg_cholesky", "aten.linalg_cholesky_ex", "aten.cholesky")
def cholesky(b: Builder, self: Value, upper: Any = False, check_errors: Any = False) -> Any:
    """Cholesky factor, lower or upper; NaN if the matrix is not positive definite (PyTorch raises an error)."""
    del check_errors
    n = _square(b, self)
    rank = len(b.dims(self))
    rest, columns = self, list[Value]()
    for k in range(n):
        corner = b(Sqrt, _slice_matrix(b, rest, (0, 1), (0, 1)))
        column = b(Div, _slice_matrix(b, rest, (0, None), (0, 1)), corner)
        before = [0] * rank
        before[-2] = k
        columns.append(b(Pad, column, [*before, *[0] * rank]) if k else column)
        if k < n - 1:
            below = _slice_matrix(b, column, (1, None))
            rest = b(Sub, _slice_matrix(b, rest, (1, None), (1, None)), b(Mul, below, swap_last_axes(b, below)))
    y = _joined(b, columns, axis=-1)
    y = swap_last_axes(b, y) if scalar_of(upper) else y
    return y if b.count == 1 else (y, in_order(b, self))


def in_order(b: Builder, x: Value) -> Value:
    """Return PyTorch's `info` result, int32 0 (success) for each matrix."""
    return b(Expand, b.constant(0, DType.INT32), b(Shape, x, end=len(b.dims(x)) - 2))


def triangular(b: Builder, a: Value, right: Value, *, is_upper: bool, is_unit: bool = False) -> Value:
    """a⁻¹ right for the upper or lower triangle of `a`, by substitution."""
    n = _square(b, a)
    rows: list[Value] = []
    for k in reversed(range(n)) if is_upper else range(n):
        row = _slice_matrix(b, right, (k, k + 1))
        if rows:
            known = (k + 1, None) if is_upper else (0, k)
            row = b(Sub, row, b(MatMul, _slice_matrix(b, a, (k, k + 1), known), _joined(b, rows)))
        row = row if is_unit else b(Div, row, _slice_matrix(b, a, (k, k + 1), (k, k + 1)))
        rows = [row, *rows] if is_upper else [*rows, row]
    return _joined(b, rows)


@aten("aten.linalg_solve_triangular")
def solve_triangular(
    b: Builder, self: Value, B: Value, upper: Any, left: Any = True, unitriangular: Any = False
) -> Value:
    is_upper, is_unit = bool(scalar_of(upper)), bool(scalar_of(unitriangular))
    if scalar_of(left):
        return triangular(b, self, B, is_upper=is_upper, is_unit=is_unit)
    return swap_last_axes(
        b, triangular(b, swap_last_axes(b, self), swap_last_axes(b, B), is_upper=not is_upper, is_unit=is_unit)
    )


@aten("aten.triangular_solve")
def triangular_solve(
    b: Builder, self: Value, A: Value, upper: Any = True, transpose: Any = False, unitriangular: Any = False
) -> Any:
    is_upper, a = bool(scalar_of(upper)), A
    if scalar_of(transpose):
        is_upper, a = not is_upper, swap_last_axes(b, A)
    return triangular(b, a, self, is_upper=is_upper, is_unit=bool(scalar_of(unitriangular))), A


@aten("aten._cholesky_solve_helper", by_position=False)
@aten("aten.cholesky_solve")
def cholesky_solve(b: Builder, self: Value, input2: Any = None, upper: Any = False, A: Any = None) -> Value:
    factor = input2 if input2 is not None else A
    lower = swap_last_axes(b, factor) if scalar_of(upper) else factor
    return triangular(b, swap_last_axes(b, lower), triangular(b, lower, self, is_upper=False), is_upper=True)


@aten("aten.cholesky_inverse")
def cholesky_inverse(b: Builder, self: Value, upper: Any = False) -> Value:
    return cholesky_solve(b, _identity(b, self, _square(b, self)), self, upper)


@aten("aten.qr", by_position=False)
@aten("aten.linalg_qr")
def qr(b: Builder, self: Any = None, mode: Any = "reduced", A: Any = None, some: Any = True) -> Any:
    """QR decomposition by Householder reflections with LAPACK's signs, like PyTorch."""
    x: Value = self if self is not None else A
    rows, columns = _rows(b, x)
    count = min(rows, columns)
    zero, one, two = (b.like(x, n) for n in (0, 1, 2))
    r, q = x, _identity(b, x, rows)
    for k in range(min(count, rows - 1)):
        column = _slice_matrix(b, r, (k, None), (k, k + 1))
        first, rest = _slice_matrix(b, column, (0, 1)), _slice_matrix(b, column, (1, None))
        square = b(ReduceSum, b(Mul, rest, rest), [-2], keepdims=1)
        size = b(Sqrt, b(Add, b(Mul, first, first), square))
        beta = b(Where, b(Less, first, zero), size, b(Neg, size))
        # A column of zeros below the diagonal is not reflected.
        is_done = b(Equal, square, zero)
        v = b(Concat, b(Where, is_done, zero, one), b(Div, rest, b(Where, is_done, one, b(Sub, first, beta))), axis=-2)
        length = b(ReduceSum, b(Mul, v, v), [-2], keepdims=1)
        tau = b(Where, is_done, zero, b(Div, two, b(Where, is_done, one, length)))
        across = swap_last_axes(b, v)
        below = _slice_matrix(b, r, (k, None))
        below = b(Sub, below, b(Mul, tau, b(MatMul, v, b(MatMul, across, below))))
        r = _joined(b, [_slice_matrix(b, r, (0, k)) if k else None, below])
        right = _slice_matrix(b, q, (0, None), (k, None))
        right = b(Sub, right, b(Mul, tau, b(MatMul, b(MatMul, right, v), across)))
        q = _joined(b, [_slice_matrix(b, q, (0, None), (0, k)) if k else None, right], axis=-1)
    r = b(Where, b.constant(np.tri(rows, columns, -1).astype(np.bool_)), zero, r)
    if mode == "r":
        return b(Expand, zero, [0]), _slice_matrix(b, r, (0, count))
    if mode == "complete" or not scalar_of(some):
        return q, r
    return _slice_matrix(b, q, (0, None), (0, count)), _slice_matrix(b, r, (0, count))


def iterated(what: str) -> Refusal:
    """Return the refusal of an iterative algorithm."""
    return Refusal(f"{what} require an iterative algorithm, which is not available as an operator")


_SINGULAR = ("linalg_svd", "_linalg_svd", "linalg_svdvals", "svd", "linalg_pinv", "pinverse", "linalg_lstsq")
for _words, _what in (
    (("linalg_eigh", "_linalg_eigh", "linalg_eigvalsh", "linalg_eig", "linalg_eigvals"), "eigenvalues"),
    (("_linalg_eigvals", "_linalg_eig"), "eigenvalues"),
    ((*_SINGULAR, "linalg_matrix_rank", "nuclear_norm"), "singular values"),
    (("linalg_matrix_exp", "matrix_exp"), "exponentials of matrices"),
):
    for _word in _words:
        aten(f"aten.{_word}")(iterated(_what))
