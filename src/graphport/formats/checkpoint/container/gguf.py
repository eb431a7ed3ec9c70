"""GGUF files: keys with values, then tensors in block formats."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core import budget
from graphport.core.diagnostics import Source
from graphport.core.storage import MappedFile
from graphport.formats.checkpoint.container.faults import fault

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.core.diagnostics import DiagnosticError

MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 18
MAX_ARRAY = 1 << 26
"""Number of elements of one array in the header."""
_MAX_AXES = 4
_MAX_KEPT = 1 << 13
"""Number of elements of the longest array that is kept: values by layer, factors of frequencies, no vocabularies."""
_MAX_NAME = 1 << 16
_VERSIONS = (2, 3)
_ARRAY, _STRING = 9, 8
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class BlockTensor(NamedTuple):
    """A tensor of a file: its shape with the slowest axis first, the number of its type and its place."""

    file: MappedFile
    start: int
    kind: int
    shape: tuple[int, ...]
    is_big_endian: bool = False


class Gguf(NamedTuple):
    """The keys and tensors of a file; long arrays and arrays of strings are None."""

    keys: dict[str, Any]
    tensors: dict[str, BlockTensor]
    data: int
    """Where the data of the tensors begin."""


class _Cursor:
    """A position in the header of a file."""

    def __init__(self, file: MappedFile, source: Source) -> None:
        self.file = file
        self.source = source
        self.position = 0
        self.order = "<"

    def read_bytes(self, count: int) -> memoryview:
        if count > self.file.size - self.position:
            message = f"truncated file: it ends at byte {self.file.size}, within the header"
            raise gguf_fault(message, self.source, f"byte {self.position}")
        found = self.file.view(self.position, count)
        self.position += count
        return found

    def scalar(self, code: str) -> Any:
        return struct.unpack(self.order + code, self.read_bytes(struct.calcsize(f"={code}")))[0]

    def string(self, limit: int = _MAX_NAME) -> str:
        length = self.scalar("Q")
        if length > limit:
            message = f"a string has {length} bytes, the limit is {limit}"
            raise gguf_fault(message, self.source, f"byte {self.position}")
        return bytes(self.read_bytes(length)).decode("utf-8", "replace")

    def skip_strings(self, count: int) -> None:
        unpack = struct.Struct(f"{self.order}Q").unpack_from
        size, position = self.file.size, self.position
        data = self.file.view(0, size)
        for _ in range(count):
            if position + 8 > size:
                break
            position += 8 + unpack(data, position)[0]
            if position > size:
                break
        else:
            self.position = position
            return
        raise gguf_fault(
            f"truncated file: it ends at byte {size}, within a list of strings", self.source, f"byte {self.position}"
        )


def read_gguf(path: Path) -> Gguf:
    """Return the keys and tensors of a file.

    Raises:
        DiagnosticError: CKPT0001 the file cannot be read; CKPT0004 it is malformed.
    """
    source = Source(str(path))
    try:
        file = MappedFile(path)
    except OSError as error:
        message = f"{path.name} cannot be read: {error.strerror or error}"
        raise fault("CKPT0001", message, source, remedy="check the path") from error
    cursor = _Cursor(file, source)
    with file.steady():
        return _read(cursor)


def _read(cursor: _Cursor) -> Gguf:
    cursor.read_bytes(4)
    version = cursor.scalar("I")
    # The version of a big-endian file is in the last byte.
    if not version & 0xFFFFFF and version >> 24 in _VERSIONS:
        cursor.order, version = ">", version >> 24
    if version not in _VERSIONS:
        message = f"unsupported: version {version} of GGUF"
        raise fault("CKPT0005", message, cursor.source, "byte 4", "convert the model again to GGUF version 2 or 3")
    tensor_count, key_count = cursor.scalar("Q"), cursor.scalar("Q")
    for count, limit, name in ((tensor_count, MAX_TENSORS, "tensors"), (key_count, MAX_KEYS, "keys")):
        if count > min(limit, cursor.file.size // 12):
            message = f"the file declares {count} {name}, the limit is {min(limit, cursor.file.size // 12)}"
            raise gguf_fault(message, cursor.source, "byte 8")
    keys: dict[str, Any] = {}
    for _ in range(key_count):
        name = cursor.string()
        if name in keys:
            raise gguf_fault(f"duplicate key {name[:80]!r}", cursor.source, f"byte {cursor.position}")
        keys[name] = _value(cursor, name, cursor.scalar("I"))
    return _with_tensors(cursor, keys, tensor_count)


def _value(cursor: _Cursor, name: str, kind: int) -> Any:
    if kind in _SCALARS:
        return cursor.scalar(_SCALARS[kind])
    if kind == _STRING:
        return cursor.string(budget.limit("checkpoint.json", 1 << 26))
    if kind != _ARRAY:
        message = f"the key {name[:80]!r} has the unknown value type {kind}"
        raise gguf_fault(message, cursor.source, f"byte {cursor.position}")
    element, count = cursor.scalar("I"), cursor.scalar("Q")
    if count > MAX_ARRAY:
        message = f"the key {name[:80]!r} has {count} values, the limit is {MAX_ARRAY}"
        raise gguf_fault(message, cursor.source, f"byte {cursor.position}")
    if element == _STRING:
        cursor.skip_strings(count)
        return None
    if element not in _SCALARS:
        message = f"the key {name[:80]!r} is an array of the unsupported type {element}"
        raise gguf_fault(message, cursor.source, f"byte {cursor.position}", "use arrays of numbers or strings")
    data = cursor.read_bytes(count * struct.calcsize(f"={_SCALARS[element]}"))
    if count > _MAX_KEPT:
        return None
    return list(struct.unpack(f"{cursor.order}{count}{_SCALARS[element]}", data))


def _with_tensors(cursor: _Cursor, keys: dict[str, Any], count: int) -> Gguf:
    tensors: dict[str, BlockTensor] = {}
    is_big = cursor.order == ">"
    for _ in range(count):
        name = cursor.string()
        axes = cursor.scalar("I")
        if axes > _MAX_AXES:
            raise gguf_fault(f"the tensor {name[:80]!r} has the unsupported rank {axes}", cursor.source, name[:80])
        shape = tuple(cursor.scalar("Q") for _ in range(axes))[::-1]
        kind, offset = cursor.scalar("I"), cursor.scalar("Q")
        if name in tensors:
            raise gguf_fault(f"duplicate tensor {name[:80]!r}", cursor.source, name[:80])
        if prod(shape) >= 1 << 62 or offset >= 1 << 62:
            message = f"the tensor {name[:80]!r} has an invalid shape {list(shape)} or offset {offset}"
            raise gguf_fault(message, cursor.source, name[:80])
        tensors[name] = BlockTensor(cursor.file, offset, kind, shape, is_big)
    alignment = keys.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1 or alignment % 8 or alignment > 1 << 20:
        message = f"general.alignment is {str(alignment)[:40]}, expected a multiple of 8"
        raise gguf_fault(message, cursor.source, "general.alignment")
    data = -(-cursor.position // alignment) * alignment
    for name, tensor in tensors.items():
        if tensor.start % alignment:
            message = f"the tensor {name[:80]!r} has the offset {tensor.start}, expected a multiple of {alignment}"
            raise gguf_fault(message, cursor.source, name[:80])
    placed = {name: tensor._replace(start=data + tensor.start) for name, tensor in tensors.items()}
    return Gguf(keys, placed, data)


def gguf_fault(message: str, source: Source, place: str, remedy: str = "") -> DiagnosticError:
    """Return the error about a malformed file."""
    return fault("CKPT0004", message, source, place, remedy or "download the file again: it is corrupt")
