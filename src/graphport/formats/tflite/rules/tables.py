"""What LiteRT's kernels look up, or compute in fixed point: tables of the results for all stored numbers.

The roundings of those kernels are many steps off where a function bends, and one step off elsewhere, which the
operators behind magnify; a table of all results says them exactly.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.fixed_point import twice
from graphport.ops.lowering.operands import cast, dtype_of, scalar, vector
from graphport.ops.pages.arithmetic import Add, Div, Floor, Max, Min, Mul, Sub
from graphport.ops.pages.comparison import GreaterOrEqual
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.reduction import ReduceMax, ReduceSum
from graphport.ops.pages.reshape import Unsqueeze

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.tflite.rules.binding import Operator
    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


Function: TypeAlias = "Callable[[Numbers], Numbers]"
_STEPS = 512
_SIGNED = frozenset((DType.INT8, DType.INT16))
_MOST_HALVINGS = 3
"""Bits of a shift behind which the first rounding is hardly seen: it differs in one of 2**(bits + 1) numbers."""
_NUDGE = 2.0**-20
_LARGEST = 22
"""Bits in front of the point of the largest factor."""
_BYTES = frozenset((DType.INT8, DType.UINT8))
_REQUANTIZED = _BYTES | {DType.INT16, DType.INT32}
_RAISED = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46),
    *(49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)
"""Entries of the kernels' table of the logistic function that are one above the rounded value."""


def looked_up(op: Operator, table: Numbers) -> Value:
    """What a table has for each stored number of operand 0, from the least one on: it is stored as it is."""
    b, x = op.b, op.raw(0)
    least = int(np.iinfo(dtype_of(x).numpy).min)
    index = cast(b, x, DType.INT32)
    if least:
        index = b(Add, index, scalar(b, -least, DType.INT32))
    op.is_raw = True
    return b(Gather, b.constant(table), index)


def _short(op: Operator) -> tuple[float, float] | None:
    """The scales of an operator that takes and gives symmetric int16, for which kernels have tables."""
    found: list[float] = []
    for quantization in (op.quantization(0), op.result):
        if quantization is None or quantization[0] is not DType.INT16 or quantization[1] >= 0 or any(quantization[3]):
            return None
        found.append(quantization[2][0])
    return found[0], found[1]


def interpolated(op: Operator, function: Function, floor: float | None = None) -> Value | None:
    """A function of int16 as kernels interpolate it; `None` of other types.

    Args:
        op: the operator.
        function: computes in float32.
        floor: what stands for the function at zero and below, in steps of the result.
    """
    scales = _short(op)
    if scales is None:
        return None
    scale, step = np.float32(scales[0]), np.float32(scales[1])

    def computed(x: Numbers) -> Numbers:
        if floor is None:
            return function(x).astype(np.float32)
        return np.where(x > 0, function(np.where(x > 0, x, 1)), np.float32(floor) * step).astype(np.float32)

    return looked_up(op, interpolation(computed, scale, 0, step))


def interpolation(function: Function, scale: np.float32, zero: int, step: np.float32) -> Numbers:
    """513 samples over all of int16, each moved by half of what the chord is off in its middle, and lines between.

    Args:
        function: computes in float32.
        scale: a step of what it is given.
        zero: which integer stands for zero there.
        step: a step of what it gives, where 0 stands for zero.
    """
    limits = np.iinfo(np.int16)
    low, high = scale * np.float32(limits.min - zero), scale * np.float32(limits.max - zero)
    width = np.float32((high - low) / np.float32(_STEPS))
    factor = np.float32(65536) / (step * np.float32(limits.max) - step * np.float32(limits.min))
    count = np.arange(_STEPS, dtype=np.float32)
    left = low + count * width
    sample = _away(function(left) * factor)
    chord = _away((function(low + (count + np.float32(1)) * width) * factor + sample) / np.float32(2))
    error = chord - _away(function(left + width / np.float32(2)) * factor)
    last = _away(function(np.array([high])) * factor)
    entries = np.concatenate([sample - _away(error / np.float32(2)), last])
    entries = np.clip(entries, limits.min, limits.max).astype(np.int32)
    x = np.arange(limits.min, limits.max + 1, dtype=np.int32)
    place, offset = 256 + (x >> 7), x & 127
    slope = np.diff(entries).astype(np.int16).astype(np.int32)
    return (entries[place] + ((slope[place] * offset + 64) >> 7)).astype(np.int16)


