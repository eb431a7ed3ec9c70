"""The bytes of an HDF5 file: checked positions, little-endian integers, and the heap of long strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from graphport.core import budget
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Source
    from graphport.core.storage import Bytes, MappedFile

MAX_ENTRIES = 1_000_000
"""Links, messages and B-tree nodes of one file that are read."""
UNDEFINED = (1 << 64) - 1
"""The address of nothing."""
_HELP = "save the model again with Keras"


class Cursor:
    """A position in bytes of a file; reads beyond the end are refused."""

    def __init__(self, file: Hdf5Bytes, data: memoryview, place: str) -> None:
        self.file = file
        self.data = data
        self.place = place
        self.at = 0

    def read_bytes(self, count: int) -> memoryview:
        """The next `count` bytes."""
        if count < 0 or self.at + count > len(self.data):
            self.file.refuse(f"{self.place} is truncated: {self.at + count} bytes expected, {len(self.data)} found")
        start, self.at = self.at, self.at + count
        return self.data[start : self.at]

    def skip(self, count: int) -> None:
        """Skip `count` bytes."""
        self.read_bytes(count)

    def read_int(self, size: int) -> int:
        """An unsigned little-endian integer."""
        return int.from_bytes(self.read_bytes(size), "little")

    def offset(self) -> int:
        """A file address; `UNDEFINED` for none."""
        value = self.read_int(self.file.offset_size)
        return UNDEFINED if value == (1 << 8 * self.file.offset_size) - 1 else value

    def length(self) -> int:
        """A length in bytes or elements."""
        return self.read_int(self.file.length_size)

    def align(self, size: int) -> None:
        """Skip to the next multiple of `size`."""
        self.skip(-self.at % size)

    @property
    def remaining(self) -> int:
        """Number of bytes after the position."""
        return len(self.data) - self.at


class Hdf5Bytes:
    """The bytes of an HDF5 file inside a mapped file: from byte `start` on, `size` bytes."""

    def __init__(self, file: MappedFile | Bytes, source: Source, start: int, size: int) -> None:
        self.file = file
        self.source = source
        self.start = start
        self.size = size
        self.offset_size = self.length_size = 8
        self.base = 0
        self._entries = 0
        self._heaps: dict[int, dict[int, memoryview]] = {}

    def refuse(self, message: str, code: str = "KERAS0101", help: str = _HELP) -> Never:
        """Refuse the file.

        Raises:
            DiagnosticError: always.
        """
        raise DiagnosticError(Diagnostic(code, message, Span(self.source), help))

    def count(self, entries: int = 1) -> None:
        """Count entries of the file that are read.

        Raises:
            DiagnosticError: KERAS0103 they exceed the limit.
        """
        self._entries += entries
        limit = budget.limit("keras.hdf5", MAX_ENTRIES)
        if self._entries > limit:
            help = "set GRAPHPORT_LIMITS=keras.hdf5=N to allow N entries"
            self.refuse(f"the HDF5 file has more than {limit} entries", "KERAS0103", help)

    def position(self, address: int, length: int, place: str) -> int:
        """The position in `file` of `length` bytes at a file address, checked against the end."""
        if address == UNDEFINED or address < 0 or self.base + address + length > self.size:
            self.refuse(f"{place} exceeds the end of the HDF5 file ({self.size} bytes)")
        return self.start + self.base + address

    def bytes(self, address: int, length: int, place: str) -> memoryview:
        """`length` bytes at a file address."""
        return self.file.view(self.position(address, length, place), length)

    def cursor(self, address: int, length: int, place: str) -> Cursor:
        """A cursor over `length` bytes at a file address."""
        return Cursor(self, self.bytes(address, length, place), place)

    def global_heap(self, address: int, index: int) -> memoryview:
        """The object `index` of a global heap collection: a string of variable length."""
        if address not in self._heaps:
            self._heaps[address] = dict(self._heap_objects(address))
        found = self._heaps[address].get(index)
        if found is None:
            self.refuse(f"the global heap at {address} has no object {index}")
        return found

    def _heap_objects(self, address: int) -> Iterator[tuple[int, memoryview]]:
        place = f"the global heap at {address}"
        head = self.cursor(address, 8 + self.length_size, place)
        if bytes(head.read_bytes(4)) != b"GCOL":
            self.refuse(f"{place} has no signature")
        head.skip(4)
        cursor = self.cursor(address, head.length(), place)
        cursor.skip(8 + self.length_size)
        cursor.align(8)
        while cursor.remaining >= 8 + self.length_size:
            self.count()
            index = cursor.read_int(2)
            cursor.skip(6)
            size = cursor.length()
            if index == 0:
                return
            yield index, cursor.read_bytes(size)
            cursor.skip(min(-size % 8, cursor.remaining))
