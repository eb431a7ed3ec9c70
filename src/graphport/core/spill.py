"""An unnamed temporary file for large arrays computed during a conversion.

Weights read from a file are views of it and take no memory. Arrays that passes compute from them do; inside `spilling`
they are written to a temporary file and mapped, as weights of a file.
"""

from __future__ import annotations

import tempfile
import weakref
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from graphport.core.storage import CHUNK, ArrayStorage, Bytes, FileStorage, Pages, Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from graphport.core.dtypes import DType

LEAST = 1 << 18
"""Bytes of an array from which on it is written to the file."""

_ALIGNMENT = 64


class UnnamedFile(Bytes):
    """An unnamed temporary file that no other process can open; it is removed with its last reference."""

    __slots__ = ("__weakref__", "_file", "_pages", "_size")

    def __init__(self) -> None:
        super().__init__(b"")
        self._file: BinaryIO | None = None
        self._pages: Pages | None = None
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def add(self, pieces: Iterable[memoryview]) -> int:
        """Append bytes; return their offset.

        Raises:
            OSError: the disk is full, or there is no folder for temporary files.
        """
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115  closed by the next line
            # Not in `__del__`: of objects that go in one cycle, the file could go first, and would warn.
            weakref.finalize(self, self._file.close)
        start = -(-self._size // _ALIGNMENT) * _ALIGNMENT
        self._file.seek(start)
        for piece in pieces:
            written = 0
            while written < len(piece):
                written += self._file.write(piece[written:])
        self._size = self._file.tell()
        return start

    def view(self, start: int, length: int) -> memoryview:
        if self._file is None or not length:
            return memoryview(b"")
        if self._pages is None or start + length > self._pages.size:
            # The file has grown: views of the earlier mapping stay valid.
            self._pages = Pages(self._file.fileno())
        return self._pages.view(start, length)

    def chunks(self, start: int, length: int, limit: int = CHUNK) -> Iterator[memoryview]:
        for offset in range(start, start + length, limit):
            yield self.view(offset, min(limit, start + length - offset))


_FILE: ContextVar[UnnamedFile | None] = ContextVar("_FILE", default=None)


@contextmanager
def spilling() -> Generator[None]:
    """Let `store_array` write large arrays to one unnamed file inside the block."""
    if _FILE.get() is not None:
        yield
        return
    token = _FILE.set(UnnamedFile())
    try:
        yield
    finally:
        _FILE.reset(token)


def store_array(array: np.ndarray[Any, Any], dtype: DType | None = None) -> Storage:
    """Return a storage of `array`, which must not change afterwards; inside `spilling`, in a file if it is large.

    Raises:
        ValueError: the type of the array does not match `dtype`.
    """
    storage = ArrayStorage(array, dtype)
    return store_converted(storage.numpy(), storage.dtype)


def store_converted(array: np.ndarray[Any, Any], dtype: DType) -> Storage:
    """Return a storage of the elements of `array` converted to `dtype`, in blocks that are written to the file.

    If the file cannot be written, the elements stay in memory.
    """
    flat = array.reshape(-1)
    step = CHUNK // dtype.numpy.itemsize
    written = _write_blocks((flat[at : at + step] for at in range(0, flat.size, step)), array.shape, dtype)
    return ArrayStorage(array.astype(dtype.numpy, copy=False), dtype) if written is None else written


def rounded_pieces(
    pieces: Callable[[], Iterable[np.ndarray[Any, Any]]], shape: tuple[int, ...], dtype: DType
) -> Storage:
    """Convert an array to `dtype` piece by piece; each call of `pieces` yields it anew, flat and in order."""
    written = _write_blocks(pieces(), shape, dtype)
    if written is not None:
        return written
    array, at = np.empty(prod(shape), dtype.numpy), 0
    for piece in pieces():
        array[at : at + piece.size] = piece
        at += piece.size
    return ArrayStorage(array.reshape(shape), dtype)


def _write_blocks(pieces: Iterable[np.ndarray[Any, Any]], shape: tuple[int, ...], dtype: DType) -> Storage | None:
    """Write flat blocks as elements of `dtype` to the file; `None` if there is no file or the data is small."""
    file = _FILE.get()
    if file is None or dtype.bits < 8 or dtype.size(prod(shape)) < LEAST:
        return None
    little = dtype.numpy.newbyteorder("<")
    with suppress(OSError):
        rounded = (np.ascontiguousarray(piece.astype(little, copy=False)) for piece in pieces)
        return FileStorage(file, file.add(piece.view(np.uint8).data for piece in rounded), dtype, shape)
    return None
