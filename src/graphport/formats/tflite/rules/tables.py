"""Lookup tables and fixed-point functions of LiteRT's int16 kernels: the results for all stored integers.

The kernels' roundings differ by many steps where a function bends, and by one step elsewhere, which later operators
amplify; a table of all results reproduces them exactly.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.fixed_point import twice
from graphport.ops.definitions.arithmetic import Add, Div, Floor, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import GreaterOrEqual
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.lowering.operands import cast, dtype_of, vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.tflite.rules.binding import Operator
    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


Function: TypeAlias = "Callable[[Numbers], Numbers]"
_STEPS = 512
_SIGNED = frozenset((DType.INT8, DType.INT16))
_MAX_SECOND_SHIFT_BITS = 3
"""Shift beyond which the first rounding hardly matters: it differs for one of 2**(bits + 1) integers."""
_NUDGE = 2.0**-20
_LARGEST = 22
"""Integer bits of the largest factor."""
_BYTES = frozenset((DType.INT8, DType.UINT8))
_REQUANTIZED = _BYTES | {DType.INT16, DType.INT32}
_RAISED = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46),
    *(49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)
"""Indices of the kernels' logistic table whose entries exceed the rounded value by one."""


def looked_up(op: Operator, table: Numbers) -> Value:
    """Replace each integer x of operand 0 by table[x - minimum of the type], the integer of the result."""
    b, x = op.b, op.raw(0)
    least = int(np.iinfo(dtype_of(x).numpy).min)
    index = cast(b, x, DType.INT32)
    if least:
        index = b(Add, index, -least)
    op.is_raw = True
    return b(Gather, b.constant(table), index)


def _short(op: Operator) -> tuple[float, float] | None:
    """Return the scales of operand 0 and result if both are per-tensor symmetric int16; `None` otherwise."""
    found: list[float] = []
    for quantization in (op.quantization(0), op.result):
        if quantization is None or quantization[0] is not DType.INT16 or quantization[1] >= 0 or any(quantization[3]):
            return None
        found.append(quantization[2][0])
    return found[0], found[1]


def interpolated(op: Operator, function: Function, floor: float | None = None) -> Value | None:
    """Apply a function to int16 by linear interpolation in a table, like the kernels; `None` for other types.

    Args:
        op: the operator.
        function: computes in float32.
        floor: replaces the function for arguments <= 0, in steps of the result.
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
    """Interpolate linearly between 513 samples over the int16 range, corrected by half of the error at the midpoint.

    Args:
        function: computes in float32.
        scale: scale of the argument.
        zero: zero point of the argument.
        step: scale of the result, whose zero point is 0.
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
    """Round half away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= np.float32(0.5), whole + np.sign(x), whole)


def logistic(op: Operator) -> Value | None:
    """Logistic function of int16 as the reference kernel computes it; `None` for other types."""
    x = _in_table(op)
    if x is None:
        return None
    y = np.where(np.abs(x) >> 9 >= 255, 0x7FFF << 10, _interpolated(np.abs(x), 9)) + 512
    return looked_up(op, (np.where(x >= 0, y, (1 << 25) + 1023 - y) >> 10).astype(np.int16))


def tanh(op: Operator) -> Value | None:
    """Hyperbolic tangent of int16 as the reference kernel computes it; `None` for other types."""
    x = _in_table(op)
    if x is None:
        return None
    y = np.where(np.abs(x) >> 8 >= 255, 0xFFFF << 8, _interpolated(np.abs(x), 8)) - (1 << 23)
    return looked_up(op, (np.where(x >= 0, y + 128, 127 - y) >> 8).astype(np.int16))


def _interpolated(x: Numbers, bits: int) -> Numbers:
    """Interpolate between two entries of the logistic table, which has a resolution of 1/24."""
    table = np.round(65536 / (1 + np.exp(-np.arange(256) / 24))).astype(np.int64)
    table[list(_RAISED)] += 1
    place, offset = np.minimum(x >> bits, 254), x & ((1 << bits) - 1)
    return (table[place] << bits) + offset * (table[place + 1] - table[place])


def _in_table(op: Operator) -> Numbers | None:
    """Return all int16 values in units of 1 / (3 * 4096), the table's resolution; `None` for other types and scales."""
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
        # Stored in 16 bits.
        factor = (factor + 32768) % 65536 - 32768
    x = np.arange(-32768, 32768, dtype=np.int64)
    return (x * factor + ((1 << shift) >> 1)) >> shift


def requantized(op: Operator) -> Value | None:
    """Requantize 8-bit or int16 integers by a lookup table; `None` if dequantizing and quantizing is equivalent."""
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
    # The result of dequantizing and quantizing.
    with np.errstate(over="ignore", invalid="ignore"):
        plain = (
            np.round(x.astype(np.float32) * np.float32(quantization[2][0]) / np.float32(wanted[2][0])) + wanted[3][0]
        )
    if np.array_equal(exact, np.clip(plain, target.min, target.max)):
        return None
    return looked_up(op, exact.astype(wanted[0].numpy))


