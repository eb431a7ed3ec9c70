"""Write weights as a safetensors file; the elements are streamed."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, BinaryIO

from graphport.core.dtypes import DType
from graphport.core.python_code import CodeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.storage import Storage

_ALIGNMENT = 8
_NAMES = {
    DType.BOOL: "BOOL",
    DType.UINT8: "U8",
    DType.INT8: "I8",
    DType.UINT16: "U16",
    DType.INT16: "I16",
    DType.UINT32: "U32",
    DType.INT32: "I32",
    DType.UINT64: "U64",
    DType.INT64: "I64",
    DType.FLOAT16: "F16",
    DType.BFLOAT16: "BF16",
    DType.FLOAT32: "F32",
    DType.FLOAT64: "F64",
    DType.FLOAT8E4M3FN: "F8_E4M3",
    DType.FLOAT8E5M2: "F8_E5M2",
    DType.FLOAT8E8M0: "F8_E8M0",
}


def header(weights: Mapping[str, Storage]) -> bytes:
    """Return the header of a file with these weights: its length in 8 bytes, and the offsets as JSON.

    Raises:
        CodeError: safetensors does not have an element type.
    """
    entries: dict[str, dict[str, object]] = {}
    offset = 0
    for name, storage in weights.items():
        if storage.dtype not in _NAMES:
            message = f"{name} has the element type {storage.dtype}, which safetensors files do not have"
            raise CodeError(message)
        offsets = [offset, offset + storage.nbytes]
        entries[name] = {"dtype": _NAMES[storage.dtype], "shape": list(storage.shape), "data_offsets": offsets}
        offset = offsets[1]
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def write_weights(file: BinaryIO, head: bytes, weights: Mapping[str, Storage]) -> None:
    """Write a file with the header `head`."""
    file.write(head)
    for storage in weights.values():
        file.writelines(storage.chunks())
