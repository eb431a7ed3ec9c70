"""Tar archives: a validated list of members, and deterministic headers.

Archives are untrusted: every size is compared with the file size before it is used, and no member is extracted to disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source
    from graphport.core.storage import Bytes, MappedFile

BLOCK = 512
_LONGEST_HEADER = 1 << 16
_FINDINGS = 20
_FILES = frozenset((b"0", b"\0", b"7"))
_NOTES = frozenset((b"L", b"K", b"x", b"g"))
_REFUSED = {
    b"1": "a hard link",
    b"2": "a link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}
_SEPARATORS = re.compile(r"/(?:\.?/)*")
_DRIVE = re.compile(r"[A-Za-z]:")
_ANY_SEPARATOR = re.compile(r"[/\\]")
_OCTAL = re.compile(rb"[ \0]*([0-7]*)[ \0]*")
_RECORD = re.compile(rb"([0-9]{1,6}) ([^=\n]+)=")


@dataclass(frozen=True, slots=True)
class Member:
    """Where the bytes of a file lie in an archive."""

    start: int
    size: int


def is_tar(head: bytes) -> bool:
    """Whether a file that begins with `head`, 512 bytes or more, is a tar archive: its first checksum is right."""
    return len(head) >= BLOCK and _is_sound(head[:BLOCK])


class Archive:
    """A tar archive in any of the usual forms: the first one, POSIX, GNU."""

    def __init__(self, file: MappedFile | Bytes, source: Source, most: int) -> None:
        """An archive with at most `most` members; nothing is read yet."""
        self._file = file
        self._source = source
        self._most = most
        self._found: list[Diagnostic] = []
        self._name: str | None = None
        self._size: int | None = None
        self._members: dict[str, Member] = {}

    def members(self) -> dict[str, Member]:
        """Every file, by its name without a leading `./`.

        Raises:
            DiagnosticError: the archive is damaged (NNEF0737), or has members that no model has: links, devices, names
                that leave the folder, two of one name, too many (NNEF0738).
        """
        offset = 0
        while len(self._found) < _FINDINGS:
            after = self._member(offset)
            if after is None:
                break
            offset = after
        if self._found:
            raise DiagnosticError(*self._found)
        return self._members

    def _member(self, offset: int) -> int | None:
        """Add the member whose header is at `offset`; return the offset of the next one, `None` after the last."""
        left = self._file.size - offset
        header = bytes(self._file.view(offset, min(BLOCK, left)))
        if not header.strip(b"\0"):
            return None
        if len(header) < BLOCK or not _is_sound(header):
            return self._corrupt_error("corrupt header of a member", offset)
        kind = header[156:157]
        is_note = kind in _NOTES
        size = _parse_number(header[124:136]) if self._size is None or is_note else self._size
        if size is None or size > left - BLOCK:
            return self._corrupt_error("a member is longer than the archive", offset)
        start = offset + BLOCK
        if is_note:
            if size > _LONGEST_HEADER:
                return self._corrupt_error(f"a name or note of {size} bytes is longer than {_LONGEST_HEADER}", offset)
            self._extend(kind, bytes(self._file.view(start, size)), offset)
        else:
            name = _name(header) if self._name is None else self._name
            self._name = self._size = None
            self._add_member(kind, name, Member(start, size), offset)
        return start + size + -size % BLOCK

    def _extend(self, kind: bytes, content: bytes, offset: int) -> None:
        """Read the long name of the next member from an extended header."""
        if kind == b"L":
            self._name = _text(content)
        if kind != b"x":
            return
        at = 0
        while record := _RECORD.match(content, at):
            stop = at + int(record[1])
            key, value = record[2], content[record.end() : stop - 1]
            if key == b"path":
                self._name = _text(value)
            elif key == b"size" and value.isdigit() and len(value) < 20:
                self._size = int(value)
            elif key.startswith(b"GNU.sparse"):
                self._refuse("a sparse file", self._name or "", offset)
            at = max(stop, record.end())

    def _add_member(self, kind: bytes, name: str, member: Member, offset: int) -> None:
        plain = _SEPARATORS.sub("/", name).removeprefix("./")
        if kind == b"5" or (kind in _FILES and plain.endswith("/")):
            return
        if kind not in _FILES:
            self._refuse(_REFUSED.get(kind, "of an unknown file type"), name, offset)
        elif fault_of_name(plain) is not None:
            self._refuse("outside of the archive", name, offset)
        elif plain in self._members:
            self._refuse("a duplicate", name, offset)
        elif len(self._members) == self._most:
            self._refuse(f"beyond the limit of {self._most} members", name, offset)
        else:
            self._members[plain] = member

    def _corrupt_error(self, message: str, offset: int) -> None:
        span = Span(self._source, place=f"byte {offset}")
        self._found.append(
            Diagnostic("NNEF0737", message, span, "create the archive again: it is truncated or corrupt")
        )

    def _refuse(self, what: str, name: str, offset: int) -> None:
        span = Span(self._source, place=f"byte {offset}")
        remedy = "create the archive again with regular files inside of the model's folder"
        self._found.append(Diagnostic("NNEF0738", f"the member '{name[:100]}' is {what}", span, remedy))


def fault_of_name(name: str) -> str | None:
    """Return why `name` is not a path inside a folder on every system; `None` if it is."""
    parts = _ANY_SEPARATOR.split(name)
    if not name or "\0" in name:
        return "names no file"
    if not parts[0] or _DRIVE.match(parts[0]):
        return "is absolute"
    if ".." in parts:
        return "points outside of the folder"
    return None


def tar_header(name: str, size: int) -> bytes:
    """Return the header of a file, without time and owner."""
    import tarfile

    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def tar_end() -> bytes:
    """Return the end of an archive."""
    return bytes(2 * BLOCK)


def _is_sound(header: bytes) -> bool:
    stated = _parse_number(header[148:156])
    blanked = header[:148] + b" " * 8 + header[156:]
    # Some old archivers summed signed bytes.
    return stated is not None and (stated == sum(blanked) or stated == sum(byte - (byte >> 7 << 8) for byte in blanked))


def _parse_number(field: bytes) -> int | None:
    """Parse a number in octal digits, or in base 256 if the first bit is set; `None` if it is malformed or negative."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    match = _OCTAL.fullmatch(field)
    return None if match is None else int(match[1] or b"0", 8)


def _name(header: bytes) -> str:
    name = _text(header[:100])
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")
