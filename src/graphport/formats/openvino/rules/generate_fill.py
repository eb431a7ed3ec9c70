"""Tensors that are filled, not computed, in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import storage_of
from graphport.formats.openvino.rules.emitting import emitted_extent
from graphport.ops.declare import lower
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.comparison import Equal
from graphport.ops.definitions.generate import ConstantOfShape, EyeLike
from graphport.ops.definitions.reshape import Concat, Expand, Unsqueeze
from graphport.ops.lowering.extents import counted
from graphport.ops.lowering.operands import as_int64, as_vector, cast, dtype_of, index, integers

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported

_EYES = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT64})
"""Types that ONNX Runtime has a kernel of EyeLike for."""


@lower("openvino", "opset9.Eye")
def eye(
    b: Builder,
    rows: Value,
    columns: Value,
    diagonal: Value,
    batch: Value | None = None,
    *,
    output_type: DType,
) -> Value:
    """Ones on a diagonal, zeros elsewhere, for each of a batch."""
    shape = b(Concat, as_vector(b, rows), as_vector(b, columns), axis=0)
    known = integers(diagonal)
    if known is None:
        matrix = _diagonal(b, rows, columns, diagonal, output_type)
    else:
        wide = output_type if output_type in _EYES else DType.INT32
        zeros = b(ConstantOfShape, shape, value=storage_of(np.zeros(1, wide.numpy), wide))
        matrix = cast(b, b(EyeLike, zeros, k=known[0]), output_type)
    if batch is None or b.dims(batch) == (0,):
        return matrix
    return b(Expand, matrix, b(Concat, as_vector(b, batch), [1, 1], axis=0))


def _diagonal(b: Builder, rows: Value, columns: Value, diagonal: Value, dtype: DType) -> Value:
    """Emit ones on the diagonal whose offset is computed at run time."""
    down, across = (counted(b, as_int64(b, side)) for side in (rows, columns))
    wanted = b(Unsqueeze, b(Add, down, as_vector(b, diagonal)), [1])
    return cast(b, b(Equal, across, wanted), dtype)


@EyeLike.export_rule("openvino")
def export_eye_like(b: Builder, input: Value, *, dtype: DType | None = None, k: int = 0) -> Exported:
    sides = [emitted_extent(b, input, axis) for axis in (0, 1)]
    return b.emit("opset9.Eye", *sides, index(b, k), output_type=dtype or dtype_of(input))


@ConstantOfShape.export_rule("openvino")
def export_constant_of_shape(b: Builder, input: Value, *, value: Storage | None = None) -> Exported:
    filler = np.zeros(1, np.float32) if value is None else value.numpy()
    number = b.constant(filler.reshape(()), None if value is None else value.dtype)
    return b.emit("opset3.Broadcast", number, input, mode="numpy")
