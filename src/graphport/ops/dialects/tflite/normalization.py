"""Normalizations of TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.dialects.operands import vector
from graphport.ops.dialects.tflite.binding import Operator, first, last, word
from graphport.ops.pages.arithmetic import Div, Max
from graphport.ops.pages.normalization.norms import LRN
from graphport.ops.pages.reduction.reduce import ReduceL2

if TYPE_CHECKING:
    from graphport.ir.graph import Value

_LEAST_NORM = 1e-6


@word("L2_NORMALIZATION")
def l2_normalization(op: Operator) -> Value:
    """Vectors of length 1 along the last axis; lengths below 1e-6 count as that."""
    b, x = op.b, op[0]
    norm = b(ReduceL2, x, vector(b, [-1]))
    return b(Div, x, b(Max, norm, b.like(norm, _LEAST_NORM)))


@word("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(op: Operator) -> Value:
    """Elements divided by what is around them along the last axis."""
    b, size = op.b, 2 * int(op.option("radius")) + 1
    alpha, beta, bias = (float(op.option(name, 0.0)) for name in ("alpha", "beta", "bias"))
    return last(b, b(LRN, first(b, op[0]), alpha=alpha * size, beta=beta, bias=bias, size=size))
