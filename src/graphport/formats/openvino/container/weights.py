"""Weights of an IR model: byte ranges of the `.bin`, and the layout of types narrower than a byte."""

from __future__ import annotations

import struct
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import Bytes, FileStorage, Storage
from graphport.formats.openvino.container import elements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.core.storage import MappedFile

_BITS = {"u1": 1, "u3": 3, "u6": 6, "nf4": 4}
_NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
_FIELD = 4  # bytes of each number at the head of a tensor of texts


class CorruptFileError(ValueError):
    """The content of a byte range is not as expected; the message contains the reason."""


def length_of(name: str, count: int) -> int | None:
    """Return the byte size of `count` elements; `None` for strings, whose size is in the data."""
    if name == "string":
        return None
    bits = _BITS.get(name) or elements.DTYPES[name].bits
    # Three and six bits come in groups of three bytes.
    if bits == 3:
        return -(-count // 8) * 3
    return -(-count // 4) * 3 if bits == 6 else (count * bits + 7) // 8


def storage(file: MappedFile | Bytes, start: int, length: int, name: str, shape: Sequence[int]) -> Storage:
    """Return the tensor of element type `name` in `length` bytes from `start`; the caller has checked the range.

    Raises:
        CorruptFileError: texts are cut, or their number is not that of the shape.
    """
    if name == "string":
        return Texts(file, start, length, shape)
    if name in _BITS:
        return Coded(file, start, name, shape)
    return FileStorage(file, start, elements.DTYPES[name], shape)


class Coded(Storage):
    """Elements of a type without `DType`, decoded on access.

    `u1` fills bytes from the highest bit. Eight `u3` are three bytes: two with the low bits, one with the high bits.
    Four `u6` are three bytes: two with the low four bits, one with the high two. `nf4` are indices into a table.
    """

    __slots__ = ("file", "name", "start")

    def __init__(self, file: MappedFile | Bytes, start: int, name: str, shape: Sequence[int]) -> None:
        super().__init__(elements.STORAGE_DTYPES[name], shape)
        self.file = file
        self.name = name
        self.start = start

    @property
    def packed(self) -> int:
        """Bytes in the file."""
        return length_of(self.name, self.count) or 0

    def numpy(self) -> np.ndarray[Any, Any]:
        raw = np.frombuffer(self.file.view(self.start, self.packed), np.uint8)
        array = _decoded(raw, self.name)[: self.count].reshape(self.shape)
        array.flags.writeable = False
        return array

    def chunks(self, limit: int = 1 << 20) -> Iterator[memoryview]:
        flat = np.ascontiguousarray(self.numpy()).reshape(-1)
        yield from Bytes(flat.view(np.uint8).data).chunks(0, self.nbytes, limit)

    def raw(self, limit: int = 1 << 20) -> Iterator[memoryview]:
        """Yield the encoded bytes of the file in pieces of at most `limit` bytes."""
        yield from self.file.chunks(self.start, self.packed, limit)


def _decoded(raw: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    match name:
        case "u1":
            return np.unpackbits(raw)
        case "nf4":
            codes = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)
            return np.array(_NF4, np.float32)[codes]
        case "u3":
            groups = raw.reshape(-1, 3)
            low = _fields(groups[:, :2], (6, 4, 2, 0), 3)
            return (low | (_fields(groups[:, 2:], (7, 6, 5, 4, 3, 2, 1, 0), 1) << 2)).reshape(-1)
        case _:
            groups = raw.reshape(-1, 3)
            low = _fields(groups[:, :2], (4, 0), 15)
            return (low | (_fields(groups[:, 2:], (6, 4, 2, 0), 3) << 4)).reshape(-1)


def _fields(raw: np.ndarray[Any, Any], shifts: Sequence[int], mask: int) -> np.ndarray[Any, Any]:
    shift = np.array(shifts, np.uint8)
    return ((raw[..., None] >> shift) & np.uint8(mask)).reshape(len(raw), -1)


class Texts(Storage):
    """String tensor: int32 count, a 0, the end offset of each string, then the UTF-8 bytes of all strings."""

    __slots__ = ("_ends", "file", "length", "start")

    def __init__(self, file: MappedFile | Bytes, start: int, length: int, shape: Sequence[int]) -> None:
        super().__init__(DType.STRING, shape)
        self.file = file
        self.start = start
        self.length = length
        self._ends = self._checked()

    def _checked(self) -> tuple[int, ...]:
        head = self.count + 2
        if self.length < head * _FIELD:
            message = f"{self.length} bytes are too few for {self.count} strings"
            raise CorruptFileError(message)
        header = struct.unpack(f"<{head}i", self.file.view(self.start, head * _FIELD))
        if header[0] != self.count:
            message = f"the data have {header[0]} strings, the shape {list(self.shape)} requires {self.count}"
            raise CorruptFileError(message)
        ends = header[1:]
        if ends[0] != 0 or any(a > b for a, b in pairwise(ends)):
            message = "the string offsets are not in ascending order"
            raise CorruptFileError(message)
        if head * _FIELD + ends[-1] > self.length:
            message = f"the strings end at byte {head * _FIELD + ends[-1]}, the data has {self.length} bytes"
            raise CorruptFileError(message)
        return ends

    def numpy(self) -> np.ndarray[Any, Any]:
        body = self.start + len(self._ends) * _FIELD + _FIELD
        found = np.empty(self.count, object)
        for index, (begin, end) in enumerate(pairwise(self._ends)):
            found[index] = bytes(self.file.view(body + begin, end - begin)).decode("utf-8", "surrogateescape")
        array = found.reshape(self.shape)
        array.flags.writeable = False
        return array

    def chunks(self, limit: int = 1 << 20) -> Iterator[memoryview]:  # noqa: ARG002  text has none
        yield from ()

    def raw(self, limit: int = 1 << 20) -> Iterator[memoryview]:
        """Yield the encoded bytes of the file in pieces of at most `limit` bytes."""
        yield from self.file.chunks(self.start, self.length, limit)


def encoded(tensor: Storage) -> Iterator[memoryview]:
    """The bytes of a tensor in a `.bin`, in pieces."""
    if isinstance(tensor, Coded | Texts):
        yield from tensor.raw()
    elif tensor.dtype is DType.STRING:
        yield memoryview(_texts(tensor.numpy()))
    else:
        yield from tensor.chunks()


def _texts(array: np.ndarray[Any, Any]) -> bytes:
    texts = [str(text).encode("utf-8", "surrogateescape") for text in array.reshape(-1)]
    ends = np.cumsum([0, *map(len, texts)]).tolist()
    return struct.pack(f"<{len(ends) + 1}i", len(texts), *ends) + b"".join(texts)


def encoded_length(tensor: Storage) -> int:
    """Return the number of bytes that `encoded` yields."""
    if isinstance(tensor, Coded):
        return tensor.packed
    if isinstance(tensor, Texts):
        return tensor.length
    if tensor.dtype is DType.STRING:
        return sum(len(piece) for piece in encoded(tensor))
    return tensor.dtype.size(prod(tensor.shape))


def nothing(name: str, shape: Sequence[int]) -> Storage:
    """Return an empty tensor, which has no bytes in a file."""
    return storage(Bytes(b"\0" * (2 * _FIELD) if name == "string" else b""), 0, 2 * _FIELD, name, shape)
