"""Integers that stand for real numbers, in TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.dialects.operands import cast
from graphport.ops.dialects.tflite import quantization_lifts as quantization_lifts  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.tflite.binding import Operator, word
from graphport.ops.dialects.tflite.tables import requantized
from graphport.ops.pages.reshape import Identity

if TYPE_CHECKING:
    from graphport.ir.graph import Value


@word("QUANTIZE", layout="any")
def quantize(op: Operator) -> Value:
    """Integers that stand for real numbers, or for what other integers stand for."""
    found = requantized(op)
    return op[0] if found is None else found


@word("DEQUANTIZE", layout="any")
def dequantize(op: Operator) -> Value:
    """The real numbers that integers stand for, or halves."""
    return cast(op.b, op[0], DType.FLOAT32)


@word("DENSIFY", moves=True)
def densify(op: Operator) -> Value:
    """A sparse constant as a dense one, which it is as soon as it is read."""
    return op.b(Identity, op[0])
