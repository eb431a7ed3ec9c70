"""The `.bin` archive of weights: a zip file with an uncompressed member per weight."""

from __future__ import annotations

import struct
import zlib
from enum import Enum
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.diagnostics import Source
    from graphport.core.storage import MappedFile, Storage

_LOCAL, _CENTRAL, _END, _END64, _LOCATOR = b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\6\7"
_HEAD = struct.Struct("<4sHHHIIIIHH")
_EXTRA = struct.Struct("<HHQQQI")
_EXTRA_ID = 1
_DESCRIPTOR = 0x08
_WIDE = 0xFFFFFFFF
_MOST_NARROW = 0xFFFF
LONGEST_NAME = 0xFFFF
"""Maximum bytes of a member's name."""


class Layout(Enum):
    """Width of the length fields in member headers."""

    WIDE = "64 bits"
    """64 bits: pnnx since 2024."""
    NARROW = "32 bits"
    """32 bits: pnnx before 2024."""


class Member(NamedTuple):
    """The byte range of one weight in the archive."""

    start: int
    length: int


class Archive(NamedTuple):
    """The members by name, in file order, and the layout of their headers."""

    members: dict[str, Member]
    layout: Layout


def read_archive(file: MappedFile, source: Source) -> Archive:
    """Read the member headers of an archive; the weights are not read.

    Raises:
        DiagnosticError: PNNX0102 a header is malformed or exceeds the file; PNNX0103 a member is compressed or
            encrypted; PNNX0104 two members have one name.
    """
    members: dict[str, Member] = {}
    is_wide, position = False, 0
    while file.view(position, min(4, file.size - position)).tobytes() == _LOCAL:
        name, member, wide = _member(file, position, source)
        if name in members:
            raise _corrupt_error("PNNX0104", f"duplicate member {name!r}", position, source)
        members[name] = member
        is_wide = is_wide or wide
        position = member.start + member.length
    mark = file.view(position, min(4, file.size - position)).tobytes()
    if mark not in (_CENTRAL, _END, _END64):
        raise _corrupt_error("PNNX0102", "missing member header or end of the archive", position, source)
    if not members:
        is_wide = mark == _END64
    return Archive(members, Layout.WIDE if is_wide else Layout.NARROW)


def _member(file: MappedFile, position: int, source: Source) -> tuple[str, Member, bool]:
    if position + _HEAD.size > file.size:
        raise _corrupt_error("PNNX0102", "the file ends within a header", position, source)
    fields = _HEAD.unpack(file.view(position, _HEAD.size))
    flags, compression, packed, length, name_length, extra_length = (*fields[2:4], *fields[6:10])
    start = position + _HEAD.size + name_length + extra_length
    if start > file.size:
        raise _corrupt_error("PNNX0102", "the file ends within a header", position, source)
    name = file.view(position + _HEAD.size, name_length).tobytes().decode("utf-8", "backslashreplace")
    if compression or flags & ~0x0800:
        message = f"the member {name!r} is compressed or encrypted, or its size follows its data"
        raise _corrupt_error("PNNX0103", message, position, source)
    is_wide = _WIDE in (packed, length)
    if is_wide:
        length = _wide_length(file.view(start - extra_length, extra_length).tobytes())
    if length is None or start + length > file.size or (not is_wide and packed != length):
        message = f"truncated file: the member {name!r} of {length} bytes exceeds the end of the file"
        raise _corrupt_error("PNNX0102", message, position, source)
    return name, Member(start, length), is_wide


def _wide_length(extra: bytes) -> int | None:
    """Return the length in the zip64 extra field; `None` if there is no such field."""
    position = 0
    while position + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, position)
        if kind == _EXTRA_ID and size >= 8 and position + 12 <= len(extra):
            return struct.unpack_from("<Q", extra, position + 4)[0]
        position += 4 + size
    return None


def _corrupt_error(code: str, message: str, position: int, source: Source) -> DiagnosticError:
    span = Span(source, place=f"byte {position}")
    return DiagnosticError(Diagnostic(code, message, span, "expected a zip file with uncompressed members"))


def write_archive(file: BinaryIO, weights: Sequence[tuple[str, Storage]], layout: Layout) -> None:
    """Write weights by name with pnnx's byte layout; elements are streamed."""
    if len(weights) > _MOST_NARROW or sum(storage.nbytes for _, storage in weights) > _WIDE >> 1:
        layout = Layout.WIDE
    entries: list[bytes] = []
    offset = 0
    for name, storage in weights:
        encoded = name.encode()
        checksum = 0
        for chunk in storage.chunks():
            checksum = zlib.crc32(chunk, checksum)
        local, central = _headers(encoded, storage.nbytes, checksum, offset, layout)
        entries.append(central)
        file.write(local)
        for chunk in storage.chunks():
            file.write(chunk)
        offset += len(local) + storage.nbytes
    directory = b"".join(entries)
    file.write(directory)
    file.write(_end(len(entries), len(directory), offset, layout))


def _headers(name: bytes, length: int, checksum: int, offset: int, layout: Layout) -> tuple[bytes, bytes]:
    is_wide = layout is Layout.WIDE
    stated = _WIDE if is_wide else length
    extra = _EXTRA_SIZE if is_wide else 0
    # Version, flags, compression, time and date are all 0.
    common = struct.pack("<HHHIIIIHH", 0, 0, 0, 0, checksum, stated, stated, len(name), extra)
    local = _LOCAL + common + name + (_extra(length, 0) if is_wide else b"")
    disk, place = (_MOST_NARROW, _WIDE) if is_wide else (0, offset)
    tail = struct.pack("<HHHII", 0, disk, 0, 0, place)
    central = _CENTRAL + b"\0\0" + common + tail + name + (_extra(length, offset) if is_wide else b"")
    return local, central


def _extra(length: int, offset: int) -> bytes:
    return _EXTRA.pack(_EXTRA_ID, _EXTRA.size - 4, length, length, offset, 0)


_EXTRA_SIZE = _EXTRA.size


def _end(count: int, length: int, offset: int, layout: Layout) -> bytes:
    if layout is Layout.NARROW:
        return _END + struct.pack("<HHHHIIH", 0, 0, count, count, length, offset, 0)
    wide = _END64 + struct.pack("<QHHIIQQQQ", 44, 0, 0, 0, 0, count, count, length, offset)
    locator = _LOCATOR + struct.pack("<IQI", 0, offset + length, 1)
    narrow = struct.pack("<HHHHIIH", *[_MOST_NARROW] * 4, _WIDE, _WIDE, 0)
    return wide + locator + _END + narrow
