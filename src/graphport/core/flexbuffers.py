"""FlexBuffers: maps from names to scalars, the options of custom TFLite operators.

The input is untrusted: every offset is checked against the length, and nested values are not read.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

Number: TypeAlias = "int | float | bool"
_INT, _UINT, _FLOAT, _INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _BOOL = 1, 2, 3, 6, 7, 8, 9, 26
_INDIRECT = {_INDIRECT_INT: _INT, _INDIRECT_UINT: _UINT, _INDIRECT_FLOAT: _FLOAT}
_INTS = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS = {2: "e", 4: "f", 8: "d"}
_LEAST = 3
_MOST = 1 << 12


class FlexBufferError(ValueError):
    """The bytes are not a map of scalars; the message has the reason."""


def read_numbers(data: bytes) -> dict[str, Number]:
    """Read the scalars of a map by name; values of other types are skipped.

    Raises:
        FlexBufferError: the bytes are not a map, or an offset is out of range.
    """
    reader = _FlexBuffer(data)
    if len(data) < _LEAST or data[-2] >> 2 != _MAP:
        message = f"{len(data)} bytes, not a FlexBuffer map"
        raise FlexBufferError(message)
    width = 1 << (data[-2] & 3)
    start = reader.back(len(data) - 2 - data[-1], data[-1])
    count = reader.unsigned(start - width, width)
    if count > _MOST:
        message = f"a map of {count} entries"
        raise FlexBufferError(message)
    keys = reader.back(start - 3 * width, width)
    key_width = reader.unsigned(start - 2 * width, width)
    found: dict[str, Number] = {}
    for index in range(count):
        kind = reader.unsigned(start + count * width + index, 1)
        value = reader.value(start + index * width, width, kind)
        if value is not None:
            found[reader.text(reader.back(keys + index * key_width, key_width))] = value
    return found


class _FlexBuffer:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def _bytes(self, at: int, length: int) -> bytes:
        if at < 0 or length < 1 or at + length > len(self._data):
            message = f"byte {at} is not among its {len(self._data)}"
            raise FlexBufferError(message)
        return self._data[at : at + length]

    def _read_number(self, formats: dict[int, str], at: int, width: int) -> Number:
        if width not in formats:
            message = f"unsupported: numeric type of {width} bytes"
            raise FlexBufferError(message)
        return struct.unpack(f"<{formats[width]}", self._bytes(at, width))[0]

    def unsigned(self, at: int, width: int) -> int:
        """A count or an offset."""
        return int.from_bytes(self._bytes(at, width), "little")

    def back(self, at: int, width: int) -> int:
        """Where the offset at a place leads."""
        return at - self.unsigned(at, width)

    def value(self, at: int, width: int, packed: int) -> Number | None:
        """Read a number of the type that a type byte encodes; `None` for other types."""
        kind = packed >> 2
        if kind in _INDIRECT:
            return self.value(self.back(at, width), 1 << (packed & 3), _INDIRECT[kind] << 2)
        if kind == _INT:
            return self._read_number(_INTS, at, width)
        if kind == _FLOAT:
            return self._read_number(_FLOATS, at, width)
        if kind == _BOOL:
            return bool(self.unsigned(at, width))
        return self.unsigned(at, width) if kind == _UINT else None

    def text(self, at: int) -> str:
        """Read a zero-terminated string."""
        self._bytes(at, 1)
        end = self._data.find(b"\0", at)
        return self._data[at : end if end >= 0 else len(self._data)].decode("utf-8", "backslashreplace")
