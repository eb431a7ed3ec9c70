"""Means of integers, as LiteRT's reference kernels round them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.dialects.tflite.fixed_point import factors, shifted, times, twice
from graphport.ops.dialects.tflite.integer_kernels import BYTES, Given, integers

if TYPE_CHECKING:
    from graphport.ops.dialects.tflite.fixed_point import Numbers


def _total(given: Given, x: Numbers) -> tuple[Numbers, int]:
    """Sums over axes, and of how many."""
    axes = tuple(sorted({int(axis) % x.ndim for axis in given.stored(1).reshape(-1)}))
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    return x.sum(axis=axes, keepdims=bool(given.option("keep_dims", default=False))), count


@integers("MEAN")
def mean(given: Given) -> Numbers:
    """The mean over axes: the factor is divided by their count, not the sum."""
    total, count = _total(given, given.centred(0))
    factor, exponent = (int(each) for each in factors(float(given.scale(0)) / float(given.step)))
    bits = min(count.bit_length() - 1, 32, 31 + exponent)
    exponent -= bits
    return given.clamped(shifted(times(total << max(exponent, 0), (factor << bits) // count), max(-exponent, 0)))


@integers("SUM", BYTES)
def add_up(given: Given) -> Numbers:
    """The sum over axes; signed bytes are read as if they had no sign, and so is the result limited."""
    total, _ = _total(given, given.stored(0) % 256 - given.quantization(0)[3][0])
    steps = twice(total, float(given.scale(0)) / float(given.step)) + given.zero
    return np.clip(steps, 0, 255).astype(np.uint8).view(given.result[0].numpy)
