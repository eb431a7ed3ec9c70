"""Older forms of arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import Unknown
from graphport.formats.onnx.rules.older import OLD_BROADCAST, RULES
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import (
    Cast,
    CastLike,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder

OLD_BROADCAST.lower(
    """
Add, Sub, Mul, Div, Pow(a, b, *, axis=None, broadcast=0, consumed_inputs: ignored = None)
    -> _(a, from_axis(b, a, axis) if broadcast and axis is not None else b)
""",
    until=6,
)
# `consumed_inputs` allowed to compute in place; it never changed a result.
RULES.lower("Abs, Ceil, Exp, Floor, Log, Neg, Reciprocal, Sqrt(x, *, consumed_inputs: ignored = None) -> _(x)", until=5)
# Before opset 8 all operands had one shape, which broadcasting leaves alone.
RULES.lower("Max, Min, Mean, Sum(*x, consumed_inputs: ignored = None) -> _(*x)", until=7)

_FIRST_NAMES = {"FLOAT": DType.FLOAT32, "DOUBLE": DType.FLOAT64}


@Cast.lower("onnx", until=5)
def cast_1(b: Builder, input: Value, *, to: str) -> Value:
    """Cast-1: the element type is a string (`FLOAT`)."""
    try:
        dtype = _FIRST_NAMES.get(to) or DType.of(to.lower())
    except (ValueError, TypeError):
        message = f"unknown element type {to!r}"
        raise ShapeError(message) from None
    return b(Cast, input, to=dtype)


@CastLike.export_rule("onnx", until=14)
def cast_like_with_attribute(b: Builder, input: Value, target_type: Value, **attributes: Attribute) -> Value:
    """Export CastLike as Cast to the other operand's type."""
    dtype = target_type.dtype
    if dtype is None:
        raise Unknown
    return b(Cast, input, to=dtype, **attributes)
