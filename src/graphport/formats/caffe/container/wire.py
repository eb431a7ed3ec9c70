"""Protobuf wire format, read and written by the tables of `schema`.

Weight files consist mainly of blob data, which stays mapped.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.core.dtypes import DType
from graphport.core.storage import FileStorage, Storage, storage_of
from graphport.formats.caffe.container import schema
from graphport.formats.caffe.container.message import Identifier, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphport.core.diagnostics import Source
    from graphport.core.storage import Bytes, MappedFile
    from graphport.formats.caffe.container.message import Content
    from graphport.formats.caffe.container.schema import Field

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types in use; 3 and 4 were groups, which Caffe has none of."""

MOST_NESTED = 16
"""Messages within each other that are read; Caffe's own are five deep."""

_WIDTHS = {FIXED64: 8, FIXED32: 4}
_REALS = {"float": (FIXED32, DType.FLOAT32), "double": (FIXED64, DType.FLOAT64)}
_LEFT_OUT = frozenset({"diff", "double_diff", "raw_diff"})
"""Gradients, which some files contain."""

_MASK = (1 << 64) - 1

Piece: TypeAlias = "bytes | Storage"


def decode(file: MappedFile | Bytes, source: Source, kind: str = schema.NET) -> tuple[Message, int]:
    """Decode `file` to a message of `kind`; also return the number of bytes in unknown fields.

    Blob data becomes flat storages in the file.

    Raises:
        DiagnosticError: CAFFE0301, the bytes are not such a message.
    """
    return _Decoder(file, source).decode_message(kind)


