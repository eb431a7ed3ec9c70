"""Tensors of a model as storages: views of the file if the layout permits."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from graphport.core import budget
from graphport.core.dtypes import DType
from graphport.core.storage import ArrayStorage, Bytes, FileStorage
from graphport.formats.onnx.container import types, wire
from graphport.formats.onnx.container.sparse import SparseStorage, misplaced
from graphport.formats.onnx.container.types import MOST_RANK, UnknownTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnx import SparseTensorProto

    from graphport.core.storage import MappedFile, Storage
    from graphport.formats.onnx.container.external import External
    from graphport.formats.onnx.container.findings import Findings
    from graphport.formats.onnx.container.wire import Cut

_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_FIELD_NUMBERS = {4: "float_data", 9: "raw_data", 10: "double_data"}
_FIELD_OF: dict[DType, str] = {
    DType.FLOAT32: "float_data",
    DType.COMPLEX64: "float_data",
    DType.FLOAT64: "double_data",
    DType.COMPLEX128: "double_data",
    DType.INT64: "int64_data",
    DType.UINT32: "uint64_data",
    DType.UINT64: "uint64_data",
    DType.STRING: "string_data",
}
"""The field with elements of a type, without `raw_data`; `int32_data` for all other types."""


class Tensors:
    """Reader of the tensors of one file.

    `file` and `cuts` locate the payloads that the wire scan removed.
    """

    def __init__(
        self, findings: Findings, external: External, file: MappedFile | Bytes | None = None, cuts: Sequence[Cut] = ()
    ) -> None:
        self._findings = findings
        self._external = external
        self._file = file
        self._cuts = cuts
        self.has_external_data = False

    def read(self, proto: TensorProto, place: str) -> Storage | None:
        """Return the elements of a tensor; `None` after an error."""
        try:
            dtype = types.dtype_of(proto.data_type)
        except UnknownTypeError as error:
            self._findings.error(
                "ONNX0301", f"unknown element type {error}", f"{place}.data_type", "use an element type from 1 to 26"
            )
            return None
        shape = self._shape(proto.dims, f"{place}.dims")
        if shape is None:
            return None
        if proto.data_location == TensorProto.EXTERNAL:
            return self._outside(proto, dtype, shape, place)
        if proto.HasField("segment"):
            return self._cut(proto, dtype, shape, place)
        return self._inside(proto, dtype, shape, place)

    def read_sparse(self, proto: SparseTensorProto, place: str) -> SparseStorage | None:
        """Return a sparse tensor with checked indices; `None` after an error."""
        values = self.read(proto.values, f"{place}.values")
        indices = self.read(proto.indices, f"{place}.indices")
        shape = self._shape(proto.dims, f"{place}.dims")
        if values is None or indices is None or shape is None:
            return None
        count = values.count
        if values.dtype is DType.STRING or len(values.shape) != 1:
            self._findings.error(
                "ONNX0307",
                f"sparse values are {values.dtype}{list(values.shape)}, expected a numeric tensor of shape [n]",
                place,
            )
            return None
        if indices.dtype is not DType.INT64 or indices.shape not in ((count,), (count, len(shape))):
            wanted = f"int64[{count}] or int64[{count}, {len(shape)}]"
            message = f"sparse indices are {indices.dtype}{list(indices.shape)}, expected {wanted}"
            self._findings.error("ONNX0307", message, place)
            return None
        wrong = misplaced(indices, shape)
        if wrong is not None:
            self._findings.error("ONNX0307", f"{wrong} of {list(shape)}", f"{place}.indices")
            return None
        return SparseStorage(values, indices, shape)

    def _shape(self, dims: Iterable[int], place: str) -> tuple[int, ...] | None:
        shape = tuple(dims)
        if shape and min(shape) < 0:
            self._findings.error("ONNX0303", f"negative dim in shape {list(shape[:MOST_RANK])}", place)
            return None
        if len(shape) > MOST_RANK:
            self._findings.error("ONNX0303", f"the tensor has rank {len(shape)}, the limit is {MOST_RANK}", place)
            return None
        if not budget.fits_in_memory(shape):
            self._findings.error("ONNX0303", f"shape {list(shape)} exceeds the addressable memory", place)
            return None
        return shape

    def _outside(self, proto: TensorProto, dtype: DType, shape: tuple[int, ...], place: str) -> Storage | None:
        self.has_external_data = True
        if dtype is DType.STRING:
            self._findings.error(
                "ONNX0404", "string tensors cannot be stored as external data", f"{place}.data_location"
            )
            return None
        entries = {str(entry.key): str(entry.value) for entry in proto.external_data}
        return self._external.storage(entries, dtype, shape, self._findings, f"{place}.external_data")

    def _cut(self, proto: TensorProto, dtype: DType, shape: tuple[int, ...], place: str) -> Storage | None:
        index = proto.segment.begin
        if proto.segment.end != wire.CUT or not 0 <= index < len(self._cuts) or self._file is None:
            message = "the tensor is a segment of an unspecified larger one"
            self._findings.error("ONNX0306", message, f"{place}.segment", "store the tensor without segments")
            return None
        cut = self._cuts[index]
        field = _FIELD_NUMBERS[cut.field]
        expected = _FIELD_OF.get(dtype, "int32_data")
        if dtype is DType.STRING or field not in ("raw_data", expected):
            self._findings.error("ONNX0304", f"{dtype} data is stored in {field}, expected {expected}", place)
            return None
        storage = FileStorage(self._file, cut.start, dtype, shape)
        return storage if self._has_length(storage, cut.length, f"{place}.{field}") else None

    def _inside(self, proto: TensorProto, dtype: DType, shape: tuple[int, ...], place: str) -> Storage | None:
        raw = proto.raw_data
        present = [name for name in _FIELDS if len(getattr(proto, name))]
        expected = _FIELD_OF.get(dtype, "int32_data")
        if len(present) + bool(raw) > 1:
            names = ", ".join([*present, *(["raw_data"] if raw else [])])
            self._findings.error("ONNX0304", f"tensor data is stored in several fields: {names}", place)
            return None
        if present and present[0] != expected:
            self._findings.error("ONNX0304", f"{dtype} data is stored in {present[0]}, expected {expected}", place)
            return None
        if present or (dtype is DType.STRING and not raw):
            return self._typed(getattr(proto, expected), dtype, shape, f"{place}.{expected}")
        if dtype is DType.STRING:
            self._findings.error("ONNX0304", "string data is stored in raw_data, expected string_data", place)
            return None
        storage = FileStorage(Bytes(raw), 0, dtype, shape)
        return storage if self._has_length(storage, len(raw), f"{place}.raw_data") else None

    def _has_length(self, storage: Storage, length: int, place: str) -> bool:
        if storage.nbytes != length:
            message = f"{length} bytes, {storage.dtype}{list(storage.shape)} takes {storage.nbytes}"
            self._findings.error("ONNX0302", message, place)
        return storage.nbytes == length

    def _typed(self, entries: Any, dtype: DType, shape: tuple[int, ...], place: str) -> Storage | None:
        """Return elements stored one by one; types below four bits are packed, several per entry."""
        count = prod(shape)
        wanted = dtype.size(count) if 0 < dtype.bits < 8 else count * (2 if dtype.kind == "c" else 1)
        if len(entries) != wanted:
            self._findings.error("ONNX0302", f"{len(entries)} entries, {dtype}{list(shape)} takes {wanted}", place)
            return None
        if dtype is DType.STRING:
            return ArrayStorage(_texts(entries).reshape(shape), DType.STRING)
        if dtype.kind == "c":
            part = np.float32 if dtype is DType.COMPLEX64 else np.float64
            return ArrayStorage(np.array(entries, part).view(dtype.numpy).reshape(shape), dtype)
        if dtype.bits >= 32:
            return self._ranged(np.array(entries), dtype, dtype.numpy, shape, place)
        # Floats and packed elements are stored as bit patterns.
        width = max(dtype.bits, 8)
        is_pattern = dtype.bits < 8 or dtype.is_floating
        numbers = np.dtype(f"u{width // 8}") if is_pattern else dtype.numpy
        found = self._ranged(np.array(entries, np.int32), dtype, numbers, (len(entries),), place)
        if found is None:
            return None
        return FileStorage(Bytes(found.numpy().tobytes()), 0, dtype, shape)

    def _ranged(
        self, entries: np.ndarray[Any, Any], dtype: DType, held: np.dtype[Any], shape: tuple[int, ...], place: str
    ) -> ArrayStorage | None:
        if held.kind in "iu" and entries.size:
            limits = np.iinfo(held)
            outside = np.flatnonzero((entries < limits.min) | (entries > limits.max))
            if outside.size:
                message = (
                    f"element {outside[0]} is {entries[outside[0]]}, "
                    f"outside the range of {dtype}: {limits.min} to {limits.max}"
                )
                self._findings.error("ONNX0305", message, place)
                return None
        return ArrayStorage(entries.astype(held).reshape(shape), DType.of(held))


def _texts(entries: Iterable[bytes]) -> np.ndarray[Any, Any]:
    """Decode strings; invalid UTF-8 bytes become lone surrogates, which the writer converts back."""
    decoded = [entry.decode("utf-8", "surrogateescape") for entry in entries]
    array = np.empty(len(decoded), object)
    array[:] = decoded
    return array
