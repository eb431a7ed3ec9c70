"""Elements of constants: literals, raw bytes in hexadecimal, and raw bytes of bytecode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import ArrayStorage, Bytes, FileStorage, Storage
from graphport.formats.stablehlo.program import Dense, TensorType
from graphport.formats.stablehlo.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.storage import MappedFile

_CHUNK = 1 << 20


class HexStorage(Storage):
    """Elements that a text file has as hexadecimal digits; decoded when they are read."""

    __slots__ = ("file", "start")

    def __init__(self, file: MappedFile | Bytes, start: int, dtype: DType, shape: tuple[int, ...]) -> None:
        super().__init__(dtype, shape)
        self.file = file
        self.start = start

    def numpy(self) -> np.ndarray[Any, Any]:
        return FileStorage(Bytes(b"".join(self.chunks())), 0, self.dtype, self.shape).numpy()

    def chunks(self, limit: int = _CHUNK) -> Iterator[memoryview]:
        end = self.start + 2 * self.nbytes
        for start in range(self.start, end, 2 * limit):
            digits = self.file.view(start, min(2 * limit, end - start))
            yield memoryview(bytes.fromhex(bytes(digits).decode("ascii")))


def raw_dense(file: MappedFile | Bytes, start: int, size: int, type: TensorType, *, is_hex: bool) -> Dense:
    """A constant of `size` raw bytes, little endian: all elements, or one that all elements equal.

    Raises:
        RefusedError: SH0010 the size fits neither.
    """
    dtype, count = type.dtype, type.count
    shape = tuple(dim or 0 for dim in type.shape)
    if dtype.bits < 8 or dtype is DType.BOOL:
        return _narrow_dense(file, start, size, type, is_hex=is_hex)
    is_splat = count != 1 and size == dtype.size(1)
    if not is_splat and size != dtype.size(count):
        refuse("SH0010", f"a constant of {type} has {size} bytes, expected {dtype.size(count)}")
    stored = () if is_splat else shape
    storage = HexStorage(file, start, dtype, stored) if is_hex else FileStorage(file, start, dtype, stored)
    return Dense(type, storage, is_splat=is_splat)


def _narrow_dense(file: MappedFile | Bytes, start: int, size: int, type: TensorType, *, is_hex: bool) -> Dense:
    """Booleans (a byte or a bit each) and integers below a byte (a byte each)."""
    dtype, count = type.dtype, type.count
    shape = tuple(dim or 0 for dim in type.shape)
    raw = bytes(file.view(start, 2 * size if is_hex else size))
    bytes_ = np.frombuffer(bytes.fromhex(raw.decode("ascii")) if is_hex else raw, np.uint8)
    if dtype is DType.BOOL:
        if size == count:
            return Dense(type, ArrayStorage((bytes_ != 0).reshape(shape)))
        if size == 1 and (count > 8 or bytes_[0] in (0, 255)):
            return Dense(type, ArrayStorage(np.array(bytes_[0] != 0)), is_splat=True)
        if size == (count + 7) // 8:
            bits = np.unpackbits(bytes_, bitorder="little")[:count].astype(bool)
            return Dense(type, ArrayStorage(bits.reshape(shape)))
    elif size in (1, count):
        array = bytes_.astype(np.int8).astype(dtype.numpy) if dtype.kind == "i" else (bytes_ & 15).astype(dtype.numpy)
        is_splat = size != count
        return Dense(type, ArrayStorage(array.reshape(() if is_splat else shape), dtype), is_splat=is_splat)
    return refuse("SH0010", f"a constant of {type} has {size} bytes, which does not match its {count} elements")


def literal_dense(text: bytes, type: TensorType, offset: int) -> Dense:
    """A constant of literals: `1.0`, `[[1, 2], [3, 4]]`, `(1.0, 2.0)`; one without brackets is a splat.

    Raises:
        RefusedError: SH0010 a literal is no number of the element type, or the count differs from the type's.
    """
    dtype = type.dtype
    shape = tuple(dim or 0 for dim in type.shape)
    is_nested = b"[" in text
    for sign in b"[]()\n\r\t":
        text = text.replace(bytes([sign]), b" ")
    words = [word.strip() for word in text.decode("ascii", "replace").split(",")] if text.strip() else []
    if type.is_complex:
        part = DType.FLOAT32 if dtype is DType.COMPLEX64 else DType.FLOAT64
        parts = _parse_elements(words, part, offset)
        if parts.size % 2:
            refuse("SH0010", "a complex constant has an odd number of parts", offset=offset)
        array = (parts[0::2] + 1j * parts[1::2]).astype(dtype.numpy)
        array.real, array.imag = parts[0::2], parts[1::2]
    else:
        array = _parse_elements(words, dtype, offset)
    count = type.count
    if not is_nested and array.size == 1 and count != 1:
        return Dense(type, ArrayStorage(array.reshape(()), dtype), is_splat=True)
    if array.size != count:
        refuse("SH0010", f"a constant of {type} has {array.size} elements, expected {count}", offset=offset)
    return Dense(type, ArrayStorage(array.reshape(shape), dtype))


def _parse_elements(words: list[str], dtype: DType, offset: int) -> np.ndarray[Any, Any]:
    try:
        if dtype is DType.BOOL:
            return np.array([_boolean(word) for word in words], np.bool_)
        if dtype.is_integer:
            return _integers([int(word, 0) for word in words], dtype)
        return _floats(words, dtype)
    except (ValueError, OverflowError) as error:
        refuse("SH0010", f"a literal of a constant is not a {dtype}: {error}", offset=offset)


def _boolean(literal: str) -> bool:
    if literal not in ("true", "false", "0", "1", "-1"):
        message = f"{literal[:40]!r}"
        raise ValueError(message)
    return literal not in ("false", "0")


def _integers(numbers: list[int], dtype: DType) -> np.ndarray[Any, Any]:
    bits = dtype.bits
    lowest = -(1 << (bits - 1))
    highest = (1 << bits) - 1 if dtype.kind == "u" else -lowest - 1
    lowest = 0 if dtype.kind == "u" else lowest
    for number in numbers:
        if not lowest <= number <= highest:
            message = f"{number} is not in [{lowest}, {highest}]"
            raise ValueError(message)
    wide = np.array(numbers, np.uint64 if dtype is DType.UINT64 else np.int64)
    return wide.astype(dtype.numpy)


def _floats(words: list[str], dtype: DType) -> np.ndarray[Any, Any]:
    wide = np.array([0.0 if word.startswith(("0x", "0X")) else float(word) for word in words], np.float64)
    array = wide.astype(dtype.numpy)
    bits = [(index, int(word, 16)) for index, word in enumerate(words) if word.startswith(("0x", "0X"))]
    if bits:
        unsigned = array.view(f"u{array.dtype.itemsize}")
        for index, pattern in bits:
            unsigned[index] = pattern
    return array
