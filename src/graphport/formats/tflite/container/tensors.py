"""Tensors of a subgraph: shapes, elements and quantization parameters, checked against each other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core import budget
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, UNKNOWN, TensorFact
from graphport.core.storage import ArrayStorage, FileStorage, Storage
from graphport.formats.tflite.container.elements import RESOURCE, TYPES, VARIANT
from graphport.formats.tflite.container.enumerations import enumeration_faults
from graphport.formats.tflite.container.external import External
from graphport.formats.tflite.container.flatbuffer import CorruptFileError, Extent, FlatBuffer, Record
from graphport.formats.tflite.container.sparse import dense

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.core.facts import Fact
    from graphport.formats.tflite.container.findings import Findings

Quantization = tuple[DType, int, tuple[float, ...], tuple[int, ...]]
"""Element type, axis (-1 for per-tensor), scales and zero points."""

_MAX_RANK = 64
_OFFSET = 1
"""Offsets up to this value mean that the buffer's data is inside the table."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as the file describes it."""

    name: str
    dtype: DType | None
    fact: Fact
    storage: Storage | None
    quantization: Quantization | None
    is_variable: bool
    record: Record


class Tensors:
    """Reader of tensors of all subgraphs."""

    def __init__(self, buffer: FlatBuffer, model: Record, findings: Findings, path: Path | None) -> None:
        self._buffer = buffer
        self._findings = findings
        self._buffers: list[Record] = model.records("buffers")
        self._external = External(model, findings, path)

    def tensor(self, record: Record, place: str) -> Tensor | None:
        """Read the tensor of a table; `None` after an error was reported."""
        number = record["type"]
        if number not in TYPES:
            self._findings.error("TFL0103", f"unknown element type {number}", place, "use an element type from 0 to 22")
            return None
        dtype = TYPES[number]
        shape = self._shape(record, place)
        if shape is None:
            return None
        quantization = self._quantization(record, dtype, shape, place)
        storage = None
        extent = None
        if record["external_buffer"]:
            storage = self._external.storage(record, dtype, shape, place)
        else:
            extent = self._lies(record["buffer"], place)
        if extent is not None and dtype is not None and (extent.length or prod(shape) == 0 or dtype is DType.STRING):
            storage = self._storage(record, extent, dtype, shape, place) if extent.length else None
        fact = _fact(record, dtype, shape)
        name = record["name"] or ""
        return Tensor(name, dtype, fact, storage, quantization, bool(record["is_variable"]), record)

    def bytes_of(self, index: int, place: str) -> bytes | None:
        """Return the bytes of a buffer; `None` after an error was reported."""
        extent = self._lies(index, place)
        return None if extent is None else bytes(self._buffer.view(extent.offset, extent.length))

    def extent_of(self, start: int, length: int, what: str, place: str) -> Extent | None:
        """Return a byte range of the file; `None` after an error was reported."""
        if start + length > self._buffer.size:
            message = (
                f"truncated file: {what} has the bytes {start} to {start + length}, the file has {self._buffer.size}"
            )
            self._findings.error("TFL0102", message, place, "fetch the file again")
            return None
        return Extent(start, length)

    def _shape(self, record: Record, place: str) -> tuple[int, ...] | None:
        shape = () if record["shape"] is None else tuple(int(n) for n in record["shape"])
        if len(shape) > _MAX_RANK:
            self._findings.error("TFL0103", f"rank {len(shape)} exceeds {_MAX_RANK}", place)
            return None
        if any(n < 0 for n in shape):
            message = f"negative dim in shape {list(shape)}"
            self._findings.error("TFL0103", message, place, "use -1 in shape_signature and 1 in shape for dynamic dims")
            return None
        signature = record["shape_signature"]
        if signature is not None and len(signature) and len(signature) != len(shape):
            message = f"shape_signature has rank {len(signature)}, but shape has rank {len(shape)}"
            self._findings.error("TFL0103", message, place)
            return None
        return shape

    def _lies(self, index: int, place: str) -> Extent | None:
        if index == 0 and not self._buffers:
            return Extent(0, 0)
        if not 0 <= index < len(self._buffers):
            message = f"undefined buffer {index}: the file has {len(self._buffers)}"
            self._findings.error("TFL0102", message, place)
            return None
        buffer = self._buffers[index]
        if buffer["offset"] > _OFFSET:
            return self.extent_of(buffer["offset"], buffer["size"], f"buffer {index}", place)
        return buffer["data"] or Extent(0, 0)

    def _storage(
        self, record: Record, extent: Extent, dtype: DType, shape: tuple[int, ...], place: str
    ) -> Storage | None:
        if not budget.fits_in_memory(shape):
            self._findings.error(
                "TFL0103", f"shape {list(shape)} exceeds the addressable memory", place, "correct the shape"
            )
            return None
        if dtype is DType.STRING:
            return self._texts(extent, shape, place)
        if record["sparsity"] is not None:
            return self._dense(record["sparsity"], extent, dtype, shape, place)
        wanted = dtype.size(prod(shape))
        if extent.length != wanted:
            count = budget.shown(prod(shape))
            message = (
                f"{count} elements of {dtype} take {budget.shown(wanted)} bytes, but the buffer has {extent.length}"
            )
            is_unpacked = dtype.bits < 8 and extent.length == prod(shape)
            remedy = f"store {8 // dtype.bits} elements of {dtype} in a byte" if is_unpacked else "correct the shape"
            self._findings.error("TFL0103", message, place, remedy)
            return None
        return FileStorage(self._buffer.file, extent.offset, dtype, shape)

    def _dense(
        self, sparsity: Record, extent: Extent, dtype: DType, shape: tuple[int, ...], place: str
    ) -> Storage | None:
        if dtype.bits < 8 or prod(shape) > max(1 << 24, 64 * self._buffer.size):
            message = f"{prod(shape)} elements of {dtype} cannot be expanded to a dense tensor"
            self._findings.error("TFL0105", message, place)
            return None
        for table in sparsity.records("dim_metadata"):
            for message, remedy in enumeration_faults(table):
                self._findings.error("TFL0208", message, place, remedy)
        count = extent.length * 8 // dtype.bits
        values = FileStorage(self._buffer.file, extent.offset, dtype, (count,)).numpy()
        try:
            return ArrayStorage(dense(self._buffer, sparsity, values, shape), dtype)
        except CorruptFileError as error:
            self._findings.error("TFL0105", f"invalid sparsity: {error}", place)
            return None

    def _texts(self, extent: Extent, shape: tuple[int, ...], place: str) -> Storage | None:
        """Decode strings: count, offset of each string from the start of the buffer, end offset, then the bytes."""
        raw = bytes(self._buffer.view(extent.offset, extent.length))
        count = int.from_bytes(raw[:4], "little", signed=True)
        if len(raw) < 4 or count != prod(shape) or 4 * (count + 2) > len(raw):
            message = f"{count} strings in {len(raw)} bytes, but the shape has {prod(shape)} elements"
            self._findings.error("TFL0106", message, place)
            return None
        offsets = np.frombuffer(raw[4 : 4 * (count + 2)], "<i4").astype(np.int64)
        if (np.diff(offsets) < 0).any() or offsets[0] < 4 * (count + 2) or offsets[-1] > len(raw):
            self._findings.error("TFL0106", "the string offsets do not partition the buffer", place)
            return None
        texts = np.empty(count, object)
        texts[:] = [raw[a:b].decode("utf-8", "surrogateescape") for a, b in pairwise(offsets.tolist())]
        return ArrayStorage(texts.reshape(shape), DType.STRING)

    # Quantization

    def _quantization(
        self, record: Record, dtype: DType | None, shape: tuple[int, ...], place: str
    ) -> Quantization | None:
        stated = record["quantization"]
        if stated is None or dtype is None or not dtype.is_integer:
            return None
        if stated["details"] is not None:
            message = f"unsupported quantization {stated['details'].table}"
            self._findings.error("TFL0108", message, place, "use per-tensor or per-axis scales")
            return None
        if stated["scale"] is None or not len(stated["scale"]):
            return None
        scales = tuple(float(scale) for scale in stated["scale"])
        zeros = tuple(int(n) for n in stated["zero_point"]) if stated["zero_point"] is not None else ()
        if len(zeros) <= 1 < len(scales):
            zeros = (zeros or (0,)) * len(scales)
        zeros = zeros or (0,) * len(scales)
        fault = _fault(dtype, shape, stated["quantized_dimension"], scales, zeros)
        if fault:
            self._findings.error("TFL0104", f"invalid quantization: {fault}", place)
            return None
        return dtype, (-1 if len(scales) == 1 else int(stated["quantized_dimension"])), scales, zeros


def _fault(dtype: DType, shape: tuple[int, ...], axis: int, scales: tuple[float, ...], zeros: tuple[int, ...]) -> str:
    """Return the error in scales and zero points; an empty string if there is none."""
    if len(scales) != len(zeros):
        return f"{len(scales)} scales, {len(zeros)} zero points"
    if any(not isfinite(scale) or scale <= 0 for scale in scales):
        return "a scale is not a positive number"
    least, most = limits(dtype)
    if any(not least <= zero <= most for zero in zeros):
        return f"a zero point is out of range for {dtype}"
    if len(scales) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scales)):
        return f"{len(scales)} scales do not match axis {axis} of shape {list(shape)}"
    return ""


def limits(dtype: DType) -> tuple[int, int]:
    """Return the minimum and maximum of an integer type."""
    if dtype.kind == "u":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def _fact(record: Record, dtype: DType | None, shape: tuple[int, ...]) -> Fact:
    if dtype is None or record["type"] in (RESOURCE, VARIANT):
        return UNKNOWN
    signature: Any = record["shape_signature"]
    if signature is None or not len(signature):
        return TensorFact(dtype, shape)
    return TensorFact(dtype, tuple(OPEN if declared < 0 else n for declared, n in zip(signature, shape, strict=True)))
