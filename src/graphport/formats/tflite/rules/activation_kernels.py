"""Activations of integers with the rounding of LiteRT's reference kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules import fixed_point
from graphport.formats.tflite.rules.binding import RELU, RELU6, RELU_N1_TO_1
from graphport.formats.tflite.rules.fixed_point import shifted, short, times, towards_zero, twice, upper
from graphport.formats.tflite.rules.integer_kernels import BYTES, KernelOperands, integer_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.tflite.rules.fixed_point import Numbers

_INTEGER_BITS = 4
"""Integer bits of the fixed-point argument of the logistic function and the hyperbolic tangent."""
_DIFFERENCE, _SUM = 5, 12
"""Integer bits of the fixed-point exponents of a softmax, and of the sum of its exponentials."""
_BYTE = frozenset((DType.INT8,))


def _radius(whole: int, exponent: int) -> int:
    """Return the magnitude of x beyond which x * 2**exponent exceeds a fixed-point number with `whole` integer bits."""
    return int(np.floor(((1 << whole) - 1) * 2.0 ** (31 - whole) / 2.0**exponent))


def _curve(given: KernelOperands, function: Callable[[Numbers, int], Numbers], bits: int, middle: int) -> Numbers:
    """Apply a fixed-point function to operand 0; the minimum or maximum result where the argument overflows."""
    x, real = given.centred(0), float(given.scale(0)) * 2.0 ** (31 - _INTEGER_BITS)
    radius = _radius(_INTEGER_BITS, int(fixed_point.factors(real)[1]))
    limits = np.iinfo(given.result[0].numpy)
    found = shifted(function(twice(np.clip(x, -radius, radius), real), _INTEGER_BITS), bits) + middle
    found = np.where(x <= -radius, limits.min, np.where(x >= radius, limits.max, found))
    return np.clip(found, limits.min, limits.max).astype(given.result[0].numpy)


@integer_kernel("LOGISTIC", BYTES)
def logistic(given: KernelOperands) -> Numbers:
    """Logistic function; results between 0 and 1."""
    return _curve(given, fixed_point.logistic, 23, np.iinfo(given.result[0].numpy).min)


@integer_kernel("TANH", BYTES)
def tanh(given: KernelOperands) -> Numbers:
    """Hyperbolic tangent."""
    limits = np.iinfo(given.result[0].numpy)
    return _curve(given, fixed_point.tanh, 24, (limits.min + limits.max + 1) // 2)


@integer_kernel("SOFTMAX", BYTES)
def softmax(given: KernelOperands) -> Numbers:
    """Softmax of `beta * x` along the last axis."""
    x = given.stored(0)
    real = min(
        float(np.float32(given.option("beta", 0.0))) * float(given.scale(0)) * 2.0 ** (31 - _DIFFERENCE), 2.0**31 - 1
    )
    below = x - x.max(axis=-1, keepdims=True)
    is_seen = below >= -_radius(_DIFFERENCE, int(fixed_point.factors(real)[1]))
    powers = fixed_point.exponential(np.where(is_seen, twice(np.where(is_seen, below, 0), real), 0), _DIFFERENCE)
    total = np.where(is_seen, shifted(powers, _SUM), 0).sum(axis=-1, keepdims=True)
    free = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
    inverse = fixed_point.reciprocal((total << free) - (1 << 31))
    limits = np.iinfo(given.result[0].numpy)
    found = shifted(times(powers, inverse), _SUM - free + 31 - 8) + limits.min
    return np.clip(np.where(is_seen, found, limits.min), limits.min, limits.max).astype(given.result[0].numpy)


@integer_kernel("HARD_SWISH", BYTES)
def hard_swish(given: KernelOperands) -> Numbers:
    """Hard swish: x * clip(x / 6 + 1/2, 0, 1), in 16 bits."""
    fine = np.float32(1 / 128) * given.scale(0)
    outer, inner = (fixed_point.factors(float(fine / step)) for step in (given.step, np.float32(3 / 32768)))
    x = given.centred(0) << 7
    line, exponent = x, int(inner[1])
    if exponent > 0:
        line = _within(line << (exponent - 1))
    line = upper(line * short(inner[0]), 15)
    if exponent > 0:
        line = _within(line << 1)
    elif exponent < 0:
        line = shifted(line, -exponent)
    half = towards_zero(((line + (1 << 15)) >> 1) * upper(x * short(outer[0]), 15), 15)
    return given.clamped(shifted(half, max(0, -int(outer[1]))))


def _within(x: Numbers) -> Numbers:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def _with_slope(given: KernelOperands, below: float | Numbers) -> Numbers:
    """Rescale operand 0 to the result's scale; multiply negative elements by the factor `below` instead."""
    x, real = given.centred(0), float(given.scale(0)) / float(given.step)
    return np.where(x >= 0, twice(x, real), twice(x, below))


@integer_kernel("LEAKY_RELU")
def leaky_relu(given: KernelOperands) -> Numbers:
    """Leaky ReLU: `alpha * x` for negative elements."""
    alpha = np.float32(given.option("alpha", 0.0))
    return given.clamped(_with_slope(given, float(given.scale(0) * alpha / given.step)))


@integer_kernel("PRELU", numbers=(0, 1))
def prelu(given: KernelOperands) -> Numbers:
    """PReLU: a slope per element for negative elements."""
    x, real = given.centred(0), float(given.scale(0)) / float(given.step)
    steep = float(given.scale(0)) * float(given.scale(1)) / float(given.step)
    return given.clamped(np.where(x >= 0, twice(x, real), twice(x * given.centred(1), steep)))


def _register_clip(op_type: str, activation: int) -> None:
    @integer_kernel(op_type)
    def rule(given: KernelOperands) -> Numbers:
        return given.clamped(twice(given.centred(0), float(given.scale(0) / given.step)), activation)

    del rule


_register_clip("RELU", RELU)
_register_clip("RELU6", RELU6)
_register_clip("RELU_N1_TO_1", RELU_N1_TO_1)
