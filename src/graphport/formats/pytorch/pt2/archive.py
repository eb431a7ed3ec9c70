"""Write the zip file of an exported program: uncompressed members aligned to 64 bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO
from zipfile import ZIP64_LIMIT, ZIP_STORED, ZipFile, ZipInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

ALIGNMENT = 64
_LOCAL_HEADER = 30
_PADDING = struct.Struct("<HH")
_PADDING_ID = 0x4246
"""`FB`: the extra field that torch uses as padding before the data of a member."""
_ZIP64_EXTRA = 20


class ArchiveWriter:
    """Writer of a zip file; the data of members is streamed."""

    def __init__(self, file: BinaryIO, folder: str) -> None:
        self._file = file
        self._zip = ZipFile(file, "w", ZIP_STORED, allowZip64=True)
        self._folder = folder

    def add(self, name: str, chunks: Iterable[bytes | memoryview], length: int) -> None:
        """Write a member of `length` bytes."""
        info = ZipInfo(f"{self._folder}/{name}")
        is_wide = length * 1.05 > ZIP64_LIMIT
        start = self._file.tell() + _LOCAL_HEADER + len(info.filename.encode()) + (_ZIP64_EXTRA if is_wide else 0)
        padding = -(start + _PADDING.size) % ALIGNMENT
        info.extra = _PADDING.pack(_PADDING_ID, padding) + b"Z" * padding
        info.file_size = length
        with self._zip.open(info, "w", force_zip64=is_wide) as member:
            for chunk in chunks:
                member.write(chunk)

    def close(self) -> None:
        """Write the central directory."""
        self._zip.close()
