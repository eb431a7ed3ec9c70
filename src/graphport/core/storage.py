"""Numbers of tensors: where they lie, how they are packed, and how to get at them without copying."""

from __future__ import annotations

import errno
import mmap
import os
import sys
import time
import weakref
from abc import ABC, abstractmethod
from contextlib import contextmanager
from enum import Enum
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from graphport.core.budget import reserve
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dtypes import DType
from graphport.core.regular_files import regular_status
from graphport.core.system import open_movable

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

CHUNK = 1 << 20
"""Maximum size in bytes of a block of a stream."""

HELD = 1 << 25
"""Bytes of a mapped file that may be read before its pages are released."""

_PAGE = 4096
_SAMPLES = 4
"""Number of pages of a large file, evenly spaced, in the digest that detects changes."""
_WHOLE = 1 << 18
"""Size in bytes below which the whole file is digested."""
_PATIENCE = 0.05
"""Seconds after which they are looked at again: size and time are at every look, and have the grain of a clock tick."""


class Packing(Enum):
    """How elements lie in bytes: always little-endian, one after another."""

    LOW_FIRST = "low"
    """Elements narrower than a byte fill it from the least significant bit (ONNX, OpenVINO)."""
    HIGH_FIRST = "high"
    """Elements narrower than a byte fill it from the most significant bit (NNEF)."""


