"""An encoded message: bytes, and storages whose elements are streamed in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from graphport.formats.onnx.container.wire import head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.storage import Storage


class Sink(Protocol):
    """A file that is written to."""

    def write(self, data: memoryview | bytes | bytearray, /) -> object:
        """Take `data`, which may change afterwards."""
        ...


class Encoded:
    """The content of a message, in pieces, and its length in bytes."""

    __slots__ = ("length", "pieces")

    def __init__(self) -> None:
        self.pieces: list[bytearray | Storage] = []
        self.length = 0

    def add(self, data: bytes | bytearray) -> None:
        """Append bytes."""
        last = self.pieces[-1] if self.pieces else None
        if isinstance(last, bytearray):
            last += data
        else:
            self.pieces.append(bytearray(data))
        self.length += len(data)

    def add_numbers(self, field: int, storage: Storage) -> None:
        """Append a field with the packed elements of `storage`."""
        self.add(head(field, storage.nbytes))
        self.pieces.append(storage)
        self.length += storage.nbytes

    def add_field(self, field: int, content: bytes | Encoded) -> None:
        """Append a field with a length: a text, or a message."""
        # `len()` raises OverflowError for lengths beyond the address space.
        self.add(head(field, len(content) if isinstance(content, bytes) else content.length))
        if isinstance(content, bytes):
            self.add(content)
            return
        for piece in content.pieces:
            if isinstance(piece, bytearray):
                self.add(piece)
            else:
                self.pieces.append(piece)
                self.length += piece.nbytes

    def __len__(self) -> int:
        return self.length

    def chunks(self) -> Iterator[memoryview]:
        """Yield all bytes in order; each chunk is valid until the next one."""
        for piece in self.pieces:
            if isinstance(piece, bytearray):
                yield memoryview(piece)
            else:
                yield from packed_elements(piece)


def packed_elements(storage: Storage) -> Iterator[memoryview]:
    """Yield the packed elements of a storage, in chunks.

    Raises:
        OSError: their number differs from the shape: the underlying file was changed.
    """
    length = 0
    for chunk in storage.chunks():
        length += len(chunk)
        yield chunk
    if length != storage.nbytes:
        message = f"{length} of {storage.nbytes} bytes were read"
        raise OSError(message)