def leaky(op: Operator) -> Value | None:
    """Leaky ReLU of int16, rounded twice on both sides as in the kernel; `None` for other types."""
    if _short(op) is None:
        return None
    alpha = float(np.float32(op.option("alpha", 0.0)))
    x, quotient = np.arange(-(1 << 15), 1 << 15, dtype=np.int64), quotient_of(op)
    y = np.where(x >= 0, scaled(x, quotient), scaled(x, quotient * alpha))
    return looked_up(op, np.clip(y, -(1 << 15), (1 << 15) - 1).astype(np.int16))


def halvings(real: float, count: int = 1) -> int:
    """Return the shift after which kernels round `x * real / count` a second time."""
    exponent = math.frexp(real)[1]
    # A mean divides the multiplier, which loses as many bits as the count has.
    return min(count.bit_length() - 1, 31 + exponent) - exponent


def rounded_twice(op: Operator, x: Value, real: float, shift: int) -> Value | None:
    """Compute `x * real` with the kernels' two roundings, as float; `None` if a single rounding gives equal results.

    The first rounding is to multiples of 2**-shift, the second to steps of the result, half away from zero: near ties
    are adjusted before the operator rounds.
    """
    step = op.result
    if step is None or not 1 <= shift <= _MAX_SECOND_SHIFT_BITS:
        return None
    b = op.b
    fine = b(Floor, b(Add, b(Mul, x, real * 2.0**shift), 0.5))
    return b(Mul, fine, step[2][0] * 2.0**-shift * (1 + _NUDGE))


def integers_of(op: Operator) -> Value | None:
    """Return the stored signed integers of operand 0 minus the zero point, as float32; `None` for other types."""
    quantization, wanted = op.quantization(0), op.result
    if quantization is None or wanted is None or quantization[1] >= 0 or wanted[1] >= 0 or op.is_raw:
        return None
    if quantization[0] not in _SIGNED or wanted[0] is not quantization[0]:
        return None
    b, x = op.b, cast(op.b, op.raw(0), DType.FLOAT32)
    return b(Sub, x, float(quantization[3][0])) if quantization[3][0] else x


def quotient_of(op: Operator) -> float:
    """Return the scale of operand 0 divided by the scale of the result."""
    quantization, wanted = op.quantization(0), op.result
    if quantization is None or wanted is None:
        return 1.0
    return float(np.float32(quantization[2][0])) / float(np.float32(wanted[2][0]))


def scaled(x: Numbers, real: float) -> Numbers:
    """Multiply integers by a float in fixed point, rounded before and after the shift; saturate large factors."""
    if math.frexp(real)[1] > _LARGEST:
        # Beyond any limit.
        return np.sign(x) << 40
    return twice(x, real)


_MAX_INT16 = 32767
_STEP = np.float32(2 / 65535)
"""Resolution of both tables."""
_EXP_RANGE = 10.0
"""Argument below which the exponential is 0."""


def _exponentials(scale: float, beta: float) -> Numbers:
    """Table of exp(-i * step) for i from 0 to 65535."""
    table = interpolation(np.exp, np.float32(_EXP_RANGE / 65535), _MAX_INT16, _STEP)
    differences = -np.arange(65536, dtype=np.int64)
    factor = float(np.float32(scale)) * float(np.float32(beta)) / (_EXP_RANGE / 65535)
    indices = np.clip(scaled(differences, factor) + _MAX_INT16, -_MAX_INT16 - 1, _MAX_INT16)
    return table[indices + _MAX_INT16 + 1].astype(np.int32)


def _reciprocals() -> Numbers:
    """Table of 1 / (1 + x) for x from 0 to 1 in 65536 steps."""
    return interpolation(lambda x: 1 / (1 + x), np.float32(1 / 65535), -_MAX_INT16 - 1, _STEP).astype(np.int32)


def softmax(op: Operator) -> Value | None:
    """Softmax of symmetric int16 along the last axis; `None` otherwise."""
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
    # The sum as 1.x in units of 1 / 65536.
    raised = b(Mul, total, b(Gather, b.constant(2 ** (31 - np.arange(32, dtype=np.int64)).astype(np.int32)), bits))
    rounded = b(Div, b(Add, b(Div, raised, 1 << 13), 1), 2)
    place = b(Min, b(Max, b(Sub, rounded, 1 << 16), 0), 65535)
    reciprocal = b(Gather, b.constant(_reciprocals()), place)
    unit = b(Gather, b.constant(2 ** np.maximum(np.arange(32) - 1, 0).astype(np.int32)), bits)
    half_unit = b(Div, unit, 2)
    result = b(Div, b(Add, b(Mul, powers, reciprocal), half_unit), unit)
    return cast(b, b(Min, result, _MAX_INT16), DType.INT16)


def _bits(b: Builder, x: Value) -> Value:
    """Return the bit length of positive integers."""
    powers = b.constant((2 ** np.arange(31, dtype=np.int64)).astype(np.int32))
    wide = b(Unsqueeze, x, [-1])
    reached = cast(b, b(GreaterOrEqual, wide, powers), DType.INT32)
    return b(ReduceSum, reached, [-1], keepdims=0)
