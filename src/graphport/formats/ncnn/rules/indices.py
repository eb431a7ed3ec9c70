"""Indexing in ncnn by sampling image pixels, or by one-hot rows.

Sampling the nearest pixel copies any number; a product with a one-hot row would give NaN for infinite elements.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.ncnn.rules.emitting import emitted
from graphport.formats.ncnn.rules.functions import infinite
from graphport.formats.ncnn.rules.integers import spanned
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Cast, Mul, Neg
from graphport.ops.definitions.comparison import Equal, Greater, Or
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Concat, Reshape, Unsqueeze
from graphport.ops.lowering.operands import sizes, transposed

MOST_ENTRIES = 1 << 22
"""Of rows that are 1 in one place."""


def affordable(count: int) -> None:
    """Raise `UnsupportedError` if a matrix of `count` elements exceeds the memory limit."""
    if count > MOST_ENTRIES:
        message = f"gather by matrix product would need {count} elements, at most {MOST_ENTRIES} are supported"
        raise UnsupportedError(message)


def along(b: Builder, numbers: Any, axis: int, rank: int, dtype: DType) -> Value:
    """Return `numbers` as a constant of rank `rank` along `axis`; all other axes have size 1."""
    shape = [1] * rank
    shape[axis] = -1
    return b.constant(np.asarray(numbers).reshape(shape).astype(dtype.numpy), dtype)


def as_indices(b: Builder, numbers: Value, most: int) -> Value:
    """Cast integral floats from 0 to `most` to int64 indices."""
    return spanned(b(Cast, numbers, to=DType.INT64), 0, most)


def gathered_columns(b: Builder, table: Value, indices: Value) -> Value:
    """Gather from the last axis of `table`, [1, channels, rows, n], at `indices`, [1, rows, m], per row.

    Indices are integral floats; negative ones count from the end.
    """
    _, channels, rows, n = sizes(b.dims(table), "the gathered tensor")
    _, _, count = sizes(b.dims(indices), "the indices")
    if rows * n == 0:
        message = "gather from an empty axis"
        raise UnsupportedError(message)
    if rows * n > MOST_PIXELS:
        message = f"gather among {rows * n} elements: float32 does not represent all indices exactly"
        raise UnsupportedError(message)
    below = b(Cast, b(Greater, 0.0, indices), to=DType.FLOAT32)
    whole = b(Add, indices, b(Mul, below, float(n)))
    across = b(Add, b(Mul, whole, b.like(whole, 2 / n)), b.like(whole, 1 / n - 1))
    middles = (2 * np.arange(rows, dtype=np.float32) + 1) / rows - 1
    down = b.constant(np.broadcast_to(middles[:, None, None], (1, rows, count, 1)).copy())
    grid = b(Concat, b(Unsqueeze, across, [3]), down, axis=3)
    fact = TensorFact(DType.FLOAT32, (1, channels, rows, count))
    return emitted(b, "GridSample", table, grid, fact=fact, p0=_NEAREST, p1=1, p2=0)


def elements_of(b: Builder, data: Value, positions: Value, axis: int) -> Value:
    """Gather from `data` along an axis, at float indices per row."""
    dims, wanted = sizes(b.dims(data), "the gathered tensor"), sizes(b.dims(positions), "the indices")
    rank, rows = len(dims), prod((*dims[:axis], *dims[axis + 1 :]))
    order = [*(each for each in range(rank) if each != axis), axis]
    table = b(Reshape, transposed(b, data, order), [1, 1, rows, dims[axis]])
    found = gathered_columns(b, table, b(Reshape, transposed(b, positions, order), [1, rows, wanted[axis]]))
    found = b(Reshape, found, [wanted[each] for each in order])
    return transposed(b, found, [order.index(each) for each in range(rank)])


def accumulated(b: Builder, rows: Value, x: Value) -> Value:
    """Multiply `x` by one-hot rows; infinite elements are added only where selected, because 0 * inf is NaN."""
    storage = folded(x)
    if storage is not None and bool(np.isfinite(storage.numpy()).all()):
        return b(MatMul, x, rows)
    ends = [float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)]
    found = b(MatMul, emitted(b, "Clip", x, p0=ends[0], p1=ends[1]), rows)
    for sign in (1, -1):
        signed = x if sign > 0 else b(Neg, x)
        far = b(MatMul, emitted(b, "Threshold", signed, p0=ends[1]), rows)
        found = b(Add, found, infinite(b, far, sign))
    return found


_NEAREST = 2
MOST_PIXELS = 1 << 20
"""Maximum image width for sampling: coordinates are exact below it."""


def rows_of(b: Builder, indices: Value, n: int) -> Value:
    """Encode indices as one-hot rows of length `n`; negative indices count from the end.  Shapes: [*i] -> [*i, n]."""
    rank = len(b.dims(indices))
    reserve(2, n)
    wide = b(Unsqueeze, b(Cast, indices, to=DType.FLOAT32), [rank])
    found = b(Equal, wide, along(b, np.arange(n), rank, rank + 1, DType.FLOAT32))
    found = b(Or, found, b(Equal, wide, along(b, np.arange(-n, 0), rank, rank + 1, DType.FLOAT32)))
    return b(Cast, found, to=DType.FLOAT32)