class Bytes:
    """Bytes in memory, with the interface of a file that is mapped."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = memoryview(data).cast("B")

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self._data)

    def view(self, start: int, length: int) -> memoryview:
        """Bytes `start` to `start + length`, not copied."""
        return self._data[start : start + length]

    def chunks(self, start: int, length: int, limit: int = CHUNK) -> Iterator[memoryview]:
        """Split the bytes into blocks of at most `limit`; each is valid until the next is requested."""
        for offset in range(start, start + length, limit):
            yield self._data[offset : min(offset + limit, start + length)]


class Pages:
    """A memory-mapped file.

    Accessed pages count as memory of this process while they are mapped. Therefore they are released from time to time;
    views stay valid, because the system reads their pages again.
    """

    __slots__ = ("__weakref__", "_data", "_map", "_seen")

    def __init__(self, fileno: int) -> None:
        _MAPPED.add(self)
        self._map = mmap.mmap(fileno, 0, access=mmap.ACCESS_READ)
        self._data = memoryview(self._map)
        self._seen = 0

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self._data)

    def is_cut(self) -> bool:
        """Whether the file has become shorter: an access beyond its end terminates the process."""
        return self._map.size() < len(self._data)

    def view(self, start: int, length: int) -> memoryview:
        """Bytes `start` to `start + length`, not copied."""
        self._seen += max(length, _PAGE)
        if self._seen > HELD:
            self.release()
            self._seen = max(length, _PAGE)
        return self._data[start : start + length]

    def release(self) -> None:
        """Release the resident memory of the pages that were read."""
        if self._seen and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._seen = 0


_MAPPED: weakref.WeakSet[Pages] = weakref.WeakSet()


def release_pages() -> None:
    """Release the resident pages of all mapped files; they are read again on access."""
    for each in list(_MAPPED):
        each.release()


class Windows:
    """A file whose views are mapped separately, for an address space smaller than the file (`ulimit -v`)."""

    __slots__ = ("__weakref__", "_handle", "_path", "_size")

    def __init__(self, fileno: int, size: int, path: Path) -> None:
        self._handle = os.dup(fileno)
        weakref.finalize(self, os.close, self._handle)
        self._size = size
        self._path = path

    def is_cut(self) -> bool:
        """Whether the file has become shorter."""
        return os.fstat(self._handle).st_size < self._size

    def view(self, start: int, length: int) -> memoryview:
        """Return a view of the bytes `start` to `start + length`.

        Raises:
            OSError: the address space does not suffice for these bytes.
        """
        if not length:
            return memoryview(b"")
        first = start - start % mmap.ALLOCATIONGRANULARITY
        try:
            window = mmap.mmap(self._handle, start + length - first, access=mmap.ACCESS_READ, offset=first)
        except OSError as error:
            message = f"{length} bytes cannot be mapped: check the address space limit (ulimit -v)"
            raise OSError(error.errno, message, str(self._path)) from error
        return memoryview(window)[start - first :]


class ChangedFileError(DiagnosticError, OSError):
    """A file that is in use was cut, written to or replaced."""

    def __init__(self, message: str, path: Path) -> None:
        remedy = "load the model again, and do not modify its files while it is in use"
        super().__init__(Diagnostic("IO0015", f"a file in use has changed: {message}", Span(Source(str(path))), remedy))
        self.strerror = message


class MappedFile:
    """A file of weights that is mapped on first access.

    A mapping stays valid if the file is renamed or removed. Modifications of the file are detected at every access by
    its size, its times and a digest of the whole small file, or of some pages of a large one.
    """

    __slots__ = ("_changed_at", "_digest", "_due", "_identity", "_is_steady", "_map", "_name", "path", "size")

    def __init__(self, path: Path | str) -> None:
        # Absolute, because the working directory may change before it is read.
        self.path = Path(path).absolute()
        self._name = os.fspath(self.path)
        status = regular_status(self.path)
        self.size = status.st_size
        self._identity = _identity(status)
        self._changed_at = _last_change(status)
        self._digest = self._sample_digest()
        self._due = time.monotonic() + _PATIENCE
        self._map: Pages | Windows | None = None
        self._is_steady = False

    @contextmanager
    def steady(self) -> Generator[None]:
        """Check once for modifications, instead of at each of many small views.

        Raises:
            OSError: the file was modified.
        """
        self._is_steady = True
        try:
            yield
        finally:
            self._is_steady = False
        if self._map is not None and self._is_there() and self._map.is_cut():
            raise ChangedFileError(self._shortened(), self.path)

    def view(self, start: int, length: int) -> memoryview:
        """Return a view of the bytes `start` to `start + length`; the system reads pages on access."""
        if start + length > self.size:
            raise ChangedFileError(self._shortened(), self.path)
        if self.size == 0:
            return memoryview(b"")
        if self._map is None:
            self._map = self._open_pages()
        elif not self._is_steady and self._is_there() and self._map.is_cut():
            raise ChangedFileError(self._shortened(), self.path)
        return self._map.view(start, length)

    def chunks(self, start: int, length: int, limit: int = CHUNK) -> Iterator[memoryview]:
        """The same bytes in pieces of at most `limit`, read rather than mapped.

        Pages of a mapping count as this process's memory until the system takes them back; a buffer does not grow.
        """
        if not self._is_there():
            yield from Bytes(self.view(start, length)).chunks(0, length, limit)
            return
        buffer = memoryview(bytearray(min(limit, length)))
        with self.path.open("rb", buffering=0) as file:
            file.seek(start)
            while length > 0:
                count = file.readinto(buffer[: min(len(buffer), length)])
                if not count:
                    raise ChangedFileError(self._shortened(), self.path)
                length -= count
                yield buffer[:count]
        # Earlier views may have been used already; a late error is better than none.
        self._is_there()

    def _open_pages(self) -> Pages | Windows:
        with open(self._name, "rb", opener=open_movable) as file:
            status = os.fstat(file.fileno())
            if _identity(status) != self._identity or self._was_modified(status):
                raise ChangedFileError(self._changed(), self.path)
            try:
                return Pages(file.fileno())
            except OSError as error:
                if error.errno != errno.ENOMEM:
                    raise
                return Windows(file.fileno(), self.size, self.path)

    def _is_there(self) -> bool:
        """Whether the path still refers to the opened file: saving a model over its source replaces it.

        Raises:
            OSError: it does, and the file was modified.
        """
        try:
            status = os.stat(self._name)  # noqa: PTH116  a Path takes five times as long
            found = _identity(status)
            if found == self._identity and self._was_modified(status):
                raise ChangedFileError(self._changed(), self.path)
            if found == self._identity and time.monotonic() >= self._due:
                self._due = time.monotonic() + _PATIENCE
                found_digest = self._sample_digest()
                if None not in (found_digest, self._digest) and found_digest != self._digest:
                    raise ChangedFileError(self._changed(), self.path)
        except FileNotFoundError:
            return False
        if found == self._identity:
            return True
        if found[:2] == self._identity[:2]:
            raise ChangedFileError(self._changed(), self.path)
        return False

    def _was_modified(self, status: os.stat_result) -> bool:
        """Whether the system knows of a change since that was none of the rights, the owner or the number of links.

        Nobody sets that time back, as the time of writing can be.
        """
        before, now = self._changed_at, _last_change(status)
        if before[0] != now[0] and before[1:] == now[1:]:
            return True
        self._changed_at = now
        return False

    def _sample_digest(self) -> int | None:
        """Return a digest of the file that has the name now, of sampled pages if it is large.

        `None` where it may not be read (any more).
        """
        last = max(self._identity[2] - _PAGE, 0)  # the content may be longer than the file: a decompressed archive
        found = 0
        try:
            file = open(self._name, "rb", buffering=0)  # noqa: PTH123, SIM115  a Path takes longer
        except PermissionError:
            return None  # the access reports the error
        with file:
            if last < _WHOLE:
                return crc32(file.read(last + _PAGE))
            for start in sorted({last * each // (_SAMPLES - 1) for each in range(_SAMPLES)}):
                file.seek(start)
                found = crc32(file.read(_PAGE), found)
        return found

    def _changed(self) -> str:
        return f"{self.path} was changed or replaced after it was opened"

    def _shortened(self) -> str:
        return f"{self.path} was truncated while it was read"


def _little(dtype: DType) -> np.dtype[Any]:
    # A dtype with an explicit byte order equals NumPy's built-in one, but its `isbuiltin` is false.
    return dtype.numpy if sys.byteorder == "little" else dtype.numpy.newbyteorder("<")


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    # Inode numbers are reused, so the number alone does not distinguish a file from its successor.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _last_change(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ctime_ns, status.st_mode, status.st_nlink, status.st_uid, status.st_gid


class Storage(ABC):
    """The elements of one tensor."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: DType, shape: Sequence[int]) -> None:
        self.dtype = dtype
        self.shape = tuple(shape)

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in canonical packing; 0 for text."""
        return self.dtype.size(self.count)

    @abstractmethod
    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the elements as a read-only array; a view if the packing permits."""

    @abstractmethod
    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        """Yield the packed bytes, least significant bit first, in blocks of about `limit` bytes.

        Each block is valid until the next is requested. Strings have no packed form.
        """

    def reshaped(self, shape: Sequence[int]) -> Storage:
        """Return the same elements with another shape of equal size."""
        return View(self, shape)


