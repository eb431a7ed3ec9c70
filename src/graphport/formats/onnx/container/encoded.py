"""A message on its way to a file: bytes, and storages whose numbers are streamed between them."""

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
        """Append a field with the packed numbers of `storage`."""
        self.add(head(field, storage.nbytes))
        self.pieces.append(storage)
        self.length += storage.nbytes

    def add_field(self, field: int, content: bytes | Encoded) -> None:
        """Append a field with a length: a text, or a message."""
        # `len` of what is longer than memory could be is an OverflowError.
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
        """All bytes in order; each piece is valid until the next is asked for."""
        for piece in self.pieces:
            if isinstance(piece, bytearray):
                yield memoryview(piece)
            else:
                yield from numbers(piece)


def numbers(storage: Storage) -> Iterator[memoryview]:
    """The packed numbers of a storage, in pieces.

    Raises:
        OSError: there are fewer or more of them than its shape says: the file under it was changed.
    """
    length = 0
    for chunk in storage.chunks():
        length += len(chunk)
        yield chunk
    if length != storage.nbytes:
        message = f"{length} bytes were read of {storage.nbytes}"
        raise OSError(message)
