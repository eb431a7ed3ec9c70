"""Members of a zip archive: offsets and checksums."""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.core.regular_files import open_regular
from graphport.core.zip_directory import LOCAL_MARK, member_start, read_directory
from graphport.formats.archive.container.layout import ALIGNMENT, HEAD, MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from graphport.core.diagnostics import Source
    from graphport.core.storage import MappedFile

_PADDING = 0xD935
"""The kind of extra field that other writers of aligned archives pad with."""
_WIDE_FROM = 0x7FFFFFFF / 1.05
"""Bytes from which on a member's header has room for 64 bits."""
_WIDE_EXTRA = 20

_CORRUPT = "fetch or write the file again: it is corrupt or truncated"


class Member(NamedTuple):
    """The bytes of one member."""

    name: str
    start: int
    length: int
    checksum: int


def members(file: MappedFile, source: Source) -> dict[str, Member]:
    """Return the members by name; their data is not read.

    Raises:
        DiagnosticError: IO0201 not a zip archive, IO0202 a member exceeds the file, IO0208 a member is compressed or
            encrypted, IO0209 two members have the same name.
    """
    found: dict[str, Member] = {}
    for info in _directory(file.path, source):
        span = Span(source, place=f"member {info.filename!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            message = f"the member {info.filename!r} is compressed or encrypted"
            raise DiagnosticError(
                Diagnostic("IO0208", message, span, "write the archive without compression or encryption")
            )
        if info.filename in found:
            message = f"duplicate member {info.filename!r}"
            raise DiagnosticError(Diagnostic("IO0209", message, span, _CORRUPT))
        start = member_start(file, info.header_offset)
        if start is None or start + info.file_size > file.size:
            message = (
                f"truncated file: the member {info.filename!r} of {info.file_size} bytes exceeds the end of the file"
            )
            raise DiagnosticError(Diagnostic("IO0202", message, span, _CORRUPT))
        found[info.filename] = Member(info.filename, start, info.file_size, info.CRC)
    return found


def _directory(path: Path, source: Source) -> list[zipfile.ZipInfo]:
    try:
        return read_directory(path)
    except zipfile.BadZipFile as error:
        with open_regular(path) as file:
            is_zip = file.read(4) == LOCAL_MARK
        if is_zip:
            message = "truncated or corrupt file: no zip directory at the end"
            raise DiagnosticError(Diagnostic("IO0202", message, Span(source), _CORRUPT)) from error
        message = "not a graphport archive"
        raise DiagnosticError(
            Diagnostic("IO0201", message, Span(source, place="byte 0"), "pass a file that graphport wrote")
        ) from error


def verify(file: MappedFile, found: Iterable[Member], source: Source) -> list[Diagnostic]:
    """Return a diagnostic for every member whose checksum does not match."""
    findings: list[Diagnostic] = []
    for member in found:
        checksum = 0
        for chunk in file.chunks(member.start, member.length):
            checksum = zlib.crc32(chunk, checksum)
        if checksum != member.checksum:
            message = f"checksum mismatch of {member.name!r}: {member.checksum:08x} expected, {checksum:08x} found"
            span = Span(source, place=f"member {member.name!r}")
            findings.append(Diagnostic("IO0203", message, span, _CORRUPT))
    return findings


def content(file: MappedFile, member: Member, source: Source) -> bytes:
    """Return all bytes of a member.

    Raises:
        DiagnosticError: IO0211 the member is too large to be read as a whole.
    """
    most = budget.limit("archive.text", MOST_TEXT)
    if member.length > most:
        message = f"the member {member.name!r} has {member.length} bytes, the limit is {most}"
        remedy = "check the archive, or set GRAPHPORT_LIMITS=archive.text=N to allow N bytes"
        raise DiagnosticError(Diagnostic("IO0211", message, Span(source), remedy))
    return bytes(file.view(member.start, member.length))


class Writing:
    """Writer of archive members, one after another; equal contents give equal bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def add(self, name: str, length: int, chunks: Iterator[bytes | memoryview], *, is_aligned: bool = False) -> None:
        """Write a member of `length` bytes; with `is_aligned`, its data begins at a multiple of `ALIGNMENT`."""
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.create_system = 3
        info.external_attr = 0o644 << 16
        info.file_size = length
        if is_aligned:
            info.extra = self._padding(name, length)
        with self._archive.open(info, "w") as member:
            for chunk in chunks:
                member.write(chunk)

    def _padding(self, name: str, length: int) -> bytes:
        start = self._archive.start_dir + HEAD + len(name) + (_WIDE_EXTRA if length > _WIDE_FROM else 0)
        missing = -(start + 4) % ALIGNMENT
        return struct.pack("<HH", _PADDING, missing) + bytes(missing)