class ArrayStorage(Storage):
    """Elements in memory; the array must not be changed afterwards."""

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray[Any, Any], dtype: DType | None = None) -> None:
        dtype = DType.of(array.dtype) if dtype is None else dtype
        # Convert NumPy string types and foreign byte orders to the types that operator definitions compute with.
        if dtype is DType.STRING:
            native = array.astype(object, copy=False)
        else:
            native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        if native.dtype != dtype.numpy:
            message = f"an array of {array.dtype} cannot store {dtype}"
            raise ValueError(message)
        super().__init__(dtype, array.shape)
        view = native.view()
        view.flags.writeable = False
        self._array = view

    def numpy(self) -> np.ndarray[Any, Any]:
        return self._array

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        if self.dtype is DType.STRING:
            return
        flat = np.ascontiguousarray(self._array).reshape(-1)
        if self.dtype.bits < 8:
            yield from Bytes(pack(flat, self.dtype.bits)).chunks(0, self.nbytes, limit)
            return
        little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        yield from Bytes(little.view(np.uint8).data).chunks(0, self.nbytes, limit)


class FileStorage(Storage):
    """Numbers in a file, from byte `start` on; text is not among them.

    Whoever makes one has checked that `start` and the length lie inside the file.
    """

    __slots__ = ("file", "packing", "start")

    def __init__(
        self,
        file: MappedFile | Bytes,
        start: int,
        dtype: DType,
        shape: Sequence[int],
        packing: Packing = Packing.LOW_FIRST,
    ) -> None:
        super().__init__(dtype, shape)
        self.file = file
        self.start = start
        self.packing = packing

    def numpy(self) -> np.ndarray[Any, Any]:
        if not self.count:
            # The other dims of a zero-size array may exceed the address space.
            reserve(*self.shape)
        raw = np.frombuffer(self.file.view(self.start, self.nbytes), np.uint8)
        if self.dtype.bits < 8:
            array = unpack(raw, self.dtype, self.shape, self.packing)
        elif self.dtype is DType.BOOL:
            # The file may contain other bytes, but NumPy requires 0 or 1 in booleans.
            array = (raw != 0).reshape(self.shape)
        else:
            # A view needs no alignment: NumPy copies element by element where the processor could not load it.
            array = np.ndarray(self.shape, _little(self.dtype), raw.data if raw.size else b"")
            array = array.astype(self.dtype.numpy, copy=False)
        array.flags.writeable = False
        return array

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        if self.dtype.bits >= 8 or self.packing is Packing.LOW_FIRST:
            yield from self.file.chunks(self.start, self.nbytes, limit)
            return
        for piece in self.file.chunks(self.start, self.nbytes, limit):
            raw = np.frombuffer(piece, np.uint8)
            fields = _fields(raw, self.dtype.bits, raw.size * 8 // self.dtype.bits, self.packing)
            yield memoryview(_join(fields, self.dtype.bits))


class View(Storage):
    """Numbers of another storage in another shape."""

    __slots__ = ("of",)

    def __init__(self, of: Storage, shape: Sequence[int]) -> None:
        super().__init__(of.dtype, shape)
        if self.count != of.count:
            message = f"{of.count} elements cannot have shape {self.shape}"
            raise ValueError(message)
        self.of = of.of if isinstance(of, View) else of

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.of.numpy().reshape(self.shape)

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        return self.of.chunks(limit)


class Bits(Storage):
    """The packed bytes of another storage as elements of another type, which take as many."""

    __slots__ = ("of",)

    def __init__(self, of: Storage, dtype: DType, shape: Sequence[int]) -> None:
        super().__init__(dtype, shape)
        if self.nbytes != of.nbytes or DType.STRING in (dtype, of.dtype):
            message = (
                f"{of.nbytes} bytes of {of.dtype} cannot be read as {dtype}{list(self.shape)}, which has {self.nbytes}"
            )
            raise ValueError(message)
        self.of = of

    def numpy(self) -> np.ndarray[Any, Any]:
        return FileStorage(Bytes(b"".join(self.of.chunks())), 0, self.dtype, self.shape).numpy()

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        return self.of.chunks(limit)


def storage_of(data: object, dtype: DType | None = None) -> ArrayStorage:
    """A storage of `data` (a number, a nested list, an array), by default with NumPy's own element type."""
    return ArrayStorage(np.asarray(data, None if dtype is None else dtype.numpy), dtype)


def unpack(
    raw: np.ndarray[Any, Any], dtype: DType, shape: Sequence[int], packing: Packing = Packing.LOW_FIRST
) -> np.ndarray[Any, Any]:
    """Elements narrower than a byte, one to an entry; `raw` holds at least as many bytes as they take."""
    fields = _fields(raw, dtype.bits, prod(shape), packing)
    if dtype.kind == "i":
        sign = 1 << (dtype.bits - 1)
        return ((fields ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype.numpy).reshape(shape)
    if dtype.kind == "f":
        return fields.view(dtype.numpy).reshape(shape)
    return fields.astype(dtype.numpy).reshape(shape)


def pack(flat: np.ndarray[Any, Any], bits: int) -> bytes:
    """Elements narrower than a byte, packed from the least significant bit on."""
    fields = flat.view(np.uint8) if flat.dtype.itemsize == 1 else flat.astype(np.uint8)
    return _join(fields & ((1 << bits) - 1), bits)


def _fields(raw: np.ndarray[Any, Any], bits: int, count: int, packing: Packing) -> np.ndarray[Any, Any]:
    """`count` elements of `bits` bits (1, 2 or 4), one to a byte, without sign."""
    used = raw[: (count * bits + 7) // 8, None]
    return ((used >> _shifts(bits, packing)) & ((1 << bits) - 1)).reshape(-1)[:count]


def _join(fields: np.ndarray[Any, Any], bits: int) -> bytes:
    """Pack the fields of `_fields`, least significant bit first, with 0 in unused bits."""
    shifts = _shifts(bits, Packing.LOW_FIRST)
    padded = np.zeros((-(-fields.size // shifts.size), shifts.size), np.uint8)
    padded.reshape(-1)[: fields.size] = fields
    return np.bitwise_or.reduce(padded << shifts, axis=1).tobytes()


def _shifts(bits: int, packing: Packing) -> np.ndarray[Any, Any]:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return shifts if packing is Packing.LOW_FIRST else shifts[::-1]
