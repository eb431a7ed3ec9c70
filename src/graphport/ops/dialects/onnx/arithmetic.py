"""Older forms of arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact, Unknown
from graphport.ops.declare import ShapeError
from graphport.ops.dialects.leading_broadcast import explicit_broadcast
from graphport.ops.dialects.onnx.in_place import allowed_in_place
from graphport.ops.pages.arithmetic import (
    Abs,
    Add,
    Cast,
    CastLike,
    Ceil,
    Div,
    Exp,
    Floor,
    Log,
    Max,
    Mean,
    Min,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Sqrt,
    Sub,
    Sum,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder

for _page in (Add, Sub, Mul, Div, Pow):
    explicit_broadcast(_page, until=6)

for _page in (Abs, Ceil, Exp, Floor, Log, Neg, Reciprocal, Sqrt):
    allowed_in_place(_page, until=5)

for _page in (Max, Min, Mean, Sum):
    # Before opset 8 all operands had one shape, which broadcasting leaves alone.
    allowed_in_place(_page, until=7)

_FIRST_NAMES = {"FLOAT": DType.FLOAT32, "DOUBLE": DType.FLOAT64}


@Cast.lower("onnx", until=5)
def cast_1(b: Builder, input: Value, *, to: str) -> Value:
    """The element type was spelled out (`FLOAT`)."""
    try:
        dtype = _FIRST_NAMES.get(to) or DType.of(to.lower())
    except (ValueError, TypeError):
        message = f"there is no element type {to!r}"
        raise ShapeError(message) from None
    return b(Cast, input, to=dtype)


@CastLike.lift("onnx", until=14)
def cast_like_with_attribute(b: Builder, input: Value, target_type: Value, **attributes: Attribute) -> Value:
    """The type that the other operand has."""
    dtype = target_type.fact.dtype if isinstance(target_type.fact, TensorFact) else None
    if dtype is None:
        raise Unknown
    return b(Cast, input, to=dtype, **attributes)
