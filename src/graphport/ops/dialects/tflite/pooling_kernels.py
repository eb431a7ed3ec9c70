"""Means of windows of integers, as LiteRT's reference kernels round them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.dialects.tflite.fixed_point import quotient
from graphport.ops.dialects.tflite.integer_kernels import Given, integers
from graphport.ops.dialects.tflite.windows import patches

if TYPE_CHECKING:
    from graphport.ops.dialects.tflite.fixed_point import Numbers


@integers("AVERAGE_POOL_2D")
def average_pool_2d(given: Given) -> Numbers:
    """The mean of the stored numbers inside, halves away from zero: of these, not of what they stand for."""
    kernel = int(given.option("filter_height", 1)), int(given.option("filter_width", 1))
    x = given.stored(0)
    total = patches(given, x, kernel).sum(axis=(4, 5))
    count = patches(given, np.ones_like(x), kernel).sum(axis=(4, 5))
    return given.clamped(quotient(total, count) - given.zero)
