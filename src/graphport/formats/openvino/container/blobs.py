"""The `.bin` of a model that is written: each tensor at its place, what is the same only once."""

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
"""Bytes at the beginning that tell most tensors apart; those that begin alike are read once more for a digest."""
_CHUNK = 1 << 20


class Piece(NamedTuple):
    """Where the bytes of a tensor are."""

    offset: int
    size: int


def unchanged(graph: Graph) -> MappedFile | None:
    """The `.bin` that all constants of a graph still are where its `.xml` says, if there is one."""
    header = graph.notes.get(KEY)
    if not isinstance(header, Header) or header.weights is None:
        return None
    left = 0
    for inner in walk(graph):
        found = inner.notes.get(KEY)
        left += found.constants if isinstance(found, Header) else 0
        for value in inner.constants:
            if not _is_in_place(value, header.weights):
                return None
        left -= len(inner.constants)
    return header.weights if left == 0 else None


def _is_in_place(value: Value, file: MappedFile) -> bool:
    note, storage = value.notes.get(KEY) if value.has_notes else None, value.storage
    if not isinstance(note, Element) or not isinstance(storage, FileStorage | Coded | Texts):
        return False
    data = note.child("data")
    return storage.file is file and data is not None and data.attributes.get("offset") == str(storage.start)


class Blobs:
    """Writes tensors one after another, each aligned to its elements."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = 0
        self._small: dict[bytes, Piece] = {}
        self._large: dict[tuple[int, bytes], Piece | dict[bytes, Piece]] = {}
        """By size and first bytes; where several have the same ones, by digest."""
        self._placed: dict[int, Piece] = {}

    def place(self, storage: Storage) -> Piece:
        """Where the bytes of `storage` are, written if they were not there yet."""
        placed = self._placed.get(id(storage))
        if placed is not None:
            return placed
        unit = max(1, storage.dtype.bits // 8)
        start = -(-self._size // unit) * unit
        self._file.seek(start)
        head, length = b"", 0
        for chunk in encoded(storage):
            head += chunk[: _HEAD - len(head)]
            self._file.write(chunk)
            length += len(chunk)
        piece = self._first(head, Piece(start, length))
        if piece.offset == start:
            self._size = start + length
        self._placed[id(storage)] = piece
        return piece

    def _first(self, head: bytes, piece: Piece) -> Piece:
        """The first piece with the bytes of `piece`, which begin with `head`."""
        if piece.size == len(head):
            return self._small.setdefault(head, piece)
        alike = piece.size, head
        known = self._large.setdefault(alike, piece)
        if known is piece:
            return piece
        if isinstance(known, Piece):
            known = self._large[alike] = {self._digest(known): known}
        return known.setdefault(self._digest(piece), piece)

    def _digest(self, piece: Piece) -> bytes:
        self._file.seek(piece.offset)
        digest, left = blake2b(digest_size=16), piece.size
        while left:
            chunk = self._file.read(min(left, _CHUNK))
            digest.update(chunk)
            left -= len(chunk)
        return digest.digest()

    def finish(self) -> None:
        """Cut off what was written twice."""
        self._file.truncate(self._size)


def copy(source: MappedFile, target: BinaryIO) -> None:
    """Write the bytes of a file to another one."""
    target.writelines(source.chunks(0, source.size))