def _away(x: Numbers) -> Numbers:
    """Rounded, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= np.float32(0.5), whole + np.sign(x), whole)


def logistic(op: Operator) -> Value | None:
    """The logistic function of int16, as the reference kernel computes it; `None` of other types."""
    x = _in_table(op)
    if x is None:
        return None
    y = np.where(np.abs(x) >> 9 >= 255, 0x7FFF << 10, _interpolated(np.abs(x), 9)) + 512
    return looked_up(op, (np.where(x >= 0, y, (1 << 25) + 1023 - y) >> 10).astype(np.int16))


def tanh(op: Operator) -> Value | None:
    """The hyperbolic tangent of int16, as the reference kernel computes it; `None` of other types."""
    x = _in_table(op)
    if x is None:
        return None
    y = np.where(np.abs(x) >> 8 >= 255, 0xFFFF << 8, _interpolated(np.abs(x), 8)) - (1 << 23)
    return looked_up(op, (np.where(x >= 0, y + 128, 127 - y) >> 8).astype(np.int16))


def _interpolated(x: Numbers, bits: int) -> Numbers:
    """Between two entries of the table of the logistic function, which has one for each 24th."""
    table = np.round(65536 / (1 + np.exp(-np.arange(256) / 24))).astype(np.int64)
    table[list(_RAISED)] += 1
    place, offset = np.minimum(x >> bits, 254), x & ((1 << bits) - 1)
    return (table[place] << bits) + offset * (table[place + 1] - table[place])


def _in_table(op: Operator) -> Numbers | None:
    """All of int16 in units of 1 / (3 * 4096), in which the table is read; `None` of other types and steps."""
    scales = _short(op)
    if scales is None or scales[1] != 2.0**-15:
        return None
    scale = scales[0]
    exponent = 12 + round(math.log2(scale))
    if exponent in (0, 1) and scale == 2.0 ** (exponent - 12):
        factor, shift = 3 << exponent, 0
    else:
        real, shift = scale * 4096 * 3, 0
        while real <= 32767 / 2 and shift <= 30:
            real, shift = real * 2, shift + 1
        factor = int(real)
        # It is kept in 16 bits.
        factor = (factor + 32768) % 65536 - 32768
    x = np.arange(-32768, 32768, dtype=np.int64)
    return (x * factor + ((1 << shift) >> 1)) >> shift


def requantized(op: Operator) -> Value | None:
    """Integers that stand for what others of fewer bits stand for; `None` where plain rounding gives the same."""
    quantization, wanted = op.quantization(0), op.result
    if quantization is None or wanted is None or quantization[1] >= 0 or wanted[1] >= 0:
        return None
    if not (
        wanted[0] in _REQUANTIZED
        and (quantization[0] in _BYTES or (quantization[0] is DType.INT16 and wanted[0] is DType.INT32))
    ):
        return None
    limits, target = np.iinfo(quantization[0].numpy), np.iinfo(wanted[0].numpy)
    x = np.arange(limits.min, limits.max + 1, dtype=np.int64) - quantization[3][0]
    quotient = float(np.float32(quantization[2][0])) / float(np.float32(wanted[2][0]))
    exact = np.clip(scaled(x, quotient) + wanted[3][0], target.min, target.max)
    # As it is computed where integers are made real numbers and these integers again.
    with np.errstate(over="ignore", invalid="ignore"):
        plain = (
            np.round(x.astype(np.float32) * np.float32(quantization[2][0]) / np.float32(wanted[2][0])) + wanted[3][0]
        )
    if np.array_equal(exact, np.clip(plain, target.min, target.max)):
        return None
    return looked_up(op, exact.astype(wanted[0].numpy))


def leaky(op: Operator) -> Value | None:
    """A leaky rectifier of int16, both sides of which its kernel rounds twice; `None` of other types."""
    if _short(op) is None:
        return None
    alpha = float(np.float32(op.option("alpha", 0.0)))
    x, quotient = np.arange(-(1 << 15), 1 << 15, dtype=np.int64), quotient_of(op)
    y = np.where(x >= 0, scaled(x, quotient), scaled(x, quotient * alpha))
    return looked_up(op, np.clip(y, -(1 << 15), (1 << 15) - 1).astype(np.int16))


def halvings(real: float, count: int = 1) -> int:
    """By how many bits kernels shift what they multiplied by `real` over `count` and rounded, to round it again."""
    exponent = math.frexp(real)[1]
    # A mean divides the factor, which loses as many bits as the count has.
    return min(count.bit_length() - 1, 31 + exponent) - exponent


def rounded_twice(op: Operator, x: Value, real: float, shift: int) -> Value | None:
    """`x` times `real` in steps of the result as kernels round it, made real; `None` where rounding once does as well.

    Rounded are 2**-shift of a step, then steps, halves away from zero: there they are nudged, and the operator rounds.
    """
    step = op.result
    if step is None or not 1 <= shift <= _MOST_HALVINGS:
        return None
    b = op.b
    fine = b(Floor, b(Add, b(Mul, x, b.constant(np.float32(real * 2.0**shift))), b.like(x, 0.5)))
    return b(Mul, fine, b.constant(np.float32(step[2][0] * 2.0**-shift * (1 + _NUDGE))))


def integers_of(op: Operator) -> Value | None:
    """The stored numbers of operand 0 above their zero point, in float32; `None` of other types than signed."""
    quantization, wanted = op.quantization(0), op.result
    if quantization is None or wanted is None or quantization[1] >= 0 or wanted[1] >= 0 or op.is_raw:
        return None
    if quantization[0] not in _SIGNED or wanted[0] is not quantization[0]:
        return None
    b, x = op.b, cast(op.b, op.raw(0), DType.FLOAT32)
    return b(Sub, x, b.like(x, float(quantization[3][0]))) if quantization[3][0] else x


def quotient_of(op: Operator) -> float:
    """The scale of operand 0 over that of the result."""
    quantization, wanted = op.quantization(0), op.result
    if quantization is None or wanted is None:
        return 1.0
    return float(np.float32(quantization[2][0])) / float(np.float32(wanted[2][0]))


def scaled(x: Numbers, real: float) -> Numbers:
    """Integers of 64 bits times a real number, in fixed point: the product is rounded, and what is shifted, again."""
    if math.frexp(real)[1] > _LARGEST:
        # Beyond any limit.
        return np.sign(x) << 40
    return twice(x, real)


_MOST_SHORT = 32767
_STEP = np.float32(2 / 65535)
"""A step of what both tables give."""
_REACH = 10.0
"""Where the exponential of what is below zero ends."""


def _exponentials(scale: float, beta: float) -> Numbers:
    """The exponential of differences of 0, -1, -2, …, -65535 steps."""
    table = interpolation(np.exp, np.float32(_REACH / 65535), _MOST_SHORT, _STEP)
    differences = -np.arange(65536, dtype=np.int64)
    factor = float(np.float32(scale)) * float(np.float32(beta)) / (_REACH / 65535)
    indices = np.clip(scaled(differences, factor) + _MOST_SHORT, -_MOST_SHORT - 1, _MOST_SHORT)
    return table[indices + _MOST_SHORT + 1].astype(np.int32)


def _reciprocals() -> Numbers:
    """1 / (1 + x) for x from 0 to 1 in 65536 steps."""
    return interpolation(lambda x: 1 / (1 + x), np.float32(1 / 65535), -_MOST_SHORT - 1, _STEP).astype(np.int32)


def softmax(op: Operator) -> Value | None:
    """Softmax of symmetric int16 along the last axis; `None` of anything else."""
    quantization, wanted, beta = op.quantization(0), op.result, float(op.option("beta", 0.0))
    if (
        quantization is None
        or wanted is None
        or (quantization[0], wanted[0]) != (DType.INT16, DType.INT16)
        or quantization[1] >= 0
    ):
        return None
    b, x = op.b, cast(op.b, op.raw(0), DType.INT32)
    op.is_raw = True
    last = vector(b, [-1])
    below = b(Sub, b(ReduceMax, x, last), x)
    powers = b(Gather, b.constant(_exponentials(quantization[2][0], beta)), below)
    total = b(ReduceSum, powers, last)
    bits = _bits(b, total)
    # The sum as 1.x in steps of 1 / 65536.
    raised = b(Mul, total, b(Gather, b.constant(2 ** (31 - np.arange(32, dtype=np.int64)).astype(np.int32)), bits))
    rounded = b(Div, b(Add, b(Div, raised, _int(b, 1 << 13)), _int(b, 1)), _int(b, 2))
    place = b(Min, b(Max, b(Sub, rounded, _int(b, 1 << 16)), _int(b, 0)), _int(b, 65535))
    reciprocal = b(Gather, b.constant(_reciprocals()), place)
    unit = b(Gather, b.constant(2 ** np.maximum(np.arange(32) - 1, 0).astype(np.int32)), bits)
    half_unit = b(Div, unit, _int(b, 2))
    result = b(Div, b(Add, b(Mul, powers, reciprocal), half_unit), unit)
    return cast(b, b(Min, result, _int(b, _MOST_SHORT)), DType.INT16)


def _int(b: Builder, number: int) -> Value:
    return scalar(b, number, DType.INT32)


def _bits(b: Builder, x: Value) -> Value:
    """How many bits positive numbers have."""
    powers = b.constant((2 ** np.arange(31, dtype=np.int64)).astype(np.int32))
    wide = b(Unsqueeze, x, vector(b, [-1]))
    reached = cast(b, b(GreaterOrEqual, wide, powers), DType.INT32)
    return b(ReduceSum, reached, vector(b, [-1]), keepdims=0)
