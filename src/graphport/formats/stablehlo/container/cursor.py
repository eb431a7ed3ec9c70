"""Read the integers of MLIR bytecode from a range of a mapped file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.stablehlo.refusal import refuse

if TYPE_CHECKING:
    from graphport.core.storage import Bytes, MappedFile


class Cursor:
    """A position in a range of bytes; reads past its end are refused."""

    __slots__ = ("data", "end", "file", "position")

    def __init__(self, file: MappedFile | Bytes, start: int, end: int) -> None:
        self.file = file
        self.position = start
        self.end = end
        self.data = file.view(0, file.size)

    @property
    def remaining_bytes(self) -> int:
        """Number of remaining bytes."""
        return self.end - self.position

    @property
    def is_done(self) -> bool:
        """Whether no bytes remain."""
        return self.position >= self.end

    def read_bytes(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            RefusedError: SH0002 there are not as many.
        """
        start = self.skip(size)
        return bytes(self.data[start : start + size])

    def skip(self, size: int) -> int:
        """Skip bytes; return where they begin."""
        if size < 0 or size > self.remaining_bytes:
            help = "restore the file: it is truncated or corrupt"
            refuse(
                "SH0002",
                f"truncated file: {size} bytes expected, {self.remaining_bytes} left",
                help=help,
                offset=self.position,
            )
        start = self.position
        self.position += size
        return start

    def byte(self) -> int:
        """The next byte."""
        return self.data[self.skip(1)]

    def varint(self) -> int:
        """An unsigned number: the trailing zeros of the first byte are the number of bytes that follow."""
        first = self.byte()
        if first & 1:
            return first >> 1
        if first == 0:
            return int.from_bytes(self.read_bytes(8), "little")
        more = (first & -first).bit_length() - 1
        return (first | int.from_bytes(self.read_bytes(more), "little") << 8) >> (more + 1)

    def signed(self) -> int:
        """A signed number, zigzag encoded."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def count(self) -> int:
        """A number of items, each of which takes a byte or more.

        Raises:
            RefusedError: SH0002 they exceed the remaining bytes.
        """
        number = self.varint()
        if number > self.remaining_bytes:
            help = "restore the file: it is truncated or corrupt"
            refuse(
                "SH0002",
                f"{number} items exceed the remaining {self.remaining_bytes} bytes",
                help=help,
                offset=self.position,
            )
        return number

    def terminated(self) -> str:
        """Bytes up to a zero."""
        start = self.position
        while self.byte():
            if self.position - start > 256:
                refuse("SH0002", "unterminated name", offset=start)
        return bytes(self.data[start : self.position - 1]).decode("utf-8", "replace")

    def section(self) -> tuple[int, Cursor]:
        """A section: its code and its contents."""
        code = self.byte()
        size = self.varint()
        if code & 0x80:
            alignment = self.varint()
            if alignment > 1:
                self.align(alignment)
        start = self.skip(size)
        return code & 0x7F, Cursor(self.file, start, start + size)

    def align(self, alignment: int) -> None:
        """Skip padding."""
        base = self.origin
        while (self.position - base) % alignment:
            self.skip(1)
            if self.data[self.position - 1] != 0xCB:
                self.position -= 1
                return

    @property
    def origin(self) -> int:
        """The offset from which alignment counts."""
        return 0
