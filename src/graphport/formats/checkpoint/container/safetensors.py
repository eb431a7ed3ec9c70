"""safetensors files: a JSON header, then the bytes of the tensors."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Source
from graphport.core.dtypes import DType
from graphport.core.storage import FileStorage, MappedFile
from graphport.formats.checkpoint.container.config import parse_object
from graphport.formats.checkpoint.container.faults import fault

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.core.diagnostics import DiagnosticError
    from graphport.core.storage import Storage

MAX_HEADER_BYTES = 100_000_000
"""Length of the longest header, as in the safetensors library."""
_MAX_RANK = 32
_OFFSETS = 2
_LENGTH_BYTES = 8

DTYPES = {
    "BOOL": DType.BOOL,
    "U8": DType.UINT8,
    "I8": DType.INT8,
    "F8_E5M2": DType.FLOAT8E5M2,
    "F8_E4M3": DType.FLOAT8E4M3FN,
    "F8_E8M0": DType.FLOAT8E8M0,
    "F4": DType.FLOAT4E2M1,
    "I16": DType.INT16,
    "U16": DType.UINT16,
    "F16": DType.FLOAT16,
    "BF16": DType.BFLOAT16,
    "I32": DType.INT32,
    "U32": DType.UINT32,
    "F32": DType.FLOAT32,
    "F64": DType.FLOAT64,
    "I64": DType.INT64,
    "U64": DType.UINT64,
}


def read_safetensors(path: Path) -> dict[str, Storage]:
    """Return the tensors of a file, mapped.

    Raises:
        DiagnosticError: CKPT0001 the file cannot be read; CKPT0003 its header is malformed.
    """
    source = Source(str(path))
    try:
        file = MappedFile(path)
    except OSError as error:
        message = f"{path.name} cannot be read: {error.strerror or error}"
        raise fault("CKPT0001", message, source, remedy="check the folder") from error
    header, start = _header(file, source)
    header.pop("__metadata__", None)
    found: dict[str, Storage] = {}
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        dtype, shape, begin, end = _parse_tensor(name, entry, source)
        if begin > end or end > file.size - start:
            message = f"{name[:200]!r} has the bytes {begin} to {end}, but the data has {file.size - start}"
            raise _header_fault(message, source, name)
        if dtype.size(prod(shape)) != end - begin or (dtype.bits < 8 and prod(shape) * dtype.bits % 8):
            message = f"{name[:200]!r} has {end - begin} bytes, {dtype}{list(shape)} takes {dtype.size(prod(shape))}"
            raise _header_fault(message, source, name)
        spans.append((begin, end))
        found[name] = FileStorage(file, start + begin, dtype, shape)
    _check_spans(spans, file.size - start, source)
    return found


def _header(file: MappedFile, source: Source) -> tuple[dict[str, Any], int]:
    if file.size < _LENGTH_BYTES:
        raise _header_fault(f"truncated file: {file.size} bytes, expected at least 8", source, "byte 0")
    length = struct.unpack("<Q", file.view(0, 8))[0]
    if length > min(MAX_HEADER_BYTES, file.size - 8):
        message = f"the header has {length} bytes, the limit is {min(MAX_HEADER_BYTES, file.size - 8)}"
        raise _header_fault(message, source, "byte 0")
    data = bytes(file.view(8, length))
    if not data.startswith(b"{"):
        raise _header_fault("the header does not begin with '{'", source, "byte 8")
    return parse_object(data, source, "CKPT0003", "the header"), 8 + length


def _parse_tensor(name: str, entry: object, source: Source) -> tuple[DType, tuple[int, ...], int, int]:
    if not isinstance(entry, dict):
        raise _header_fault(f"the header entry {name[:200]!r} is not a JSON object", source, name)
    fields = cast("dict[str, Any]", entry)
    dtype = fields.get("dtype")
    shape, offsets = _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
    if not isinstance(dtype, str) or dtype not in DTYPES:
        message = f"{name[:200]!r} has the element type {str(dtype)[:40]!r}"
        raise _header_fault(message, source, name, f"element types: {', '.join(DTYPES)}")
    if shape is None or len(shape) > _MAX_RANK:
        raise _header_fault(f"{name[:200]!r} has the shape {str(fields.get('shape'))[:80]}", source, name)
    if offsets is None or len(offsets) != _OFFSETS:
        raise _header_fault(f"{name[:200]!r} has the offsets {str(fields.get('data_offsets'))[:80]}", source, name)
    return DTYPES[dtype], shape, offsets[0], offsets[1]


def _sizes(value: object) -> tuple[int, ...] | None:
    """Return a list of sizes, or None for anything else."""
    if not isinstance(value, list):
        return None
    found = [each for each in cast("list[object]", value) if type(each) is int and 0 <= each < 1 << 63]
    return tuple(found) if len(found) == len(cast("list[object]", value)) else None


def _check_spans(spans: list[tuple[int, int]], size: int, source: Source) -> None:
    """Check that tensors follow each other without holes up to the end of the file."""
    position = 0
    for begin, end in sorted(spans):
        if begin != position:
            kind = "overlap" if begin < position else "leave a hole"
            raise _header_fault(f"two tensors {kind} at byte {begin} of the data", source, f"byte {begin}")
        position = end
    if position != size:
        raise _header_fault(
            f"{size - position} bytes after the last tensor belong to no tensor", source, f"byte {position}"
        )


def _header_fault(message: str, source: Source, place: str, remedy: str = "") -> DiagnosticError:
    return fault("CKPT0003", message, source, place[:200], remedy or "download the file again: it is corrupt")
