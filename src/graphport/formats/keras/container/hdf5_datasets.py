"""Datasets of HDF5 as storages: contiguous ones are mapped, chunked and packed ones are copied within limits."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core import budget
from graphport.core.dtypes import DType
from graphport.core.storage import ArrayStorage, FileStorage
from graphport.formats.keras.container.hdf5 import Object, node_head
from graphport.formats.keras.container.hdf5_bytes import UNDEFINED, Cursor
from graphport.formats.keras.container.hdf5_types import Datatype, read_dataspace, read_datatype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.storage import Storage
    from graphport.formats.keras.container.hdf5 import Hdf5

MAX_COPIED = 1 << 31
"""Bytes of chunked datasets of one file that are copied into memory."""
_MAX_RATIO = 1100
"""Largest ratio of unpacked to packed bytes; deflate reaches 1,032."""

_DATASPACE, _DATATYPE, _FILL, _EXTERNAL, _LAYOUT, _FILTERS = 0x01, 0x03, 0x05, 0x07, 0x08, 0x0B
_DEFLATE, _SHUFFLE, _FLETCHER = 1, 2, 3
_COMPACT, _CONTIGUOUS, _CHUNKED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk: the indices of its first element and where its packed bytes lie."""

    origin: tuple[int, ...]
    address: int
    size: int
    skipped: int
    """Bit i: filter i was not applied."""


def is_dataset(found: Object | None) -> bool:
    """Whether an object is a dataset."""
    return found is not None and found.is_dataset


def storage_of(dataset: Object) -> Storage:
    """The elements of a dataset.

    Raises:
        DiagnosticError: KERAS0101 the dataset is damaged, KERAS0102 it is stored in a way that is not read, KERAS0103
            it is larger than the limit.
    """
    file, place = dataset.file, f"the dataset {dataset.path!r}"
    if dataset.message(_EXTERNAL) is not None:
        file.refuse(f"{place} is stored in another file, which is not supported", "KERAS0102")
    space, kind, layout = (dataset.message(each) for each in (_DATASPACE, _DATATYPE, _LAYOUT))
    if space is None or kind is None or layout is None:
        file.refuse(f"{place} has no shape, element type or layout")
    shape = read_dataspace(Cursor(file, space, place)).shape
    datatype = _numeric(dataset, read_datatype(Cursor(file, kind, place)))
    dtype = datatype.dtype
    if shape is None or dtype is None:
        file.refuse(f"{place} has an unsupported element type (class {datatype.kind})", "KERAS0102")
    cursor = Cursor(file, layout, place)
    version, way = cursor.read_int(1), cursor.read_int(1)
    if version != 3 or way not in (_COMPACT, _CONTIGUOUS, _CHUNKED):
        file.refuse(f"{place} has an unsupported layout (version {version}, class {way})", "KERAS0102")
    length = prod(shape) * datatype.size
    if way == _CHUNKED:
        return ArrayStorage(_chunked(dataset, cursor, shape, datatype), dtype)
    if dataset.message(_FILTERS) is not None:
        file.refuse(f"{place} has filters but no chunks")
    if way == _COMPACT:
        data = bytes(cursor.read_bytes(cursor.read_int(2)))
        if len(data) < length:
            file.refuse(f"{place} has {len(data)} bytes, expected {length}")
        return ArrayStorage(_native(np.frombuffer(data[:length], _stored(datatype)).reshape(shape), dtype), dtype)
    address, size = cursor.offset(), cursor.length()
    if address == UNDEFINED or size < length:
        # Space is allocated when the first element is written.
        message = (
            f"{place} has no elements in the file"
            if address == UNDEFINED
            else f"{place} has {size} bytes, expected {length}"
        )
        if length:
            file.refuse(message)
        return ArrayStorage(np.zeros(shape, dtype.numpy), dtype)
    start = file.position(address, length, place)
    if datatype.is_big_endian or dtype is DType.BOOL:
        array = np.frombuffer(file.file.view(start, _bounded(file, length, place)), _stored(datatype)).reshape(shape)
        return ArrayStorage(_native(array, dtype), dtype)
    return FileStorage(file.file, start, dtype, shape)


def _numeric(dataset: Object, datatype: Datatype) -> Datatype:
    """The element type; Keras marks bfloat16, which HDF5 has no name for, by an attribute."""
    marked = dataset.attributes.get("dtype")
    if marked is not None and datatype.size == 2 and marked.values == ["bfloat16"]:
        return Datatype(datatype.kind, 2, DType.BFLOAT16, datatype.is_big_endian)
    return datatype


def _stored(datatype: Datatype) -> np.dtype[Any]:
    """The stored element type; bfloat16 and booleans as integers of their size."""
    dtype = datatype.dtype
    if dtype is None or dtype in (DType.BFLOAT16, DType.BOOL):
        found = np.dtype(f"u{datatype.size}")
    else:
        found = np.dtype(dtype.numpy)
    return found.newbyteorder(">" if datatype.is_big_endian else "<")


