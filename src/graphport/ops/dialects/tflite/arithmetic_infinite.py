"""Sums that are infinite: LiteRT's kernels end them at the largest finite number."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.infinities import infinities
from graphport.ops.dialects.operands import dtype_of
from graphport.ops.dialects.tflite.emitting import NUMBERS, computed_in
from graphport.ops.pages.arithmetic import Add

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_KEEPS = frozenset(
    (
        *("SELECT_V2", "ADD", "CAST", "RESHAPE", "EXPAND_DIMS", "SQUEEZE", "TRANSPOSE", "BROADCAST_TO", "TILE"),
        *("SLICE", "STRIDED_SLICE", "CONCATENATION", "GATHER", "PAD", "PADV2", "MAXIMUM", "MINIMUM"),
    )
)
"""What gives numbers that it is given."""
_SOFTMAX = ("Softmax", "SOFTMAX")


@Add.lift("tflite")
def lift_add(b: Builder, x: Value, y: Value) -> Lifted:
    """A sum; where an operand is infinite because a mask says so, and more than a softmax reads it, it stays so."""
    total = computed_in(b, NUMBERS, "ADD", x, y)
    if dtype_of(total) is not DType.FLOAT32 or _only_softmax_reads(b):
        return (total,)
    for operand in (x, y):
        for infinity in infinities(operand, _KEEPS):
            b.looks_around = True
            is_infinite = emit(b, "EQUAL", operand, b.constant(np.float32(infinity)))
            total = emit(b, "SELECT_V2", is_infinite, b.constant(np.float32(infinity)), total)
    return (total,)


def _only_softmax_reads(b: Builder) -> bool:
    """Whether the sum is read by what takes the lowest number as it takes minus infinity."""
    node = b.before
    if node is None or len(node.results) != 1:
        return False
    return all(getattr(use.user, "word", "") in _SOFTMAX for use in node.results[0].uses)
