"""Calibration data of one input, read entry by entry.

Files are read sequentially and repeatedly, with memory for one entry, compressed or not.
"""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import dataclass, field
from math import prod
from shutil import copyfileobj
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from graphport.core.corrupt_files import CORRUPT
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from graphport.core.spill import UnnamedFile

Array: TypeAlias = "np.ndarray[Any, Any]"

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_MAX_ENTRY_BYTES = 1 << 34
"""Maximum bytes of an entry of an archive."""


class Column(Protocol):
    """Data of one input: `count` entries along axis 0."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole shape."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        ...

    def rows(self) -> Iterator[Array]:
        """Iterate over the entries."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ArrayColumn:
    """Data in memory."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def rows(self) -> Iterator[Array]:
        return iter(self.array) if self.array.ndim else iter(self.array[None])


@dataclass(frozen=True, slots=True, eq=False)
class SpilledColumn:
    """Data of an iterator, spilled to a temporary file."""

    file: UnnamedFile
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, array: Array, file: UnnamedFile) -> SpilledColumn:
        """Append `array` to `file` and return the column."""
        whole = np.ascontiguousarray(array).reshape(array.shape)
        return cls(file, file.add([whole.reshape(-1).view(np.uint8).data]), whole.shape, whole.dtype)

    def rows(self) -> Iterator[Array]:
        shape = self.shape[1:]
        size = prod(shape) * self.dtype.itemsize
        for index in range(self.shape[0] if self.shape else 1):
            # A copy, so that the mapped pages are released.
            data = bytes(self.file.view(self.start + index * size, size))
            yield np.frombuffer(data, self.dtype).reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class FileColumn:
    """Data in a `.npy` file or in a member of a `.npz`, read entry by entry."""

    path: Path
    entry: str | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool

    @classmethod
    def of(cls, path: Path, entry: str | None = None) -> FileColumn:
        """Read the header of a file.

        Raises:
            DiagnosticError: QUANT0001 it cannot be read or is inconsistent.
        """
        try:
            with _open_member(path, entry) as file:
                shape, is_fortran, dtype = _header(file)
        except CORRUPT as error:
            raise corrupt_error(path, error) from error
        return cls(path, entry, shape, dtype, is_fortran)

    def rows(self) -> Iterator[Array]:
        try:
            yield from self._rows()
        except CORRUPT as error:
            raise corrupt_error(self.path, error) from error

    def _rows(self) -> Iterator[Array]:
        with _open_member(self.path, self.entry) as file:
            _header(file)
            if self.is_fortran and len(self.shape) > 1:
                yield from self._strided(file)
                return
            size = prod(self.shape[1:]) * self.dtype.itemsize
            for _ in range(self.shape[0] if self.shape else 1):
                data = file.read(size)
                if len(data) < size:
                    raise ValueError(_SHORT)
                yield np.frombuffer(data, self.dtype).reshape(self.shape[1:])

    def _strided(self, file: IO[bytes]) -> Iterator[Array]:
        """Yield the entries of an array in Fortran order, through a memory map of an uncompressed copy."""
        with tempfile.TemporaryFile() as flat:
            copyfileobj(file, flat, 1 << 20)
            if flat.tell() < prod(self.shape) * self.dtype.itemsize:
                raise ValueError(_SHORT)
            flat.flush()
            if not prod(self.shape):
                yield from np.zeros(self.shape, self.dtype)
                return
            mapped = np.memmap(flat, self.dtype, "r", shape=self.shape, order="F")
            for row in mapped:
                yield np.array(row)


_SHORT = "the file is truncated"


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Concatenation of columns; `names` are their files."""

    parts: tuple[Column, ...]
    names: tuple[str, ...] = field(default=())

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(part.shape[0] if part.shape else 1 for part in self.parts), *self.parts[0].shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.parts[0].dtype

    def rows(self) -> Iterator[Array]:
        for part in self.parts:
            yield from part.rows()


@dataclass(frozen=True, slots=True, eq=False)
class WholeColumn:
    """A column that is one entry as a whole."""

    of: Column

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, *self.of.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.of.dtype

    def rows(self) -> Iterator[Array]:
        rows = list(self.of.rows())
        yield np.stack(rows) if self.of.shape else rows[0]


@dataclass(frozen=True, slots=True, eq=False)
class FollowingColumn:
    """A column that is computed from the entries of another one."""

    of: Column
    entry: Callable[[Array], Array]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.of.shape[0], *self._zero_entry.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._zero_entry.dtype

    @property
    def _zero_entry(self) -> Array:
        return self.entry(np.zeros(self.of.shape[1:], self.of.dtype))

    def rows(self) -> Iterator[Array]:
        return map(self.entry, self.of.rows())


def joined(parts: list[Column], names: list[str] | None = None) -> Column:
    """Concatenate columns; `names` are the names of their files."""
    return parts[0] if len(parts) == 1 else Columns(tuple(parts), tuple(names or ()))


def split_columns(column: Column) -> list[tuple[str, Column]]:
    """Return the parts of the samples of one input, with the name of the file of each."""
    if not isinstance(column, Columns):
        return [("", column)]
    return list(zip(column.names or ("",) * len(column.parts), column.parts, strict=True))


def archive_members(path: Path) -> list[str]:
    """Return the names of the arrays in an archive.

    Raises:
        DiagnosticError: QUANT0001 the archive is corrupt.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return [entry.filename for entry in archive.infolist() if entry.filename.endswith(".npy")]
    except CORRUPT as error:
        raise corrupt_error(path, error) from error


def corrupt_error(path: Path, error: Exception) -> DiagnosticError:
    """Return the error of an unreadable file."""
    message = f"the calibration data in {path} cannot be read: {error}"
    return DiagnosticError(
        Diagnostic("QUANT0001", message, Span(Source(str(path))), "write the file with np.savez(path, x=array)")
    )


def _open_member(path: Path, entry: str | None) -> IO[bytes]:
    if entry is None:
        return open_regular(path)
    archive = zipfile.ZipFile(path)
    try:
        return archive.open(entry)
    finally:
        # The open member keeps the file open; the archive object is not needed any more.
        archive.close()


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        message = f"unsupported .npy version {version[0]}.{version[1]}"
        raise ValueError(message)
    shape, is_fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        message = "it contains Python objects, not numeric data"
        raise ValueError(message)
    if min(shape, default=0) < 0:
        message = f"its header declares the invalid shape {list(shape)}"
        raise ValueError(message)
    if prod(shape) * dtype.itemsize > _MAX_ENTRY_BYTES:
        message = f"its header declares {prod(shape) * dtype.itemsize} bytes of data"
        raise ValueError(message)
    return shape, is_fortran, dtype
