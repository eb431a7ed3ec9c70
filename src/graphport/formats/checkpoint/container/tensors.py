"""Tensors of checkpoints as float32 storages, decoded while they are read."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import CHUNK, Bytes, FileStorage, Storage
from graphport.formats.checkpoint.container.blocks import BlockStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Array = np.ndarray[Any, np.dtype[Any]]


class Widened(Storage):
    """A tensor of another floating-point type as float32, converted in pieces."""

    __slots__ = ("of",)

    def __init__(self, of: Storage) -> None:
        super().__init__(DType.FLOAT32, of.shape)
        self.of = of

    def numpy(self) -> Array:
        return widen(self.of.numpy(), self.of.dtype)

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        width = self.of.dtype.bits // 8
        for piece in self.of.chunks(max(limit * width // 4 // width * width, width)):
            stored = FileStorage(Bytes(piece), 0, self.of.dtype, (len(piece) // width,)).numpy()
            yield widen(stored, self.of.dtype).astype("<f4", copy=False).view(np.uint8).data


def widen(array: Array, dtype: DType) -> Array:
    """Convert floats of another type to float32."""
    if dtype is DType.BFLOAT16:
        bits = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32)
    return array.astype(np.float32)


class Derived(Storage):
    """A float32 tensor that is computed from other tensors on demand."""

    __slots__ = ("compute", "of")

    def __init__(self, shape: Sequence[int], compute: Callable[[], Array], of: Storage) -> None:
        super().__init__(DType.FLOAT32, shape)
        self.compute = compute
        self.of = of

    def numpy(self) -> Array:
        found = self.compute().reshape(self.shape)
        found.flags.writeable = False
        return found

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        flat = np.ascontiguousarray(self.numpy()).reshape(-1).astype("<f4", copy=False)
        yield from Bytes(flat.view(np.uint8).data).chunks(0, self.nbytes, limit)


class ExpertStack(Derived):
    """A tensor that is computed for one index of the first axis at a time."""

    __slots__ = ("compute_one",)

    def __init__(self, shape: Sequence[int], compute_one: Callable[[int], Array], of: Storage) -> None:
        super().__init__(shape, lambda: np.stack([compute_one(index) for index in range(shape[0])]), of)
        self.compute_one = compute_one

    def at_index(self, index: int) -> Storage:
        """Return the tensor at an index of the first axis."""
        return Derived(self.shape[1:], lambda: self.compute_one(index), self.of)


class Transposed(Derived):
    """A matrix with its axes exchanged."""

    __slots__ = ()

    def __init__(self, of: Storage) -> None:
        super().__init__(of.shape[::-1], lambda: of.numpy().T, of)


def float_storage(storage: Storage) -> Storage:
    """Return a tensor as float32."""
    return storage if storage.dtype is DType.FLOAT32 else Widened(storage)


def rows(storage: Storage, index: Array) -> Storage:
    """Return the rows `index` of a matrix or vector, in that order."""
    return Derived((len(index), *storage.shape[1:]), lambda: storage.numpy()[index], storage)


def mapped(storage: Storage, compute: Callable[[Array], Array], shape: Sequence[int] | None = None) -> Storage:
    """Return a function of a tensor."""
    return Derived(storage.shape if shape is None else shape, lambda: compute(storage.numpy()), storage)


def leading(storage: Storage, index: int) -> Storage:
    """Return the tensor at an index of the first axis, without decoding the whole tensor."""
    if isinstance(storage, Widened):
        return Widened(leading(storage.of, index))
    if isinstance(storage, BlockStorage | ExpertStack):
        return storage.at_index(index)
    shape = storage.shape[1:]
    if isinstance(storage, FileStorage) and storage.dtype.bits >= 8:
        return FileStorage(storage.file, storage.start + index * storage.dtype.size(prod(shape)), storage.dtype, shape)
    return mapped(storage, lambda array: array[index], shape)
