"""Integers that stand for real numbers, in TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.dialects.tflite.binding import Operator, word
from graphport.ops.dialects.tflite.rows import ROWS
from graphport.ops.dialects.tflite.tables import halvings, integers_of, quotient_of, requantized, rounded_twice

if TYPE_CHECKING:
    from graphport.ir.graph import Value


@word("QUANTIZE", layout="any")
def quantize(op: Operator) -> Value:
    """Integers that stand for real numbers, or for what other integers stand for."""
    found = requantized(op)
    if found is not None:
        return found
    told = op.quantization(0)
    whole = integers_of(op) if told is not None and told[0] is DType.INT16 else None
    real = quotient_of(op)
    twice = None if whole is None else rounded_twice(op, whole, real, halvings(real))
    return op[0] if twice is None else twice


# The real numbers that integers stand for, or halves.
ROWS.lower("DEQUANTIZE(x) -> cast(x, float32)", layout="any")
# A sparse constant as a dense one, which it is as soon as it is read.
ROWS.lower("DENSIFY(x) -> Identity(x)", moves=True)
