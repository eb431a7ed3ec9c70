"""Tensors made from numbers, in TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.dialects.operands import as_scalar, as_vector
from graphport.ops.dialects.tflite.binding import Operator, word
from graphport.ops.pages.generate import Range
from graphport.ops.pages.reshape import Shape
from graphport.ops.pages.reshape.pieces import Expand

if TYPE_CHECKING:
    from graphport.ir.graph import Value


@word("RANGE")
def range_(op: Operator) -> Value:
    """Numbers from a start to before a limit, a step apart."""
    return op.b(Range, *[as_scalar(op.b, op[index]) for index in range(3)])


@word("FILL", moves=(1,))
def fill(op: Operator) -> Value:
    """One number everywhere; operands are the shape and the number."""
    return op.b(Expand, as_scalar(op.b, op[1]), as_vector(op.b, op.raw(0)))


@word("ZEROS_LIKE", is_raw=True)
def zeros_like(op: Operator) -> Value:
    """Zeros in the shape of x."""
    return op.b(Expand, op.b.like(op.raw(0), 0), op.b(Shape, op.raw(0)))