def _native(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    native = array.astype(array.dtype.newbyteorder("="))
    if dtype is DType.BFLOAT16:
        return native.view(dtype.numpy)
    return native.astype(dtype.numpy, copy=False)


def _bounded(file: Hdf5, length: int, place: str) -> int:
    limit = budget.limit("keras.copied", MAX_COPIED)
    if length > limit:
        help = "set GRAPHPORT_LIMITS=keras.copied=N to allow N bytes"
        file.refuse(f"{place} is chunked and has {length} bytes, the limit is {limit}", "KERAS0103", help)
    return length


def _chunked(dataset: Object, cursor: Cursor, shape: tuple[int, ...], datatype: Datatype) -> np.ndarray[Any, Any]:
    """The elements of a chunked dataset; chunks that are absent have the fill value 0."""
    file, place = dataset.file, f"the dataset {dataset.path!r}"
    rank = cursor.read_int(1) - 1
    tree = cursor.offset()
    chunk = tuple(cursor.read_int(4) for _ in range(rank))
    if rank != len(shape) or cursor.read_int(4) != datatype.size or any(size < 1 for size in chunk):
        file.refuse(f"{place} has chunks of shape {chunk} for the shape {shape}")
    _check_fill(dataset)
    filters = _filters(dataset)
    length = _bounded(file, prod(shape) * datatype.size, place)
    if prod(chunk) * datatype.size > max(length, 1 << 20) * 64:
        file.refuse(f"{place} has chunks of shape {chunk} for the shape {shape}")
    if length > _MAX_RATIO * max(file.size, 1 << 12):
        file.refuse(f"{place} has {length} bytes, more than a file of {file.size} bytes can hold", "KERAS0103")
    stored = _stored(datatype)
    made = np.zeros(shape, stored)
    if tree == UNDEFINED:
        return _native(made, datatype.dtype or DType.FLOAT32)
    for each in _chunks(file, tree, rank, place):
        data = _unfiltered(file, each, filters, prod(chunk) * datatype.size, datatype.size, place)
        array = np.frombuffer(data, stored).reshape(chunk)
        if any(at >= n for at, n in zip(each.origin, shape, strict=True)):
            file.refuse(f"{place} has a chunk at {each.origin}, outside of the shape {shape}")
        inside = [min(c, n - at) for at, c, n in zip(each.origin, chunk, shape, strict=True)]
        target = tuple(slice(at, at + n) for at, n in zip(each.origin, inside, strict=True))
        made[target] = array[tuple(slice(0, n) for n in inside)]
    return _native(made, datatype.dtype or DType.FLOAT32)


def _check_fill(dataset: Object) -> None:
    """Refuse a fill value that is not zero."""
    data = dataset.message(_FILL)
    if data is None:
        return
    cursor = Cursor(dataset.file, data, f"the fill value of {dataset.path!r}")
    version = cursor.read_int(1)
    if version == 3:
        is_defined = bool(cursor.read_int(1) & 0x20)
    else:
        cursor.skip(2)
        is_defined = bool(cursor.read_int(1))
    if is_defined and cursor.remaining >= 4 and any(cursor.read_bytes(cursor.read_int(4))):
        dataset.file.refuse(f"{dataset.path!r} has a fill value that is not 0", "KERAS0102")


def _filters(dataset: Object) -> list[int]:
    """The filters of a dataset in the order in which they were applied."""
    data = dataset.message(_FILTERS)
    if data is None:
        return []
    file = dataset.file
    cursor = Cursor(file, data, f"the filters of {dataset.path!r}")
    version, count = cursor.read_int(1), cursor.read_int(1)
    cursor.skip(6 if version == 1 else 0)
    found: list[int] = []
    for _ in range(count):
        kind = cursor.read_int(2)
        name_length = cursor.read_int(2) if version == 1 or kind >= 256 else 0
        cursor.skip(2)
        values = cursor.read_int(2)
        cursor.skip(name_length + (-name_length % 8 if version == 1 else 0))
        cursor.skip(4 * values + (4 * (values % 2) if version == 1 else 0))
        if kind not in (_DEFLATE, _SHUFFLE, _FLETCHER):
            file.refuse(
                f"{dataset.path!r} uses the HDF5 filter {kind}; only deflate and shuffle are supported", "KERAS0102"
            )
        found.append(kind)
    return found


def _chunks(file: Hdf5, root: int, rank: int, place: str) -> Iterator[_Chunk]:
    """The chunks of a B-tree of version 1."""
    seen, pending = set[int](), [root]
    key = 8 + 8 * (rank + 1)
    while pending:
        address = pending.pop()
        if address in seen:
            file.refuse(f"{place} has a cyclic B-tree")
        seen.add(address)
        level, count = node_head(file, address, 1, place)
        cursor = file.cursor(address, 8 + 2 * file.offset_size + count * (key + file.offset_size), place)
        cursor.skip(8 + 2 * file.offset_size)
        for _ in range(count):
            size, skipped = cursor.read_int(4), cursor.read_int(4)
            origin = tuple(cursor.read_int(8) for _ in range(rank))
            cursor.skip(8)
            child = cursor.offset()
            if level:
                pending.append(child)
            else:
                yield _Chunk(origin, child, size, skipped)


def _unfiltered(file: Hdf5, chunk: _Chunk, filters: list[int], length: int, width: int, place: str) -> bytes:
    """The elements of a chunk."""
    data = bytes(file.bytes(chunk.address, chunk.size, place))
    for index in reversed(range(len(filters))):
        if chunk.skipped >> index & 1:
            continue
        if filters[index] == _DEFLATE:
            data = _inflated(file, data, length + 4, place)
        elif filters[index] == _FLETCHER:
            data = data[:-4]
        elif width > 1:
            data = np.frombuffer(data[: len(data) // width * width], np.uint8).reshape(width, -1).T.tobytes()
    if len(data) != length:
        file.refuse(f"{place} has a chunk of {len(data)} bytes, expected {length}")
    return data


def _inflated(file: Hdf5, data: bytes, most: int, place: str) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        return unpacker.decompress(data, most)
    except zlib.error as error:
        file.refuse(f"{place} has a corrupt chunk: {error}")
