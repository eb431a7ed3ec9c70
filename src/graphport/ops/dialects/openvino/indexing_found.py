"""Which elements there are, and where, in OpenVINO: NonZero and Unique."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.declare import lower
from graphport.ops.dialects.emitting import emits
from graphport.ops.dialects.openvino.emitting import emitted_reshape
from graphport.ops.dialects.operands import cast, dtype_of, index, needed, vector
from graphport.ops.pages.indexing import NonZero, Unique
from graphport.ops.pages.reshape import Reshape

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.dialects.emitting import Lifted

_COUNTED = frozenset({DType.BOOL, DType.FLOAT32, DType.INT32, DType.INT64, DType.UINT8})
"""What ONNX Runtime looks for zeros in."""
_SORTED = {
    DType.BOOL: DType.INT8,
    DType.FLOAT16: DType.FLOAT32,
    DType.BFLOAT16: DType.FLOAT32,
    DType.INT16: DType.INT64,
    DType.INT32: DType.INT64,
    DType.UINT8: DType.INT64,
    DType.UINT16: DType.INT64,
    DType.UINT32: DType.INT64,
}
"""What ONNX Runtime does not sort, and a type that it sorts and that has all these numbers."""


@lower("openvino", "opset3.NonZero")
def non_zero(b: Builder, x: Value, *, output_type: DType = DType.INT64) -> Value:
    """Places of what is not zero, one column each; those of a number are those of a vector."""
    if not b.dims(x):
        x = b(Reshape, x, vector(b, [1]))
    if dtype_of(x) not in _COUNTED:
        x = cast(b, x, DType.BOOL)
    return cast(b, b(NonZero, x), output_type)


@NonZero.lift("openvino")
def lift_non_zero(b: Builder, x: Value) -> Lifted:
    if not b.dims(x):
        x = emitted_reshape(b, x, (1,))
    return b.word("opset3.NonZero", x)


@lower("openvino", "opset10.Unique")
def unique(
    b: Builder,
    x: Value,
    axis: Value | None = None,
    *,
    sorted: bool = True,
    index_element_type: DType = DType.INT64,
    count_element_type: DType = DType.INT64,
) -> tuple[Value, ...]:
    """Each number, or each slice, once; where it stood first; which one stands where; and how many there are."""
    place = None if axis is None else needed(axis, "the axis of what is unique")[0]
    dtype = dtype_of(x)
    given = cast(b, x, _SORTED.get(dtype, dtype))
    values, first, inverse, counts = b.results(Unique, 4, given, axis=place, sorted=int(sorted))
    index = index_element_type
    positions = cast(b, first, index), cast(b, inverse, index)
    return cast(b, values, dtype), *positions, cast(b, counts, count_element_type)


@Unique.lift("openvino")
def lift_unique(b: Builder, x: Value, *, axis: int | None = None, sorted: int = 1) -> Lifted:
    place = [] if axis is None else [index(b, axis)]
    return emits(b, "opset10.Unique", 4, x, *place, sorted=bool(sorted))
