"""Read protobuf messages by the tables of `schema`: each message is decoded on the first access to a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.formats.tensorflow.container import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Source
    from graphport.core.storage import Bytes, MappedFile

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_WIDTHS = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10
_MASK = (1 << 64) - 1
_FLOATS = {"float": (FIXED32, "<f4"), "double": (FIXED64, "<f8"), "fixed32": (FIXED32, "<u4")}


class Extent(NamedTuple):
    """Bytes of the file."""

    start: int
    stop: int


class Document:
    """The bytes that messages are read from."""

    def __init__(self, file: MappedFile | Bytes, source: Source) -> None:
        self.file = file
        self.source = source
        self.data = file.view(0, file.size)

    def root(self, kind: str) -> Message:
        """The message that all bytes are."""
        return Message(self, kind, 0, len(self.data))

    def malformed(self, offset: int, reason: str = "malformed field") -> DiagnosticError:
        """Return the error for malformed bytes."""
        span = Span(self.source, place=f"byte {offset}")
        remedy = "fetch the file again: it is corrupt, truncated or not written by TensorFlow"
        return DiagnosticError(Diagnostic("TF0101", f"{reason}, at byte {offset}", span, remedy))

    def varint(self, at: int, stop: int) -> tuple[int, int]:
        """An unsigned number of at most 64 bits, and the offset after it.

        Raises:
            DiagnosticError: TF0101 there is none.
        """
        number = 0
        data = self.data
        for index in range(_MAX_VARINT_BYTES):
            if at + index >= stop:
                break
            byte = data[at + index]
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return number & _MASK, at + index + 1
        raise self.malformed(at)

    def scan(self, start: int, stop: int) -> Iterator[tuple[int, int, int, Extent]]:
        """The fields between two offsets: number, wire type, value of a varint, bytes of other values.

        Raises:
            DiagnosticError: TF0101 the bytes are no fields.
        """
        at = start
        while at < stop:
            begin = at
            tag, at = self.varint(at, stop)
            wire, number = tag & 7, 0
            extent = Extent(at, at)
            if wire == VARINT:
                number, at = self.varint(at, stop)
            else:
                length = _WIDTHS.get(wire, -1)
                if wire == LENGTH:
                    length, at = self.varint(at, stop)
                if not 0 <= length <= stop - at or tag >> 3 == 0:
                    raise self.malformed(begin)
                extent = Extent(at, at + length)
                at += length
            yield tag >> 3, wire, number, extent


class Message:
    """A message whose fields are decoded on the first access."""

    __slots__ = ("_found", "document", "kind", "start", "stop")

    def __init__(self, document: Document, kind: str, start: int, stop: int) -> None:
        self.document = document
        self.kind = kind
        self.start = start
        self.stop = stop
        self._found: dict[str, list[tuple[int, int, Extent]]] | None = None

    def _fields(self, name: str) -> list[tuple[int, int, Extent]]:
        if self._found is None:
            known = schema.fields(self.kind)
            self._found = {}
            for number, wire, value, extent in self.document.scan(self.start, self.stop):
                field = known.get(number)
                if field is not None:
                    self._found.setdefault(field.name, []).append((wire, value, extent))
        return self._found.get(name, [])

    def has(self, name: str) -> bool:
        """Whether the message has the field."""
        return bool(self._fields(name))

    def extents(self, name: str) -> list[Extent]:
        """The bytes of each value of a field of bytes, strings or messages.

        Raises:
            DiagnosticError: TF0101 the field has another wire type.
        """
        found = self._fields(name)
        for wire, _, extent in found:
            if wire != LENGTH:
                raise self.document.malformed(extent.start, f"field {name} has another type")
        return [extent for _, _, extent in found]

    def strings(self, name: str) -> list[str]:
        """The strings of a field."""
        data = self.document.data
        return [bytes(data[start:stop]).decode("utf-8", "backslashreplace") for start, stop in self.extents(name)]

    def string(self, name: str) -> str:
        """The string of a field; empty if there is none."""
        found = self.strings(name)
        return found[-1] if found else ""

    def bytes(self, name: str) -> bytes:
        """The bytes of a field."""
        found = self.extents(name)
        return bytes(self.document.data[found[-1].start : found[-1].stop]) if found else b""

    def messages(self, name: str) -> list[Message]:
        """The messages of a field."""
        kind = next(each.type for each in schema.fields(self.kind).values() if each.name == name)
        return [Message(self.document, kind, *extent) for extent in self.extents(name)]

    def message(self, name: str) -> Message | None:
        """The last message of a field."""
        found = self.messages(name)
        return found[-1] if found else None

    def map(self, name: str) -> dict[str, Message]:
        """A field that maps strings to messages."""
        entries = {each.string("key"): each for each in self.messages(name)}
        return {key: value for key, each in entries.items() if (value := each.message("value")) is not None}

    def string_map(self, name: str) -> dict[str, str]:
        """A field that maps strings to strings."""
        return {each.string("key"): each.string("value") for each in self.messages(name)}

    def integer(self, name: str) -> int:
        """A signed number; 0 if there is none."""
        found = self._fields(name)
        return _signed(found[-1][1]) if found else 0

    def float_value(self, name: str) -> float:
        """A float; 0 if there is none."""
        found = self.numeric_elements(name)
        return float(found[-1]) if found.size else 0.0

    def numeric_elements(self, name: str) -> np.ndarray[Any, Any]:
        """Return the elements of a repeated numeric field, packed or not.

        Raises:
            DiagnosticError: TF0101 the field has another wire type.
        """
        kind = next(each.type for each in schema.fields(self.kind).values() if each.name == name)
        wire_type, code = _FLOATS.get(kind, (VARINT, "<i8"))
        data = self.document.data
        pieces: list[np.ndarray[Any, Any]] = []
        singles: list[int] = []
        for wire, number, (start, stop) in self._fields(name):
            if wire == VARINT == wire_type:
                singles.append(_signed(number))
                continue
            if wire not in (LENGTH, wire_type):
                raise self.document.malformed(start, f"field {name} has another type")
            if singles:
                pieces.append(np.array(singles, np.int64))
                singles = []
            if wire_type == VARINT:
                pieces.append(_unpacked(self.document, start, stop))
                continue
            if (stop - start) % _WIDTHS[wire_type]:
                raise self.document.malformed(start)
            pieces.append(np.frombuffer(data[start:stop], code))
        if singles:
            pieces.append(np.array(singles, np.int64))
        return np.concatenate(pieces) if pieces else np.zeros(0, code)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _unpacked(document: Document, start: int, stop: int) -> np.ndarray[Any, Any]:
    """Decode packed varints as int64."""
    raw = np.frombuffer(document.data[start:stop], np.uint8)
    if not raw.size:
        return np.zeros(0, np.int64)
    is_end = raw < 0x80
    ends = np.flatnonzero(is_end)
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    if not is_end[-1] or int((ends - starts).max()) >= _MAX_VARINT_BYTES:
        raise document.malformed(start)
    places = np.arange(raw.size) - np.repeat(starts, ends - starts + 1)
    shifted = (raw & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(shifted, starts).view(np.int64)
