"""The zip archive of a `.keras` file: its members and where their bytes lie; nothing is extracted."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Never
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.core.storage import Bytes
from graphport.core.zip_directory import member_start, read_mapped_directory

if TYPE_CHECKING:
    from zipfile import ZipInfo

    from graphport.core.diagnostics import Source
    from graphport.core.storage import MappedFile

MAX_UNPACKED = 1 << 30
"""Bytes of all members that are compressed, after unpacking. Keras stores members uncompressed."""
_MAX_MEMBERS = 10_000
_ENCRYPTED = 0x1


class Archive:
    """The members of a zip archive by name."""

    def __init__(self, file: MappedFile, source: Source) -> None:
        """Read the directory.

        Raises:
            DiagnosticError: KERAS0104 it is no zip archive, or its directory is damaged.
        """
        self.file = file
        self.source = source
        self._unpacked = 0
        try:
            entries = read_mapped_directory(file)
        except BadZipFile as error:
            self._refuse(f"the zip archive cannot be read: {error}")
        if len(entries) > _MAX_MEMBERS:
            self._refuse(f"the archive has {len(entries)} members, the limit is {_MAX_MEMBERS}")
        self.members: dict[str, ZipInfo] = {entry.filename: entry for entry in entries}

    def _refuse(self, message: str, help: str = "copy the file again, or save the model again with Keras") -> Never:
        raise DiagnosticError(Diagnostic("KERAS0104", message, Span(self.source), help))

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def locate(self, name: str) -> tuple[MappedFile | Bytes, int, int]:
        """Where the bytes of a member lie: the file, the position and the length.

        Raises:
            DiagnosticError: KERAS0104 the member is absent, encrypted, damaged, or too large when unpacked.
        """
        entry = self.members.get(name)
        if entry is None:
            self._refuse(
                f"the archive has no member {name!r}", "pass a .keras file with config.json and model.weights.h5"
            )
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            self._refuse(f"{name!r} is encrypted or compressed by an unsupported method")
        start = member_start(self.file, entry.header_offset)
        if start is None or start + entry.compress_size > self.file.size:
            self._refuse(f"truncated file: {name!r} exceeds the end of the file or has no header")
        if entry.compress_type == ZIP_STORED:
            if entry.compress_size != entry.file_size:
                self._refuse(f"{name!r} has {entry.compress_size} bytes, its directory declares {entry.file_size}")
            return self.file, start, entry.file_size
        data = self._inflated(entry, start)
        return Bytes(data), 0, len(data)

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a member, checked against its checksum.

        Raises:
            DiagnosticError: KERAS0104 as `locate`, or the checksum differs; KERAS0103 it exceeds `limit`.
        """
        file, start, length = self.locate(name)
        if length > limit:
            message = f"{name!r} has {length} bytes, the limit is {limit}"
            help = "set GRAPHPORT_LIMITS=keras.config=N to allow N bytes"
            raise DiagnosticError(Diagnostic("KERAS0103", message, Span(self.source), help))
        data = bytes(file.view(start, length))
        if zlib.crc32(data) != self.members[name].CRC:
            self._refuse(f"{name!r} is corrupt: its checksum differs from the zip directory")
        return data

    def _inflated(self, entry: ZipInfo, start: int) -> bytes:
        self._unpacked += entry.file_size
        limit = budget.limit("keras.unpacked", MAX_UNPACKED)
        if self._unpacked > limit or entry.file_size > 1100 * max(entry.compress_size, 1):
            message = f"{entry.filename!r} unpacks to {entry.file_size} bytes, the limit is {limit}"
            self._refuse(message, "set GRAPHPORT_LIMITS=keras.unpacked=N to allow N bytes")
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = unpacker.decompress(self.file.view(start, entry.compress_size), entry.file_size + 1)
        except zlib.error as error:
            self._refuse(f"{entry.filename!r} cannot be unpacked: {error}")
        if len(data) != entry.file_size:
            self._refuse(f"{entry.filename!r} has {len(data)} bytes, its directory declares {entry.file_size}")
        return data