class _Corruption(Exception):  # noqa: N818  becomes a finding at once
    """Raised for a malformed field; `offset` is the byte where it begins."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class _Decoder:
    """Decoder with an explicit stack."""

    def __init__(self, file: MappedFile | Bytes, source: Source) -> None:
        self.file = file
        self.source = source
        self.data = file.view(0, file.size)
        self.at = 0
        self.unknown = 0

    def decode_message(self, kind: str) -> tuple[Message, int]:
        """Decode all data as one message of `kind`; also return the number of bytes in unknown fields."""
        root = Message(kind, Span(self.source))
        try:
            self._read(root)
        except _Corruption as corruption:
            span = Span(self.source, place=f"byte {corruption.offset}")
            remedy = "fetch the file again: it is corrupt, truncated or not a Caffe network"
            message = f"malformed field at byte {corruption.offset}"
            raise DiagnosticError(Diagnostic("CAFFE0301", message, span, remedy)) from corruption
        return root, self.unknown

    def _read(self, root: Message) -> None:
        stack: list[tuple[Message, int]] = [(root, len(self.data))]
        while stack:
            message, stop = stack[-1]
            if self.at >= stop:
                stack.pop()
                continue
            start = self.at
            tag = self._varint(start, stop)
            field = schema.fields_by_number(message.kind).get(tag >> 3)
            if field is not None and tag & 7 == LENGTH and schema.is_message(field.type):
                if len(stack) == MOST_NESTED:
                    raise _Corruption(start)
                inner = Message(field.type, message.span)
                end = self._length(start, stop)
                message.add(field.name, inner, message.span)
                stack.append((inner, end))
            elif field is None or schema.is_message(field.type):
                self._skip(tag, start, stop)
                self.unknown += self.at - start
            else:
                self._scalars(message, field, tag, start, stop)

    def _varint(self, start: int, stop: int) -> int:
        number = 0
        for index in range(10):
            if self.at >= stop:
                break
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return number & _MASK
        raise _Corruption(start)

    def _length(self, start: int, stop: int) -> int:
        """Return the end of a length-delimited field."""
        length = self._varint(start, stop)
        if length > stop - self.at:
            raise _Corruption(start)
        return self.at + length

    def _skip(self, tag: int, start: int, stop: int) -> None:
        wire = tag & 7
        if wire == VARINT:
            self._varint(start, stop)
        elif wire == LENGTH:
            self.at = self._length(start, stop)
        elif wire in _WIDTHS and self.at + _WIDTHS[wire] <= stop:
            self.at += _WIDTHS[wire]
        else:
            raise _Corruption(start)

    def _scalars(self, message: Message, field: Field, tag: int, start: int, stop: int) -> None:
        wire = tag & 7
        if message.kind == schema.BLOB and field.name in _LEFT_OUT:
            self._skip(tag, start, stop)
        elif message.kind == schema.BLOB and (field.type in _REALS or field.type == "bytes"):
            message.add(field.name, self._blob_data(field, wire, start, stop), message.span)
        elif field.type in ("string", "bytes"):
            self._demand(wire == LENGTH, start)
            end = self._length(start, stop)
            data = bytes(self.data[self.at : end])
            self.at = end
            text = data.decode("utf-8", "backslashreplace")
            message.add(field.name, text if field.type == "string" else data, message.span)
        elif wire == LENGTH:
            self._demand(field.is_repeated, start)
            end = self._length(start, stop)
            while self.at < end:
                message.add(field.name, self._scalar(field, start, end), message.span)
        else:
            expected = _REALS[field.type][0] if field.type in _REALS else VARINT
            self._demand(wire == expected, start)
            message.add(field.name, self._scalar(field, start, stop), message.span)

    def _demand(self, holds: bool, start: int) -> None:  # noqa: FBT001  the condition is what it is about
        if not holds:
            raise _Corruption(start)

    def _scalar(self, field: Field, start: int, stop: int) -> Content:
        if field.type in _REALS:
            wire, dtype = _REALS[field.type]
            width = _WIDTHS[wire]
            self._demand(self.at + width <= stop, start)
            self.at += width
            code = "<f" if dtype is DType.FLOAT32 else "<d"
            return float(struct.unpack(code, self.data[self.at - width : self.at])[0])
        number = self._varint(start, stop)
        if field.type == "bool":
            return bool(number)
        if field.type == "uint32":
            return number & 0xFFFFFFFF
        if field.type in schema.ENUMS:
            names = schema.ENUMS[field.type].items()
            return Identifier(next((name for name, value in names if value == number), str(number)))
        number = number - (1 << 64) if number >> 63 else number
        return number if field.type == "int64" else (number + (1 << 31)) % (1 << 32) - (1 << 31)

    def _blob_data(self, field: Field, wire: int, start: int, stop: int) -> Storage:
        """Return the data of a blob, packed or element by element."""
        if wire == LENGTH:
            end = self._length(start, stop)
            dtype = _REALS[field.type][1] if field.type in _REALS else DType.UINT8
            width = dtype.bits // 8
            self._demand((end - self.at) % width == 0, start)
            storage = FileStorage(self.file, self.at, dtype, ((end - self.at) // width,))
            self.at = end
            return storage
        self._demand(field.type in _REALS and wire == _REALS[field.type][0], start)
        head, width = self.at - start, _WIDTHS[wire]
        count = (stop - start) // (head + width)
        self._demand(count > 0, start)
        records: np.ndarray[Any, Any] = np.frombuffer(self.data[start : start + count * (head + width)], np.uint8)
        records = records.reshape(count, head + width)
        others = np.flatnonzero((records[:, :head] != records[0, :head]).any(axis=1))
        count = int(others[0]) if others.size else count
        self.at = start + count * (head + width)
        dtype = _REALS[field.type][1]
        raw = np.ascontiguousarray(records[:count, head:]).reshape(-1)
        return storage_of(raw.view(dtype.numpy.newbyteorder("<")).astype(dtype.numpy))


# Writing


def encode(message: Message) -> list[Piece]:
    """Encode `message`; blob data remains in storages.

    Fields without number in `schema` are omitted.
    """
    return list(_message(message))


def size(pieces: Iterable[Piece]) -> int:
    """Return the number of bytes of `pieces`."""
    return sum(piece.nbytes if isinstance(piece, Storage) else len(piece) for piece in pieces)


def _message(message: Message) -> Iterator[Piece]:
    # Recursion is limited by Caffe's own messages: others have no field numbers.
    known = schema.fields(message.kind)
    for name in sorted(message.entries.keys() & known.keys(), key=lambda name: known[name].number):
        field, contents = known[name], [entry.content for entry in message.entries[name]]
        if field.is_packed and not any(isinstance(content, Storage) for content in contents):
            yield from _sized(field, [b"".join(_scalar(field, content) for content in contents)])
            continue
        for content in contents:
            if isinstance(content, Message):
                yield from _sized(field, list(_message(content)))
            elif isinstance(content, Storage):
                yield from _sized(field, [content])
            elif isinstance(content, str) and field.type == "string":
                yield from _sized(field, [content.encode("utf-8", "surrogateescape")])
            elif isinstance(content, bytes):
                yield from _sized(field, [content])
            else:
                wire = _REALS[field.type][0] if field.type in _REALS else VARINT
                yield varint(field.number << 3 | wire) + _scalar(field, content)


def _sized(field: Field, pieces: list[Piece]) -> Iterator[Piece]:
    yield varint(field.number << 3 | LENGTH) + varint(size(pieces))
    yield from pieces


def _encode_float(code: str, number: float) -> bytes:
    try:
        return struct.pack(code, number)
    except OverflowError:  # as in protobuf's text parser
        return struct.pack(code, math.inf if number > 0 else -math.inf)


def _scalar(field: Field, content: Content) -> bytes:
    match content:
        case Identifier():
            number = schema.ENUMS.get(field.type, {}).get(content)
            if number is None:
                number = int(content) if content.isdigit() else 0
            return varint(number)
        case bool() | int() | float() if field.type in _REALS:
            return _encode_float("<f" if field.type == "float" else "<d", content)
        case bool() | int():
            return varint(int(content) & _MASK)
        case _:
            message = f"{content!r} is not of type {field.type}"
            raise TypeError(message)


def varint(number: int) -> bytes:
    """Encode an unsigned integer as a varint: seven bits per byte, low bits first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
