"""Conversion between blobs of a file and storages."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core import budget
from graphport.core.dtypes import DType
from graphport.core.storage import FileStorage, Storage, storage_of
from graphport.formats.caffe.container import schema
from graphport.formats.caffe.container.message import Identifier, Message

if TYPE_CHECKING:
    from graphport.formats.caffe.container.findings import Findings

_LEGACY = ("num", "channels", "height", "width")
_RAW = {"FLOAT": DType.FLOAT32, "FLOAT16": DType.FLOAT16, "DOUBLE": DType.FLOAT64}


def storage_of_blob(blob: Message, findings: Findings, what: str) -> Storage | None:
    """Return the elements of `blob` in its shape; `None` if there are none or their number differs.

    Blobs in the oldest form have four dims.
    """
    before = len(findings.diagnostics)
    data = _read_elements(blob, findings, what)
    shape = shape_of_blob(blob, data)
    if any(extent < 0 for extent in shape):
        findings.error(
            "CAFFE0302", f"invalid shape {list(shape)} of {what}", blob.span, "fetch the file again: it is corrupt"
        )
        return None
    if data is None:
        if prod(shape) and len(findings.diagnostics) == before:
            findings.error("CAFFE0303", f"{what} has shape {list(shape)} but no elements", blob.span)
        return None
    if prod(shape) != data.count:
        message = f"{what} has {data.count} elements, but its shape {list(shape)} requires {budget.shown(prod(shape))}"
        findings.error("CAFFE0303", message, blob.span, "fetch the file again: it is corrupt or truncated")
        return None
    # Networks are float32, although the file format has other types.
    single = data if data.dtype is DType.FLOAT32 else storage_of(data.numpy().astype(np.float32))
    return single.reshaped(shape)


def shape_of_blob(blob: Message, numbers: Storage | None) -> tuple[int, ...]:
    """Return the dims of `blob`, in the newer or older form."""
    if any(blob.has(name) for name in _LEGACY):
        return tuple(blob.integer(name) for name in _LEGACY)
    shape = blob.message("shape")
    if shape is not None:
        return tuple(shape.integers("dim"))
    return () if numbers is None or numbers.count == 1 else (numbers.count,)


def blob_of_storage(storage: Storage) -> Message:
    """Convert a float32 storage to a blob."""
    shape = Message(schema.SHAPE)
    for extent in storage.shape:
        shape.add("dim", extent)
    blob = Message(schema.BLOB)
    blob.add("shape", shape)
    blob.add("data", storage)
    return blob


def _read_elements(blob: Message, findings: Findings, what: str) -> Storage | None:
    for name in ("data", "double_data"):
        found = [entry.content for entry in blob.all(name) if isinstance(entry.content, Storage)]
        if len(found) == 1:
            return found[0]
        if found:
            findings.error(
                "CAFFE0304", f"the data of {what} is split into {len(found)} fields, expected one", blob.span
            )
            return None
    raw = next((entry.content for entry in blob.all("raw_data") if isinstance(entry.content, FileStorage)), None)
    if raw is None:
        return None
    # A field of NVIDIA's fork.
    kind = blob.text("raw_data_type", Identifier("DOUBLE"))
    dtype = _RAW.get(kind)
    if dtype is None or raw.count % (dtype.bits // 8):
        remedy = f"expected whole elements of {', '.join(_RAW)}"
        findings.error("CAFFE0304", f"{what} has {raw.count} bytes of {kind}", blob.span, remedy)
        return None
    return FileStorage(raw.file, raw.start, dtype, (raw.count // (dtype.bits // 8),))
