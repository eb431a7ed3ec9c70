"""Read the directory and the members of a zip file; no file is extracted to disk."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.core.storage import Bytes
from graphport.core.zip_directory import member_start, read_mapped_directory

if TYPE_CHECKING:
    from zipfile import ZipInfo

    from graphport.core.diagnostics import Source
    from graphport.core.storage import MappedFile

_ENCRYPTED = 0x1

MOST_INFLATED = 1 << 31
"""Maximum total bytes of the decompressed members of one file."""
MOST_RATIO = 200
"""Maximum compression ratio of a member; weights and programs compress far less."""
SMALL = 1 << 20
"""Bytes of a member up to which any compression ratio is accepted."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an archive, as its directory declares it."""

    name: str
    header: int
    length: int
    packed: int
    checksum: int
    is_packed: bool


class Container:
    """The members of an archive by name, without their common folder."""

    def __init__(
        self, file: MappedFile | Bytes, source: Source, start: int = 0, length: int | None = None, within: str = ""
    ) -> None:
        """Read the directory of `file` from offset `start` on; `within` names the archive member that starts there.

        Raises:
            DiagnosticError: PT0001 not a zip file, PT0002 two members have the same name, PT0003 a member is
                encrypted, compressed by an unknown method, or its compression ratio is too high.
        """
        self.file = file
        self.source = source
        self.size = file.size - start if length is None else length
        self._offset = start
        self._within = f"{within}: " if within else ""
        self._inflated = 0
        self.folder, self.members = self._directory()

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def below(self, prefix: str) -> list[str]:
        """Return the names of the members that start with `prefix`, in directory order."""
        return [name for name in self.members if name.startswith(prefix)]

    def read(self, name: str) -> bytes:
        """Return the content of a member after checking its CRC.

        Raises:
            DiagnosticError: PT0004 no member has this name, PT0005 the member is corrupt.
        """
        member = self._member(name)
        found, start, _ = self.placed(name)
        data = found.view(start, member.length).tobytes()
        if zlib.crc32(data) != member.checksum:
            raise self.fault("PT0005", f"{name} is corrupt: its checksum differs from the zip directory")
        return data

    def placed(self, name: str) -> tuple[MappedFile | Bytes, int, int]:
        """Return file, offset and length of a member's bytes.

        Raises:
            DiagnosticError: PT0004 no member has this name, PT0005 the member is truncated or corrupt.
        """
        member = self._member(name)
        start = self._data_offset(member)
        if not member.is_packed:
            return self.file, start, member.length
        return Bytes(self._inflate(member, start)), 0, member.length

    def fault(self, code: str, message: str, help: str | None = None) -> DiagnosticError:
        """Return an error about the archive."""
        return DiagnosticError(
            Diagnostic(
                code,
                f"{self._within}{message}",
                Span(self.source),
                help or "save the program again with torch.export.save",
            )
        )

    def _member(self, name: str) -> Member:
        member = self.members.get(name)
        if member is None:
            raise self.fault("PT0004", f"missing archive member {name!r}")
        return member

    def _data_offset(self, member: Member) -> int:
        """Return the offset of a member's data, which follows its local header.

        Raises:
            DiagnosticError: PT0005 the header is missing, or the data exceeds the file.
        """
        start = member_start(self.file, self._offset + member.header) if member.header >= 0 else None
        if start is None or start + member.packed > self._offset + self.size:
            raise self.fault("PT0005", f"truncated file: {member.name!r} exceeds the end of the file or has no header")
        return start

    def _inflate(self, member: Member, start: int) -> bytes:
        self._inflated += member.length
        # Several members may refer to the same compressed bytes.
        most = min(budget.limit("pt2.unpacked", MOST_INFLATED), MOST_RATIO * self.size + 16 * SMALL)
        if self._inflated > most:
            raise self.fault("PT0003", f"the archive unpacks to more than {most} bytes")
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = inflate.decompress(self.file.view(start, member.packed), member.length + 1)
        except zlib.error as error:
            raise self.fault("PT0005", f"{member.name!r} is corrupt: {error}") from error
        if len(data) != member.length:
            message = f"{member.name!r} declares {member.length} bytes, but decompresses to a different size"
            raise self.fault("PT0005", message)
        return data

    def _directory(self) -> tuple[str, dict[str, Member]]:
        try:
            entries = read_mapped_directory(self.file, self._offset, self.size)
        except BadZipFile as error:
            help = "export the module again with torch.export.save, which writes zip files"
            raise self.fault("PT0001", f"not a zip file: {error}", help) from error
        folder = _folder([entry.filename for entry in entries])
        members: dict[str, Member] = {}
        for entry in entries:
            name = entry.filename.removeprefix(folder)
            if name.endswith("/") or not name:
                continue
            if name in members:
                raise self.fault("PT0002", f"duplicate archive member {name!r}", "export the module again")
            self._check(entry)
            members[name] = Member(
                name,
                entry.header_offset,
                entry.file_size,
                entry.compress_size,
                entry.CRC,
                entry.compress_type == ZIP_DEFLATED,
            )
        return folder, members

    def _check(self, entry: ZipInfo) -> None:
        name, length, packed = entry.filename, entry.file_size, entry.compress_size
        message = None
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            message = f"the member {name!r} is encrypted or compressed by an unsupported method"
        elif entry.compress_type == ZIP_STORED and length != packed:
            message = f"the member {name!r} is not compressed, but has two different sizes"
        elif length > SMALL and length > MOST_RATIO * packed:
            message = (
                f"the member {name!r} decompresses from {packed} to {length} bytes; the ratio exceeds {MOST_RATIO}"
            )
        if message is not None:
            raise self.fault("PT0003", message, "save the program again")


def _folder(names: list[str]) -> str:
    """Return the common folder of all members with a trailing slash; empty if there is none."""
    first = names[0].partition("/")[0] + "/" if names and "/" in names[0] else ""
    return first if first and all(name.startswith(first) for name in names) else ""
