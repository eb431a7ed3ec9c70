"""Items of tensor files without a direct dtype: unusual widths, and codes of real numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.budget import reserve_expanded
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.storage import CHUNK, FileStorage, Packing, Storage, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.storage import Bytes, MappedFile

Array: TypeAlias = "np.ndarray[Any, Any]"


class NumberEncoding(StrEnum):
    """How the bits of an item encode a number."""

    FLOAT = "float"
    UNSIGNED = "unsigned integer"
    SIGNED = "signed integer"
    LOGICAL = "logical"


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear encoding: codes 0 to 2^bits - 1 for equally spaced values from `minimum` to `maximum`."""

    minimum: float
    maximum: float
    bits: int

    def decode(self, codes: Array) -> Array:
        """Decode `codes` to real numbers."""
        r = float(2**self.bits - 1)
        return codes.astype(np.float64) / r * (self.maximum - self.minimum) + self.minimum


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Logarithmic encoding: real = 2 ^ (code + exponent)."""

    exponent: int

    def decode(self, codes: Array) -> Array:
        """Decode `codes` to real numbers."""
        return np.exp2(codes.astype(np.float64) + float(self.exponent))

    @classmethod
    def up_to(cls, maximum: float, steps: int) -> Logarithmic:
        """Return the encoding whose code `steps` is the first power of two that is at least `maximum`."""
        return cls(math.ceil(math.log2(maximum)) - steps)


@dataclass(frozen=True, slots=True)
class ItemType:
    """The type of a tensor file's items.

    `is_quantized`: they are codes of real numbers; `decoding` is the mapping if the file contains it.
    """

    kind: NumberEncoding
    bits: int
    is_quantized: bool = False
    decoding: Linear | Logarithmic | None = None

    @property
    def dtype(self) -> DType:
        """The dtype of stored items: equal width, else the next wider one; float32 for decoded codes."""
        if self.decoding is not None:
            return DType.FLOAT32
        if self.kind is NumberEncoding.LOGICAL:
            return DType.BOOL
        own = next((dtype for dtype in _DTYPES[self.kind] if dtype.bits == self.bits), None)
        return own or next(dtype for dtype in _DTYPES[self.kind] if dtype.bits > max(self.bits, 7))

    @property
    def is_direct(self) -> bool:
        """Whether a storage can be a view of the file."""
        return self.decoding is None and self.kind is not NumberEncoding.LOGICAL and self.dtype.bits == self.bits

    def __str__(self) -> str:
        quantized = "quantized " if self.is_quantized else ""
        return f"{quantized}{self.kind} of {self.bits} bit{'' if self.bits == 1 else 's'}"


_DTYPES = {
    NumberEncoding.FLOAT: (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64),
    NumberEncoding.UNSIGNED: (DType.UINT2, DType.UINT4, DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64),
    NumberEncoding.SIGNED: (DType.INT2, DType.INT4, DType.INT8, DType.INT16, DType.INT32, DType.INT64),
}


def storage_of_items(file: MappedFile | Bytes, start: int, item: ItemType, shape: Sequence[int]) -> Storage:
    """Return the elements from byte `start`: a view if possible, else decoded on access."""
    if item.is_direct:
        return FileStorage(file, start, item.dtype, shape, Packing.HIGH_FIRST)
    return ItemStorage(file, start, item, shape)


class ItemStorage(Storage):
    """Items of a file that are made into elements whenever they are read.

    They lie as one stream of bits, most significant first; items of whole bytes have them in little-endian order.
    """

    __slots__ = ("file", "item", "start")

    def __init__(self, file: MappedFile | Bytes, start: int, item: ItemType, shape: Sequence[int]) -> None:
        super().__init__(item.dtype, shape)
        self.file = file
        self.start = start
        self.item = item

    def numpy(self) -> Array:
        return joined(self._blocks(CHUNK), self.dtype.numpy, self.shape)

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        for block in self._blocks(limit):
            yield np.ascontiguousarray(block).view(np.uint8).data

    def _blocks(self, limit: int) -> Iterator[Array]:
        # Eight items end on a byte. The bits of one item take a byte each while it is decoded.
        items = max(limit // 64 // 8, 1) * 8
        bits = self.item.bits
        left = self.count
        for raw in self.file.chunks(self.start, (left * bits + 7) // 8, items * bits // 8):
            count = min(items, left)
            yield _decoded(np.frombuffer(raw, np.uint8), self.item, count)
            left -= count


class Converted(Storage):
    """Elements of another storage converted to another dtype on access.

    `numpy` and `chunks` raise `DiagnosticError` (NNEF0714) for an unsigned integer above 2^63 - 1. Floats are rounded
    to nearest.
    """

    __slots__ = ("of", "span")

    def __init__(self, of: Storage, dtype: DType, span: Span | None = None) -> None:
        super().__init__(dtype, of.shape)
        self.of = of
        self.span = span

    def numpy(self) -> Array:
        array = self._converted(self.of.numpy())
        array.flags.writeable = False
        return array

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        left = self.count
        for elements in elements_of(self.of, max(limit // (self.dtype.bits // 8), 8)):
            # The last byte of packed fields may hold some beyond the count.
            yield self._converted(elements[:left]).view(np.uint8).data
            left -= len(elements)

    def _converted(self, array: Array) -> Array:
        is_narrowed = array.dtype == np.uint64 and self.dtype is DType.INT64
        if is_narrowed and array.max(initial=0) > np.iinfo(np.int64).max:
            message = f"{array.max()} exceeds the int64 range"
            raise DiagnosticError(Diagnostic("NNEF0714", message, self.span, "use signed integers: NNEF has no uint64"))
        with np.errstate(over="ignore"):
            return array.astype(self.dtype.numpy)


_FARTHEST = 1 << 62
"""Bytes past all addresses, of which there is not even a view."""


class Fill(Storage):
    """A tensor whose elements all equal one number."""

    __slots__ = ("number",)

    def __init__(self, number: float, dtype: DType, shape: Sequence[int]) -> None:
        super().__init__(dtype, shape)
        self.number = np.asarray(number, dtype.numpy)

    def numpy(self) -> Array:
        if self.nbytes > _FARTHEST:
            reserve_expanded(self.count, "times the same value")
        return np.broadcast_to(self.number, self.shape)

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        reserve_expanded(self.count, "times the same value")
        size = self.number.itemsize
        most = max(limit // size, 1)
        piece = np.full(min(most, self.count), self.number).view(np.uint8).data
        for left in range(self.count, 0, -most):
            yield piece[: min(left, most) * size]


def elements_of(storage: Storage, most: int) -> Iterator[Array]:
    """Yield the elements of `storage` in order, about `most` at a time; the last chunk may have padding bits."""
    dtype = storage.dtype
    if dtype.bits < 8:
        for piece in storage.chunks(max(dtype.size(most), 1)):
            yield unpack(np.frombuffer(piece, np.uint8), dtype, (len(piece) * 8 // dtype.bits,))
        return
    size = dtype.bits // 8
    for piece in regrouped(storage.chunks(most * size), size):
        yield np.frombuffer(piece, dtype.numpy.newbyteorder("<"))


def regrouped(pieces: Iterable[memoryview], size: int) -> Iterator[memoryview]:
    """Yield the same bytes in chunks whose length is a multiple of `size`, except the last."""
    rest = b""
    for piece in pieces:
        whole = memoryview(rest + piece.tobytes()) if rest else piece
        stop = len(whole) // size * size
        if stop:
            yield whole[:stop]
        rest = whole[stop:].tobytes()
    if rest:
        yield memoryview(rest)


def _decoded(raw: Array, item: ItemType, count: int) -> Array:
    if item.kind is NumberEncoding.LOGICAL and item.bits == 8:
        return raw != 0
    if item.kind is NumberEncoding.FLOAT:
        return raw.view(f"<f{item.bits // 8}")
    fields = _fields(raw, item.bits, count)
    if item.kind is NumberEncoding.LOGICAL:
        return fields != 0
    if item.kind is NumberEncoding.SIGNED:
        sign = fields.dtype.type(1 << (item.bits - 1))
        fields = ((fields ^ sign) - sign).view(fields.dtype.str.replace("u", "i"))
    if item.decoding is None:
        return fields
    with np.errstate(over="ignore"):
        return item.decoding.decode(fields).astype(np.float32)


def _fields(raw: Array, bits: int, count: int) -> Array:
    """Unpack unsigned integers of `bits` bits to the narrowest type that contains them."""
    width = next(width for width in (8, 16, 32, 64) if width >= bits)
    if bits == width:
        return raw.view(f"<u{width // 8}")
    if bits % 8 == 0:
        padded = np.zeros((count, width // 8), np.uint8)
        padded[:, : bits // 8] = raw.reshape(count, bits // 8)
        return padded.view(f"<u{width // 8}").reshape(count)
    flags = np.zeros((count, width), np.uint8)
    flags[:, width - bits :] = np.unpackbits(raw, count=count * bits).reshape(count, bits)
    return np.packbits(flags, axis=1).view(f">u{width // 8}").reshape(count).astype(f"<u{width // 8}")


def joined(blocks: Iterable[Array], dtype: np.dtype[Any] | type[np.generic], shape: tuple[int, ...]) -> Array:
    """Concatenate `blocks` to a read-only array of `shape`."""
    array = np.empty(math.prod(shape), dtype)
    at = 0
    for block in blocks:
        array[at : at + len(block)] = block
        at += len(block)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array
