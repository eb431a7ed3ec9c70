"""Read FlatBuffers: tables by schema; each offset is checked before it is followed.

Files are untrusted: each table, vtable, field, vector and string must be inside the file, and memory use is limited by
the size of the file.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from graphport.formats.tflite.container.schema import SIZES, TABLES, UNIONS, Field

if TYPE_CHECKING:
    from graphport.core.storage import Bytes, MappedFile

MAX_TABLE_DEPTH = 16
"""Maximum depth of nested tables; the schema nests five levels."""


class CorruptFileError(Exception):
    """A violation of the FlatBuffer format; the message contains what is wrong and where."""


class Record(dict[str, Any]):
    """A decoded table: fields by name, absent ones with their defaults."""

    def __init__(self, table: str, at: int) -> None:
        super().__init__()
        self.table = table
        self.at = at

    def records(self, name: str) -> list[Record]:
        """Return a vector of tables; empty if absent."""
        return self[name] or []


class FlatBuffer:
    """A file that is decoded table by table."""

    def __init__(self, file: MappedFile | Bytes) -> None:
        self.file = file
        self.size = file.size
        # Tables that overlap would let a small file expand to a large graph.
        self._left = 8 * file.size + 4096

    def root(self, table: str) -> Record:
        """Decode the root table.

        Raises:
            CorruptFileError: a referenced object is outside of the file.
        """
        return self.record(table, self._follow(0))

    def record(self, table: str, at: int, depth: int = 0) -> Record:
        """Decode the table at byte `at` and all tables that it references.

        Byte vectors are extents, numeric vectors arrays.
        """
        if depth > MAX_TABLE_DEPTH:
            message = f"tables are nested more than {MAX_TABLE_DEPTH} levels deep at byte {at}"
            raise CorruptFileError(message)
        vtable, length, size = self._vtable(at)
        self._spend(size + length)
        found = Record(table, at)
        slots: tuple[int, ...] = struct.unpack(f"<{(length - 4) // 2}H", self._bytes(vtable + 4, length - 4))
        for field in TABLES[table]:
            index = (field.slot - 4) // 2
            offset = slots[index] if index < len(slots) else 0
            if not offset:
                found[field.name] = _default(field)
                continue
            width = SIZES[field.kind] if field.is_scalar else 4
            if offset < 4 or offset + width > size:
                message = f"field {field.name} of the {table} at byte {at} is outside of the table"
                raise CorruptFileError(message)
            found[field.name] = self._field(found, field, at + offset, depth)
        return found

    def view(self, start: int, length: int) -> memoryview:
        """Return bytes of the file without a copy."""
        return self.file.view(start, length)

    def _field(self, record: Record, field: Field, at: int, depth: int) -> Any:
        if field.is_scalar:
            return self._scalar(field.kind, at)
        if field.kind.startswith("@") and not field.is_vector:
            return self._union(record, field, at, depth)
        target = self._follow(at)
        if field.is_vector:
            return self._vector(field, target, depth)
        if field.kind == "s":
            return self._text(target)
        return self.record(field.target, target, depth + 1)

    def _union(self, record: Record, field: Field, at: int, depth: int) -> Record | None:
        names = UNIONS[field.target]
        number: int = record[f"{field.name}_type"]
        if number >= len(names):
            message = f"{field.name} of the {record.table} at byte {record.at} has the unknown union type {number}"
            raise CorruptFileError(message)
        return None if number == 0 else self.record(names[number], self._follow(at), depth + 1)

    def _vector(self, field: Field, at: int, depth: int) -> Any:
        count = self._scalar("I", at)
        width = SIZES.get(field.kind, 4)
        start = at + 4
        if start + count * width > self.size:
            message = f"{field.name} at byte {at} has length {count}, beyond the end of the file"
            raise CorruptFileError(message)
        if field.kind == "B":
            return Extent(start, count)
        self._spend(count * width)
        if field.kind in SIZES:
            return np.frombuffer(self._bytes(start, count * width), np.dtype(field.kind).newbyteorder("<"))
        offsets = [self._follow(start + 4 * index) for index in range(count)]
        if field.kind == "s":
            return [self._text(place) for place in offsets]
        return [self.record(field.target, place, depth + 1) for place in offsets]

    def _text(self, at: int) -> str:
        count = self._scalar("I", at)
        if at + 4 + count > self.size:
            message = f"the string at byte {at} has {count} bytes, beyond the end of the file"
            raise CorruptFileError(message)
        self._spend(count)
        return self._bytes(at + 4, count).decode("utf-8", "backslashreplace")

    def _vtable(self, at: int) -> tuple[int, int, int]:
        """Return the position of the vtable of a table, its length and the length of the table."""
        vtable = at - self._scalar("i", at)
        length = self._scalar("H", vtable)
        size = self._scalar("H", vtable + 2)
        if length < 4 or length % 2 or vtable + length > self.size:
            message = f"the vtable at byte {vtable} has {length} bytes, expected even and 4 to {self.size - vtable}"
            raise CorruptFileError(message)
        if size < 4 or at + size > self.size:
            message = f"the table at byte {at} declares a size of {size} bytes, expected 4 to {self.size - at}"
            raise CorruptFileError(message)
        return vtable, length, size

    def _follow(self, at: int) -> int:
        offset = self._scalar("I", at)
        if offset == 0 or at + offset + 4 > self.size:
            message = f"the offset {offset} at byte {at} points outside of the file"
            raise CorruptFileError(message)
        return at + offset

    def _scalar(self, kind: str, at: int) -> Any:
        return struct.unpack(f"<{kind}", self._bytes(at, SIZES[kind]))[0]

    def _bytes(self, at: int, length: int) -> bytes:
        if at < 0 or at + length > self.size:
            message = f"byte {at} is outside of the file, which has {self.size} bytes"
            raise CorruptFileError(message)
        return bytes(self.file.view(at, length))

    def _spend(self, length: int) -> None:
        self._left -= length
        if self._left < 0:
            message = f"overlapping tables: their decoded size far exceeds the {self.size} bytes of the file"
            raise CorruptFileError(message)


class Extent(tuple[int, int]):
    """A byte range of the file: offset and length."""

    __slots__ = ()

    def __new__(cls, offset: int, length: int) -> Self:
        return super().__new__(cls, (offset, length))

    @property
    def offset(self) -> int:
        """Position of the first byte."""
        return self[0]

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self[1]


def _default(field: Field) -> Any:
    if not field.is_scalar:
        return None
    if field.kind == "?":
        return bool(field.default)
    return field.default if field.kind == "f" else int(field.default)
