"""Import rules of operators that generate tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import RULES, operator
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mul, Sub
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.reshape import Expand
from graphport.ops.lowering.operands import as_scalar, as_vector, cast, dtype_of, reshaped, scalar

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

RULES.lower("""
Range(start, limit, delta) -> Range(scalar(start), scalar(limit), scalar(delta))
ZerosLike(x) -> Expand(like(x, 0), Shape(x))
OnesLike(x) -> Expand(like(x, 1), Shape(x))
""")


@operator("Fill", "Empty")
def fill(b: Builder, shape: Value, number: Value | None = None, *, dtype: DType = DType.FLOAT32) -> Value:
    """A tensor of one value."""
    value = scalar(b, 0, dtype) if number is None else as_scalar(b, number)
    return b(Expand, value, as_vector(b, shape))


@operator("LinSpace")
def linspace(b: Builder, start: Value, stop: Value, count: Value) -> Value:
    """`count` values from `start` to `stop`, both included."""
    own = dtype_of(start)
    first, last, total = as_scalar(b, start), as_scalar(b, stop), as_scalar(b, as_vector(b, count))
    one, zero = scalar(b, 1, DType.INT64), scalar(b, 0, DType.INT64)
    gaps = cast(b, b(Max, b(Sub, total, one), one), own)
    places = b(Range, zero, total, one)
    y = b(Add, first, b(Mul, cast(b, places, own), b(Div, b(Sub, last, first), gaps)))
    is_last = b(Equal, places, b(Max, b(Sub, total, one), one))
    return b(Where, is_last, reshaped(b, last, (1,)), y)
