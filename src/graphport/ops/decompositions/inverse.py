"""Inverse and determinant of small matrices by cofactor expansion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Neg, Sub
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Concat
from graphport.ops.lowering.operands import sizes, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

MAX_ROWS = 4
"""The number of rows of the largest matrix that is expanded."""


def determinant(b: Builder, x: Value) -> tuple[Value, ...] | None:
    """Return the determinant of each matrix in the last two axes; `None` if the matrices are too large."""
    rank = len(b.dims(x))
    rows, columns = sizes(b.dims(x, at_least=2)[-2:], "the size of a matrix")
    if rows != columns or not 0 < rows <= MAX_ROWS:
        return None
    lines = [b(Gather, x, i, axis=rank - 2) for i in range(rows)]
    entries = [[b(Gather, line, j, axis=rank - 2) for j in range(columns)] for line in lines]
    return (_expand_determinant(b, entries, list(range(rows)), list(range(columns))),)


def inverted(b: Builder, x: Value, *, adjoint: bool = False) -> Value:
    """Return the inverse of each matrix in the last two axes, optionally of its transpose.

    Raises:
        UnsupportedError: the matrices are too large.
    """
    rank = len(b.dims(x))
    rows, columns = sizes(b.dims(x, at_least=2)[-2:], "the size of a matrix")
    if rows != columns or not 0 < rows <= MAX_ROWS:
        message = f"matrices of {rows} rows cannot be inverted; expected square matrices of at most {MAX_ROWS} rows"
        raise UnsupportedError(message)
    entries = [[_matrix_element(b, x, rank, i, j) for j in range(rows)] for i in range(rows)]
    one = b(Div, entries[0][0], entries[0][0]) if rows == 1 else None
    minors = [[_cofactor(b, entries, i, j, one) for j in range(rows)] for i in range(rows)]
    transposed = minors if adjoint else [list(line) for line in zip(*minors, strict=True)]
    adjugate = b(Concat, *[b(Concat, *line, axis=-1) for line in transposed], axis=-2)
    total = b(Mul, entries[0][0], minors[0][0])
    for j in range(1, rows):
        total = b(Add, total, b(Mul, entries[0][j], minors[0][j]))
    return b(Div, adjugate, total)


def _matrix_element(b: Builder, x: Value, rank: int, row: int, column: int) -> Value:
    """Slice one element of each matrix; both axes remain, with length 1."""
    axes = vector(b, [rank - 2, rank - 1])
    return b(Slice, x, [row, column], [row + 1, column + 1], axes)


def _cofactor(b: Builder, entries: list[list[Value]], row: int, column: int, one: Value | None) -> Value:
    """Return the cofactor of one row and one column."""
    if one is not None:
        return one
    rows = [i for i in range(len(entries)) if i != row]
    found = _expand_determinant(b, entries, rows, [j for j in range(len(entries)) if j != column])
    return b(Neg, found) if (row + column) % 2 else found


def _expand_determinant(b: Builder, entries: list[list[Value]], rows: list[int], columns: list[int]) -> Value:
    """Return the determinant of the given rows and columns, expanded along the first row."""
    total = entries[rows[0]][columns[0]]
    if len(rows) == 1:
        return total
    for number, column in enumerate(columns):
        rest = _expand_determinant(b, entries, rows[1:], columns[:number] + columns[number + 1 :])
        part = b(Mul, entries[rows[0]][column], rest)
        total = part if number == 0 else b(Sub if number % 2 else Add, total, part)
    return total
