"""Element types and shapes of HDF5, and the elements of attributes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from graphport.core import budget
from graphport.core.dtypes import DType

if TYPE_CHECKING:
    from graphport.formats.keras.container.hdf5_bytes import Cursor, Hdf5Bytes

MAX_ATTRIBUTE = 1 << 26
"""Bytes of the elements of one attribute."""

_INTEGER, _FLOAT, _STRING, _ENUMERATION, _VARIABLE = 0, 1, 3, 8, 9
_INTEGERS = {
    (1, True): DType.INT8,
    (1, False): DType.UINT8,
    (2, True): DType.INT16,
    (2, False): DType.UINT16,
    (4, True): DType.INT32,
    (4, False): DType.UINT32,
    (8, True): DType.INT64,
    (8, False): DType.UINT64,
}
_FLOATS = {(2, 5): DType.FLOAT16, (4, 8): DType.FLOAT32, (8, 11): DType.FLOAT64, (2, 8): DType.BFLOAT16}
"""Floats by bytes and bits of the exponent."""


@dataclass(frozen=True, slots=True)
class Datatype:
    """An element type: its class, the bytes of an element and the type of a number."""

    kind: int
    size: int
    dtype: DType | None = None
    is_big_endian: bool = False
    is_string: bool = False


@dataclass(frozen=True, slots=True)
class Dataspace:
    """A shape; `None` for the empty dataspace, which has no elements."""

    shape: tuple[int, ...] | None

    @property
    def count(self) -> int:
        """Number of elements."""
        return 0 if self.shape is None else prod(self.shape)


def read_datatype(cursor: Cursor) -> Datatype:
    """A datatype message; a type that is not a number or a string has no `dtype`."""
    head = cursor.read_int(1)
    kind, bits, size = head & 15, cursor.read_int(3), cursor.read_int(4)
    if kind == _INTEGER:
        return Datatype(kind, size, _INTEGERS.get((size, bool(bits & 8))), bool(bits & 1))
    if kind == _FLOAT:
        cursor.skip(5)
        return Datatype(kind, size, _FLOATS.get((size, cursor.read_int(1))), bool(bits & 1))
    if kind == _ENUMERATION:
        # h5py stores booleans as an enumeration of int8.
        base = read_datatype(cursor)
        is_boolean = base.dtype in (DType.INT8, DType.UINT8) and bits & 0xFFFF == 2
        return Datatype(kind, size, DType.BOOL if is_boolean else base.dtype, base.is_big_endian)
    return Datatype(kind, size, is_string=kind == _STRING or (kind == _VARIABLE and bits & 15 == 1))


def read_dataspace(cursor: Cursor) -> Dataspace:
    """A dataspace message.

    Raises:
        DiagnosticError: KERAS0101 it has another version or more than 32 dims.
    """
    version, rank, flags = cursor.read_int(1), cursor.read_int(1), cursor.read_int(1)
    if version not in (1, 2) or rank > 32:
        cursor.file.refuse(f"{cursor.place} has a dataspace of version {version} and rank {rank}")
    if version == 2 and cursor.read_int(1) == 2:
        return Dataspace(None)
    if version == 1:
        cursor.skip(5)
    del flags
    return Dataspace(tuple(cursor.length() for _ in range(rank)))


def decode_values(file: Hdf5Bytes, datatype: Datatype, dataspace: Dataspace, data: memoryview, place: str) -> list[Any]:
    """The elements of an attribute: strings, integers and floats.

    Raises:
        DiagnosticError: KERAS0101 the elements exceed the attribute, KERAS0102 their type is not read, KERAS0103 they
            are too many.
    """
    count, size = dataspace.count, datatype.size
    if count * size > len(data):
        file.refuse(f"{place} has {count} elements of {size} bytes, but only {len(data)} bytes")
    file.count(count)
    pieces = [data[index * size : (index + 1) * size] for index in range(count)]
    if datatype.is_string and datatype.kind == _STRING:
        return [bytes(piece).split(b"\0")[0].decode("utf-8", "replace") for piece in pieces]
    if datatype.is_string:
        return [_variable_string(file, piece, place) for piece in pieces]
    if datatype.kind in (_INTEGER, _ENUMERATION) and datatype.dtype is not None:
        order = "big" if datatype.is_big_endian else "little"
        is_signed = datatype.dtype.name.startswith("INT")
        return [int.from_bytes(piece, order, signed=is_signed) for piece in pieces]
    if datatype.kind == _FLOAT and size in (2, 4, 8):
        code = ("<", ">")[datatype.is_big_endian] + {2: "e", 4: "f", 8: "d"}[size]
        return [struct.unpack(code, piece)[0] for piece in pieces]
    return file.refuse(f"{place} has an unsupported element type (class {datatype.kind})", "KERAS0102")


def _variable_string(file: Hdf5Bytes, piece: memoryview, place: str) -> str:
    if len(piece) != 8 + file.offset_size:
        file.refuse(f"{place} has a string of variable length with {len(piece)} bytes")
    length = int.from_bytes(piece[:4], "little")
    address = int.from_bytes(piece[4 : 4 + file.offset_size], "little")
    index = int.from_bytes(piece[4 + file.offset_size :], "little")
    if not length:
        return ""
    limit = budget.limit("keras.attribute", MAX_ATTRIBUTE)
    if length > limit:
        help = "set GRAPHPORT_LIMITS=keras.attribute=N to allow N bytes"
        file.refuse(f"{place} has a string of {length} bytes, the limit is {limit}", "KERAS0103", help)
    found = file.global_heap(address, index)
    if length > len(found):
        file.refuse(f"{place} has a string of {length} bytes, but the heap has {len(found)}")
    return bytes(found[:length]).decode("utf-8", "replace")
