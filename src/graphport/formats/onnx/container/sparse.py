"""Tensors of which only the entries that are not zero are stored."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.storage import CHUNK, ArrayStorage, Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class SparseStorage(Storage):
    """A sparse tensor as a dense storage, expanded on access.

    `values` [n] are the entries, `indices` [n] or [n, rank] their positions, strictly increasing in row-major order.
    The creator must check them with `misplaced`.
    """

    __slots__ = ("indices", "values")

    def __init__(self, values: Storage, indices: Storage, shape: Sequence[int]) -> None:
        super().__init__(values.dtype, shape)
        self.values = values
        self.indices = indices

    def numpy(self) -> np.ndarray[Any, Any]:
        array = np.zeros(self.count, self.dtype.numpy)
        array[flat_indices(self.indices, self.shape)] = self.values.numpy()
        array.flags.writeable = False
        return array.reshape(self.shape)

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        # Whole bytes per piece for elements of two bits, too.
        step = max(8, limit * 8 // self.dtype.bits & ~7)
        where = flat_indices(self.indices, self.shape)
        numbers = self.values.numpy()
        for start in range(0, self.count, step):
            length = min(step, self.count - start)
            first, last = np.searchsorted(where, (start, start + length))
            piece = np.zeros(length, self.dtype.numpy)
            piece[where[first:last] - start] = numbers[first:last]
            yield from ArrayStorage(piece, self.dtype).chunks(limit)


def flat_indices(indices: Storage, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Positions [n] in the flattened tensor."""
    array = indices.numpy()
    if array.ndim == 1:
        return array
    strides = np.array([prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)
    return array @ strides


def misplaced(indices: Storage, shape: Sequence[int]) -> str | None:
    """Return the error in the indices for a tensor of `shape`; `None` if they are valid."""
    array = indices.numpy()
    limits = [prod(shape)] if array.ndim == 1 else shape
    wrong = (array < 0) | (array >= np.array(limits, np.int64))
    outside = np.flatnonzero(wrong if wrong.ndim == 1 else wrong.any(axis=1))
    if outside.size:
        return f"index {array[outside[0]].tolist()} of entry {outside[0]} is out of range"
    where = flat_indices(indices, shape)
    order = np.flatnonzero(where[1:] <= where[:-1])
    return f"indices are not in ascending order at entries {order[0]} and {order[0] + 1}" if order.size else None
