"""Several diagonals of matrices in TensorFlow: [..., diagonals, elements], the highest diagonal first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.formats.tensorflow.rules.comparison import select_by_mask
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.indexing import Gather
from graphport.ops.lowering.operands import as_scalar, reshaped, sizes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Integers = np.ndarray[Any, Any]


def _layout(rows: int, columns: int, low: int, high: int, align: str) -> tuple[Integers, Integers, Integers]:
    """The row and column of the matrix for each element of the diagonals, and whether it has an element.

    Raises:
        ShapeError: the diagonals are outside of the matrix.
    """
    if not -rows < low <= high < columns:
        message = f"diagonals {low} to {high} are not all inside a matrix of {rows} rows and {columns} columns"
        raise ShapeError(message)
    length = min(rows + min(high, 0), columns - max(low, 0))
    reserve(high - low + 1, length)
    diagonals = np.arange(high, low - 1, -1)[:, None]
    own = np.minimum(rows + np.minimum(diagonals, 0), columns - np.maximum(diagonals, 0))
    above, below = align.split("_")
    is_right = np.where(diagonals >= 0, above == "RIGHT", below == "RIGHT")
    steps = np.arange(length)[None, :] - np.where(is_right, length - own, 0)
    is_there = (steps >= 0) & (steps < own)
    steps = np.clip(steps, 0, own - 1)
    return steps - np.minimum(diagonals, 0), steps + np.maximum(diagonals, 0), is_there


def diagonals_of(b: Builder, x: Value, low: int, high: int, align: str, padding: Value | None) -> Value:
    """The diagonals `low` to `high` of matrices of known size."""
    rows, columns = sizes(b.dims(x)[-2:], "the size of a matrix")
    row, column, is_there = _layout(rows, columns, low, high, align)
    flat = reshaped(b, x, (*[0] * (len(b.dims(x)) - 2), -1))
    found = b(Gather, flat, b.constant((row * columns + column).astype(np.int64)), axis=-1)
    rest = b.like(x, 0) if padding is None else as_scalar(b, padding)
    return found if is_there.all() else select_by_mask(b, b.constant(is_there), found, rest)


def matrix_with_diagonals(
    b: Builder, x: Value, shape: tuple[int, int], low: int, high: int, align: str, rest: Value
) -> Value:
    """Matrices of a shape with the diagonals `low` to `high`, and elements of `rest` elsewhere."""
    rows, columns = shape
    row, column, is_there = _layout(rows, columns, low, high, align)
    at, grid = np.zeros((rows, columns), np.int64), np.zeros((rows, columns), np.bool_)
    at[row[is_there], column[is_there]] = np.arange(is_there.size).reshape(is_there.shape)[is_there]
    grid[row[is_there], column[is_there]] = True
    flat = reshaped(b, x, (*[0] * (len(b.dims(x)) - 2), -1))
    spread = b(Gather, flat, b.constant(at), axis=-1)
    return select_by_mask(b, b.constant(grid), spread, rest)
