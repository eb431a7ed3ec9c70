"""The directory of a zip archive, and where the bytes of its members begin; nothing is extracted."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, cast
from zipfile import BadZipFile, ZipFile

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO
    from zipfile import ZipInfo

    from graphport.core.storage import Bytes, MappedFile

LOCAL_HEADER = struct.Struct("<4s5H3I2H")
"""The header before a member; its last two fields are the lengths of the name and the extra field that follow."""
LOCAL_MARK = b"PK\3\4"
ZIP_FAULTS = (BadZipFile, NotImplementedError, ValueError, EOFError, OverflowError, struct.error)
"""What `zipfile` raises over a directory that is damaged, or of a newer version of the format than it reads."""


def read_directory(file: Path | IO[bytes]) -> list[ZipInfo]:
    """Read the entries of an archive.

    Raises:
        BadZipFile: the directory is absent, damaged or of a newer version of the format.
    """
    try:
        with ZipFile(file) as opened:
            return opened.infolist()
    except ZIP_FAULTS as error:
        raise BadZipFile(str(error)) from error


def read_mapped_directory(file: MappedFile | Bytes, start: int = 0, length: int | None = None) -> list[ZipInfo]:
    """`read_directory` of a mapped file, or of `length` bytes of it from `start` on."""
    part = _MappedStream(file, start, file.size - start if length is None else length)
    return read_directory(cast("IO[bytes]", io.BufferedReader(part)))


def member_start(file: MappedFile | Bytes, header: int) -> int | None:
    """The position after the local header at `header`; `None` if there is no such header."""
    if header < 0 or header + LOCAL_HEADER.size > file.size:
        return None
    mark, *_, name_length, extra_length = LOCAL_HEADER.unpack(file.view(header, LOCAL_HEADER.size))
    return header + LOCAL_HEADER.size + name_length + extra_length if mark == LOCAL_MARK else None


class _MappedStream(io.RawIOBase):
    """A part of a mapped file as a stream."""

    def __init__(self, file: MappedFile | Bytes, start: int, length: int) -> None:
        self._file, self._start, self._length, self._at = file, start, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(offset + (0, self._at, self._length)[whence], 0)
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]  zipfile's own
        count = max(min(len(buffer), self._length - self._at), 0)
        buffer[:count] = self._file.view(self._start + self._at, count)
        self._at += count
        return count
