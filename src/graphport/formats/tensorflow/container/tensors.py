"""Constants and shapes: TensorProto and TensorShapeProto messages."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact, open_dim
from graphport.core.storage import ArrayStorage, FileStorage
from graphport.formats.tensorflow.container.schema import dtype_of

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.formats.tensorflow.container.findings import Findings
    from graphport.formats.tensorflow.container.wire import Message

MAX_RANK = 254
_FIELDS: dict[DType, str] = {
    DType.FLOAT32: "float_val",
    DType.FLOAT64: "double_val",
    DType.INT64: "int64_val",
    DType.BOOL: "bool_val",
    DType.FLOAT16: "half_val",
    DType.BFLOAT16: "half_val",
    DType.UINT32: "uint32_val",
    DType.UINT64: "uint64_val",
    DType.COMPLEX64: "scomplex_val",
    DType.COMPLEX128: "dcomplex_val",
}
_BIT_PATTERNS = (DType.FLOAT16, DType.BFLOAT16)
MAX_STORED_FILL = 1 << 16
"""Elements of a constant of one repeated value that is stored; a larger one becomes an `Expand`."""


def shape_of(message: Message | None, findings: Findings, place: str) -> tuple[int, ...] | None:
    """The dims of a shape, -1 for an open one; `None` where the rank is not known.

    Raises:
        DiagnosticError: TF0202 a dim is below -1, or there are too many.
    """
    if message is None or message.integer("unknown_rank"):
        return None
    dims = tuple(each.integer("size") for each in message.messages("dims"))
    if len(dims) > MAX_RANK or min(dims, default=0) < -1:
        text = f"the shape {list(dims[:8])} has {len(dims)} dims"
        findings.refuse("TF0202", text, place, f"use at most {MAX_RANK} dims of -1 or more")
    return dims


def fact_of(dtype: DType | None, shape: tuple[int, ...] | None) -> TensorFact:
    """The fact of an element type and a shape with -1 for open dims."""
    return TensorFact(dtype, None if shape is None else tuple(open_dim(None) if n < 0 else n for n in shape))


class Constant:
    """A constant: stored elements, or one value that is repeated."""

    def __init__(self, message: Message, findings: Findings, place: str) -> None:
        """Read a TensorProto.

        Raises:
            DiagnosticError: TF0202 it is malformed.
        """
        self.findings = findings
        self.place = place
        self.message = message
        number = message.integer("dtype")
        dtype = dtype_of(number)
        if dtype is None:
            findings.refuse(
                "TF0202",
                f"unsupported constant of DataType {number}",
                place,
                "use constants of numbers, booleans or strings",
            )
        self.dtype: DType = dtype
        shape = shape_of(message.message("shape"), findings, place)
        self.shape = () if shape is None else shape
        if min(self.shape, default=0) < 0:
            findings.refuse(
                "TF0202",
                f"a constant with the dynamic shape {list(self.shape)}",
                place,
                "declare static dims of the constant",
            )
        self.count = prod(self.shape)
        self.storage, self.fill = self._read()

    def _read(self) -> tuple[Storage | None, Storage | None]:
        if self.dtype is DType.STRING:
            return self._strings(), None
        content = self.message.extents("content")
        if content and content[-1].stop > content[-1].start:
            start, stop = content[-1]
            wanted = self.dtype.size(self.count)
            if stop - start != wanted:
                self._refuse(f"{stop - start} bytes for {self.count} elements of {self.dtype}, expected {wanted}")
            return FileStorage(self.message.document.file, start, self.dtype, self.shape), None
        return self._values(self._elements())

    def _elements(self) -> np.ndarray[Any, Any]:
        values = self.message.numeric_elements(_FIELDS.get(self.dtype, "int_val"))
        if self.dtype.kind == "c":
            if values.size % 2:
                self._refuse("an odd number of parts of complex values")
            return values.reshape(-1, 2).view(f"<c{self.dtype.bits // 8}").reshape(-1)
        if self.dtype in _BIT_PATTERNS:
            return values.astype(np.uint16).view(self.dtype.numpy)
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(self.dtype.numpy)

    def _values(self, values: np.ndarray[Any, Any]) -> tuple[Storage | None, Storage | None]:
        """Stored elements: of fewer values than elements the last one is repeated, of none all are zero."""
        if values.size > self.count:
            self._refuse(f"{values.size} values for {self.count} elements")
        if values.size == self.count:
            return ArrayStorage(values.reshape(self.shape), self.dtype), None
        if not values.size:
            values = np.zeros(1, self.dtype.numpy)
        if values.size == 1 and self.count > MAX_STORED_FILL:
            return None, ArrayStorage(values.reshape(()), self.dtype)
        reserve(self.count)
        filled = np.concatenate([values, np.broadcast_to(values[-1:], (self.count - values.size,))])
        return ArrayStorage(filled.reshape(self.shape), self.dtype), None

    def _strings(self) -> Storage:
        values = self.message.strings("string_val")
        if len(values) > max(self.count, 1):
            self._refuse(f"{len(values)} strings for {self.count} elements")
        reserve(self.count)
        filled = values + [values[-1] if values else ""] * (self.count - len(values))
        array = np.empty(self.count, object)
        array[:] = filled[: self.count]
        return ArrayStorage(array.reshape(self.shape), DType.STRING)

    def _refuse(self, text: str) -> None:
        self.findings.refuse("TF0202", text, self.place, "write the file again: the constant is corrupt")


def strings_of(message: Message | None) -> list[str]:
    """The strings of a TensorProto of strings, as its file lists them."""
    return [] if message is None else message.strings("string_val")
