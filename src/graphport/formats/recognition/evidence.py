"""Evidence about a file (first bytes, text, members, name), and signatures that test it."""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from typing import IO, TYPE_CHECKING, cast
from zipfile import BadZipFile, ZipFile

from graphport.core.zip_directory import ZIP_FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from zipfile import ZipInfo

MAX_DIRECTORY_BYTES = 1 << 25
"""Bytes of a zip file's directory that are read."""
MAX_MEMBERS = 10_000
"""Members of an archive or a folder that are listed."""
MAX_DEPTH = 4
"""Levels of folders that are listed."""

ZIP = (b"PK\3\4", b"PK\5\6")
"""How zip files with and without members begin."""
_TAR_MAGIC = slice(257, 262)
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


@dataclass(frozen=True)
class Evidence:
    """A file with its first bytes, or a folder, which has none."""

    path: Path
    head: bytes

    @property
    def name(self) -> str:
        """The file name in lower case."""
        return self.path.name.lower()

    @cached_property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return not self.head and self.path.is_dir()

    @property
    def is_zip(self) -> bool:
        """Whether it is a zip file."""
        return self.head.startswith(ZIP)

    @cached_property
    def is_encrypted(self) -> bool:
        """Whether it is a zip file with a member that needs a password."""
        return self.is_zip and any(info.flag_bits & 1 for info in _zip_entries(self.path))

    @property
    def is_tar(self) -> bool:
        """Whether it is a tar archive without compression."""
        return self.head[_TAR_MAGIC] == b"ustar"

    @cached_property
    def text(self) -> str:
        """The head as text; empty if it is binary."""
        for mark, encoding in _BYTE_ORDER_MARKS.items():
            if self.head.startswith(mark):
                return self.head[len(mark) :].decode(encoding, "replace")
        return "" if b"\0" in self.head else self.head.decode("utf-8", "replace")

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The names of the files in a folder or archive, relative to the folder that contains all of them."""
        if self.is_folder:
            return tuple(islice(_files(self.path, "", MAX_DEPTH), MAX_MEMBERS))
        names = _zip_names(self.path) if self.is_zip else _tar_names(self.path) if self.is_tar else ()
        root = names[0].partition("/")[0] + "/" if names else ""
        return tuple(name.removeprefix(root) for name in names) if all(n.startswith(root) for n in names) else names


def _files(folder: Path, prefix: str, depth: int) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if not path.is_dir():
            yield prefix + path.name
        elif depth > 1 and not path.name.startswith(".git"):
            yield from _files(path, f"{prefix}{path.name}/", depth - 1)


class _BoundedFile:
    """A file that reads no more than `MAX_DIRECTORY_BYTES` at once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            message = f"the directory has {size} bytes"
            raise BadZipFile(message)
        return self._file.read(size)


def open_zip(file: IO[bytes]) -> ZipFile:
    """Open a zip file whose directory has a bounded size.

    Raises:
        BadZipFile: it is damaged, or its directory is too large.
    """
    return ZipFile(cast("IO[bytes]", _BoundedFile(file)))


def _zip_entries(path: Path) -> Sequence[ZipInfo]:
    try:
        with path.open("rb") as file, open_zip(file) as opened:
            return opened.infolist()[:MAX_MEMBERS]
    except (OSError, *ZIP_FAULTS):
        return ()


def _zip_names(path: Path) -> tuple[str, ...]:
    names = (info.filename for info in _zip_entries(path))
    return tuple(name for name in names if name and not name.endswith("/"))


def _tar_names(path: Path) -> tuple[str, ...]:
    try:
        with tarfile.open(path, "r:") as opened:
            return tuple(member.name for member in islice(opened, MAX_MEMBERS) if member.isfile())
    except (OSError, tarfile.TarError, ValueError, EOFError):
        return ()


if TYPE_CHECKING:
    Signature = Callable[[Evidence], bool]


def magic(*marks: bytes, at: int = 0) -> Signature:
    """Return a signature: one of `marks` is at offset `at`."""
    return lambda e: any(e.head.startswith(mark, at) for mark in marks)


def ends(mark: bytes) -> Signature:
    """Return a signature: the file ends with `mark`."""
    return lambda e: bool(e.head) and _tail(e.path, len(mark)) == mark


def _tail(path: Path, length: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - length))
            return file.read(length)
    except OSError:
        return b""


def pattern(expression: bytes) -> Signature:
    """Return a signature: the first bytes match a regular expression."""
    compiled = re.compile(expression, re.DOTALL)
    return lambda e: compiled.match(e.head) is not None


def text(expression: str) -> Signature:
    """Return a signature: the text, without leading white space, begins with a match of a regular expression."""
    compiled = re.compile(rf"\s*(?:{expression})")
    return lambda e: compiled.match(e.text) is not None


def keys(*names: str) -> Signature:
    """Return a signature: the text is a JSON object with the keys `names`."""
    compiled = [re.compile(rf'"{re.escape(name)}"\s*:') for name in names]
    return lambda e: e.text.lstrip().startswith("{") and all(each.search(e.text) for each in compiled)


def members(*globs: str) -> Signature:
    """Return a signature: the folder or archive has a member that matches each pattern."""
    return lambda e: all(any(fnmatchcase(name, glob) for name in e.members) for glob in globs)


def named(*globs: str) -> Signature:
    """Return a signature: the file name matches at least one pattern."""
    return lambda e: any(fnmatchcase(e.name, glob) for glob in globs)


def has_sibling(*extensions: str) -> Signature:
    """Return a signature: a file with this stem and one of `extensions` exists."""
    return lambda e: bool(e.head) and any(e.path.with_suffix(each).is_file() for each in extensions)


def both(*signatures: Signature) -> Signature:
    """Return a signature: all signatures hold."""
    return lambda e: all(each(e) for each in signatures)


def either(*signatures: Signature) -> Signature:
    """Return a signature: at least one signature holds."""
    return lambda e: any(each(e) for each in signatures)
