"""Softmax of int16 as LiteRT's kernels compute it: tables of the exponential and of the reciprocal, and shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.dialects.operands import cast, scalar, vector
from graphport.ops.dialects.tflite.tables import interpolation, scaled
from graphport.ops.pages.arithmetic import Add, Div, Max, Min, Mul, Sub
from graphport.ops.pages.comparison import GreaterOrEqual
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.reduction import ReduceMax, ReduceSum
from graphport.ops.pages.reshape import Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.dialects.tflite.binding import Operator
    from graphport.ops.dialects.tflite.tables import Numbers

_MOST = 32767
_STEP = np.float32(2 / 65535)
"""A step of what both tables give."""
_REACH = 10.0
"""Where the exponential of what is below zero ends."""


def _exponentials(scale: float, beta: float) -> Numbers:
    """The exponential of differences of 0, -1, -2, …, -65535 steps."""
    table = interpolation(np.exp, np.float32(_REACH / 65535), _MOST, _STEP)
    differences = -np.arange(65536, dtype=np.int64)
    factor = float(np.float32(scale)) * float(np.float32(beta)) / (_REACH / 65535)
    places = np.clip(scaled(differences, factor) + _MOST, -_MOST - 1, _MOST)
    return table[places + _MOST + 1].astype(np.int32)


def _reciprocals() -> Numbers:
    """1 / (1 + x) for x from 0 to 1 in 65536 steps."""
    return interpolation(lambda x: 1 / (1 + x), np.float32(1 / 65535), -_MOST - 1, _STEP).astype(np.int32)


def softmax(op: Operator) -> Value | None:
    """Softmax of symmetric int16 along the last axis; `None` of anything else."""
    told, wanted, beta = op.quantization(0), op.result, float(op.option("beta", 0.0))
    if told is None or wanted is None or (told[0], wanted[0]) != (DType.INT16, DType.INT16) or told[1] >= 0:
        return None
    b, x = op.b, cast(op.b, op.raw(0), DType.INT32)
    op.is_raw = True
    last = vector(b, [-1])
    below = b(Sub, b(ReduceMax, x, last), x)
    powers = b(Gather, b.constant(_exponentials(told[2][0], beta)), below)
    total = b(ReduceSum, powers, last)
    bits = _bits(b, total)
    # The sum as 1.x in steps of 1 / 65536.
    raised = b(Mul, total, b(Gather, b.constant(2 ** (31 - np.arange(32, dtype=np.int64)).astype(np.int32)), bits))
    rounded = b(Div, b(Add, b(Div, raised, _int(b, 1 << 13)), _int(b, 1)), _int(b, 2))
    place = b(Min, b(Max, b(Sub, rounded, _int(b, 1 << 16)), _int(b, 0)), _int(b, 65535))
    reciprocal = b(Gather, b.constant(_reciprocals()), place)
    unit = b(Gather, b.constant(2 ** np.maximum(np.arange(32) - 1, 0).astype(np.int32)), bits)
    halved = b(Div, unit, _int(b, 2))
    result = b(Div, b(Add, b(Mul, powers, reciprocal), halved), unit)
    return cast(b, b(Min, result, _int(b, _MOST)), DType.INT16)


def _int(b: Builder, number: int) -> Value:
    return scalar(b, number, DType.INT32)


def _bits(b: Builder, x: Value) -> Value:
    """How many bits positive numbers have."""
    powers = b.constant((2 ** np.arange(31, dtype=np.int64)).astype(np.int32))
    wide = b(Unsqueeze, x, vector(b, [-1]))
    reached = cast(b, b(GreaterOrEqual, wide, powers), DType.INT32)
    return b(ReduceSum, reached, vector(b, [-1]), keepdims=0)
