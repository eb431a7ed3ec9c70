"""Writer of the `.bin`: stores equal tensors once."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from graphport.core.storage import FileStorage
from graphport.formats.openvino.container.notes import KEY, Header
from graphport.formats.openvino.container.weights import Coded, Texts, encoded
from graphport.formats.openvino.container.xml import Element
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.core.storage import MappedFile, Storage
    from graphport.ir.graph import Graph, Value


_HEAD = 1024
"""Length of the prefix that is compared first; tensors with equal prefixes are compared by digest."""
_CHUNK = 1 << 20


class ByteRange(NamedTuple):
    """Offset and size of a tensor's bytes."""

    offset: int
    size: int


def unchanged(graph: Graph) -> MappedFile | None:
    """Return the model's `.bin` if all constants are unchanged and still at their offsets, else `None`."""
    header = graph.notes.get(KEY)
    if not isinstance(header, Header) or header.weights is None:
        return None
    left = 0
    for inner in walk(graph):
        found = inner.notes.get(KEY)
        left += found.constants if isinstance(found, Header) else 0
        for value in inner.constants:
            if not _is_at_offset(value, header.weights):
                return None
        left -= len(inner.constants)
    return header.weights if left == 0 else None


def _is_at_offset(value: Value, file: MappedFile) -> bool:
    note, storage = value.notes.get(KEY) if value.has_notes else None, value.storage
    if not isinstance(note, Element) or not isinstance(storage, FileStorage | Coded | Texts):
        return False
    data = note.child("data")
    return storage.file is file and data is not None and data.attributes.get("offset") == str(storage.start)


class Blobs:
    """Append tensors to a file, each aligned to its element size."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = 0
        self._position: int = 0
        self._small: dict[bytes, ByteRange] = {}
        self._large: dict[tuple[int, bytes], ByteRange | dict[bytes, ByteRange]] = {}
        """Pieces by size and first bytes; where several match, by digest."""
        self._placed: dict[int, ByteRange] = {}

    def append(self, storage: Storage) -> ByteRange:
        """Return the position of the bytes of `storage`; write them if they are new."""
        placed = self._placed.get(id(storage))
        if placed is not None:
            return placed
        unit = max(1, storage.dtype.bits // 8)
        start = -(-self._size // unit) * unit
        if start != self._position:
            self._file.seek(start)
        head, length = b"", 0
        for chunk in encoded(storage):
            head += chunk[: _HEAD - len(head)]
            self._file.write(chunk)
            length += len(chunk)
        self._position = start + length
        piece = self._find_duplicate(head, ByteRange(start, length))
        if piece.offset == start:
            self._size = start + length
        self._placed[id(storage)] = piece
        return piece

    def _find_duplicate(self, head: bytes, piece: ByteRange) -> ByteRange:
        """Return the first piece with the bytes of `piece`, which begin with `head`."""
        if piece.size == len(head):
            return self._small.setdefault(head, piece)
        alike = piece.size, head
        known = self._large.setdefault(alike, piece)
        if known is piece:
            return piece
        if isinstance(known, ByteRange):
            known = self._large[alike] = {self._digest(known): known}
        return known.setdefault(self._digest(piece), piece)

    def _digest(self, piece: ByteRange) -> bytes:
        self._file.seek(piece.offset)
        digest, left = blake2b(digest_size=16), piece.size
        while left:
            chunk = self._file.read(min(left, _CHUNK))
            digest.update(chunk)
            left -= len(chunk)
        self._position = self._file.tell()
        return digest.digest()

    def finish(self) -> None:
        """Truncate bytes that were written twice."""
        # OpenVINO 2026.4 crashes on a constant without elements if the file is empty.
        if self._placed and not self._size:
            self._file.seek(0)
            self._file.write(b"\0")
            self._size = 1
        self._file.truncate(self._size)


def copy(source: MappedFile, target: BinaryIO) -> None:
    """Write the bytes of a file to another one."""
    target.writelines(source.chunks(0, source.size))
