"""The file of weights: consecutive weights, some preceded by a storage tag."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import FileStorage, storage_of

if TYPE_CHECKING:
    from graphport.core.storage import MappedFile, Storage
    from graphport.formats.ncnn.container.weight_order import Weight

_TAG = struct.Struct("<I")
_PLAIN = 0
_TAGS = {DType.FLOAT16: 0x01306B47, DType.BFLOAT16: 0x01348B83, DType.INT8: 0x000D4B38}
_STORED = {tag: dtype for dtype, tag in _TAGS.items()} | {_PLAIN: DType.FLOAT32, 0x0002C056: DType.FLOAT32}
_TABLE = 256
_DTYPES = {32: DType.FLOAT32, 16: DType.FLOAT16, 8: DType.INT8}


class WeightReader:
    """Reader of consecutive weights of a `.bin` file."""

    def __init__(self, file: MappedFile) -> None:
        self._file = file
        self.position = 0

    @property
    def num_unread_bytes(self) -> int:
        """Number of unread bytes."""
        return self._file.size - self.position

    def read(self, weight: Weight) -> Storage:
        """Return the elements of the next weight.

        Raises:
            ValueError: the weight exceeds the file.
        """
        if not weight.is_tagged:
            return self._read_storage(_DTYPES[weight.bits], weight.length)
        self._check(4)
        (tag,) = _TAG.unpack(self._file.view(self.position, 4))
        self.position += 4
        dtype = _STORED.get(tag)
        return self._table(weight.length) if dtype is None else self._read_storage(dtype, weight.length)

    def _check(self, length: int) -> None:
        if self.position + length > self._file.size:
            message = f"truncated file: {length} bytes expected at byte {self.position}"
            raise ValueError(message)

    def _read_storage(self, dtype: DType, count: int) -> Storage:
        storage = FileStorage(self._file, self.position, dtype, (count,))
        self._check(storage.nbytes)
        self.position += -(-storage.nbytes // 4) * 4
        return storage

    def _table(self, count: int) -> Storage:
        """Read a palettized weight: a table of 256 floats, and an 8-bit index into it for each element."""
        self._check(4 * _TABLE + count)
        table = np.frombuffer(self._file.view(self.position, 4 * _TABLE), "<f4")
        indices = np.frombuffer(self._file.view(self.position + 4 * _TABLE, count), np.uint8)
        self.position += 4 * _TABLE + -(-count // 4) * 4
        return storage_of(table[indices], DType.FLOAT32)


NARROW = {"f16": DType.FLOAT16, "bf16": DType.BFLOAT16}
"""16-bit storage types by option name."""


def narrowed(weight: Weight, storage: Storage, dtype: DType) -> Storage:
    """Convert a weight to 16 bits; a weight without a tag, or beyond the range of the type, is kept."""
    if not weight.is_tagged or storage.dtype is not DType.FLOAT32:
        return storage
    with np.errstate(over="ignore"):
        found = storage.numpy().astype(dtype.numpy)
    if not np.isfinite(found).all():
        return storage
    return storage_of(found, dtype)


def write_weight(file: BinaryIO, weight: Weight, storage: Storage) -> None:
    """Write one weight, with its tag if it has one."""
    if weight.is_tagged:
        file.write(_TAG.pack(_TAGS.get(storage.dtype, _PLAIN)))
    length = 0
    for chunk in storage.chunks():
        file.write(chunk)
        length += len(chunk)
    file.write(bytes(-length % 4))
