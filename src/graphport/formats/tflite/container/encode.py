"""Encode tables of the schema as a FlatBuffer: each table after its reference, weights streamed at the end."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, BinaryIO

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.formats.tflite.container.schema import IDENTIFIER, SIZES, TABLES, UNIONS, Field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Table = tuple[str, dict[str, Any]]
"""Table name and fields; absent fields and fields with their default value are not written."""

_ALIGNMENT = 16
MAX_FLATBUFFER_BYTES = (1 << 31) - 1
"""Maximum size of a FlatBuffer in bytes: some readers use signed 32-bit offsets."""


class Data:
    """Bytes of a buffer, written after all tables."""

    def __init__(self, length: int, pieces: Any) -> None:
        self.length = length
        self._pieces = pieces

    def blocks(self) -> Iterator[bytes | memoryview]:
        """Iterate over the bytes in blocks."""
        yield from self._pieces()


MAX_INLINE_BYTES = MAX_FLATBUFFER_BYTES - (1 << 26)
"""Maximum bytes of weights inside the FlatBuffer; larger weights follow it, which leaves room for all tables."""


class Trailing:
    """Bytes that follow the FlatBuffer, referenced by a 64-bit offset."""

    def __init__(self, data: Data) -> None:
        self.data = data


class Encoder:
    """Encoder of a table and of all tables that it references."""

    def __init__(self) -> None:
        self._bytes = bytearray(8)
        self._vtables: dict[bytes, int] = {}
        self._late: list[tuple[int, Data]] = []
        self._apart: list[tuple[int, Data]] = []

    def write(self, root: Table, file: BinaryIO) -> None:
        """Write the whole file.

        Raises:
            OverflowError: the file exceeds the range of 32-bit offsets.
        """
        struct.pack_into("<I4s", self._bytes, 0, 0, IDENTIFIER)
        self._point(0, self._table(*root))
        at = len(self._bytes)
        offsets: list[tuple[int, Data]] = []
        for field, data in self._late:
            start = at + (-(at + 4)) % _ALIGNMENT
            if start + 4 + data.length > MAX_FLATBUFFER_BYTES:
                message = f"the FlatBuffer exceeds the maximum size of {MAX_FLATBUFFER_BYTES} bytes"
                raise OverflowError(message)
            self._point(field, start)
            offsets.append((start, data))
            at = start + 4 + data.length
        behind: list[tuple[int, Data]] = []
        for field, data in self._apart:
            at += -at % _ALIGNMENT
            struct.pack_into("<Q", self._bytes, field, at)
            behind.append((at, data))
            at += data.length
        file.write(self._bytes)
        position = len(self._bytes)
        for start, data in offsets:
            file.write(b"\0" * (start - position) + struct.pack("<I", data.length))
            file.writelines(data.blocks())
            position = start + 4 + data.length
        for start, data in behind:
            file.write(b"\0" * (start - position))
            file.writelines(data.blocks())
            position = start + data.length

    def _point(self, field: int, target: int) -> None:
        struct.pack_into("<I", self._bytes, field, target - field)

    def _align(self, size: int, behind: int = 0) -> None:
        self._bytes += b"\0" * ((-(len(self._bytes) + behind)) % size)

    def _table(self, name: str, values: dict[str, Any]) -> int:
        fields = [field for field in TABLES[name] if _has_nondefault_value(field, values)]
        offsets: dict[int, int] = {}
        size = 4
        for field in sorted(fields, key=lambda field: -_width(field)):
            size += -size % _width(field)
            offsets[field.slot] = size
            size += _width(field)
        slots = [offsets.get(slot, 0) for slot in range(4, max(offsets, default=2) + 2, 2)]
        vtable = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), size, *slots)
        self._align(8)
        at = self._vtables.get(vtable)
        if at is None:
            at = self._vtables[vtable] = len(self._bytes)
            self._bytes += vtable
        self._align(8)
        start = len(self._bytes)
        self._bytes += struct.pack("<i", start - at) + b"\0" * (size - 4)
        for field in fields:
            place, value = start + offsets[field.slot], values[field.name]
            if isinstance(value, Trailing):
                self._apart.append((place, value.data))
            elif field.is_scalar:
                self._bytes[place : place + _width(field)] = _packed(field, [value])
            elif isinstance(value, Data):
                self._late.append((place, value))
            else:
                self._point(place, self._target(field, value))
        return start

    def _target(self, field: Field, value: Any) -> int:
        if field.is_vector:
            return self._vector(field, value)
        if field.kind == "s":
            return self._text(value)
        return self._table(*value)

    def _vector(self, field: Field, values: Sequence[Any]) -> int:
        width = SIZES.get(field.kind, 4)
        self._align(max(width, 4), 4)
        start = len(self._bytes)
        self._bytes += struct.pack("<I", len(values))
        if field.kind in SIZES:
            is_raw = isinstance(values, bytes)
            self._bytes += values if is_raw else _packed(field, values)
            return start
        first = len(self._bytes)
        self._bytes += b"\0" * (4 * len(values))
        for index, value in enumerate(values):
            target = self._text(value) if field.kind == "s" else self._table(*value)
            self._point(first + 4 * index, target)
        return start

    def _text(self, text: str) -> int:
        self._align(4)
        start, raw = len(self._bytes), text.encode("utf-8", "surrogateescape")
        self._bytes += struct.pack("<I", len(raw)) + raw + b"\0"
        return start


def _packed(field: Field, values: Sequence[Any]) -> bytes:
    """Encode integers of a field.

    Raises:
        DiagnosticError: TFL0305 one is outside of the range of the field.
    """
    try:
        return struct.pack(f"<{len(values)}{field.kind}", *values)
    except (struct.error, OverflowError) as error:
        message = f"{field.name} is {', '.join(map(str, values)):.100}, outside of the range of its schema type"
        remedy = "set smaller dims, or choose another format"
        raise DiagnosticError(Diagnostic("TFL0305", message, None, remedy)) from error


def _width(field: Field) -> int:
    return SIZES[field.kind] if field.is_scalar else 4


def _has_nondefault_value(field: Field, values: dict[str, Any]) -> bool:
    value = values.get(field.name)
    return value is not None and not (field.is_scalar and value == field.default)


def union_number(union: str, table: str) -> int:
    """Return the number of a table in a union."""
    return UNIONS[union].index(table)
