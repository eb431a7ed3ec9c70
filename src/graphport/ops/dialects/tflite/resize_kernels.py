"""Resizing of integers, as LiteRT's reference kernels round it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.dialects.tflite.fixed_point import quotient
from graphport.ops.dialects.tflite.integer_kernels import SIGNED, Given, integers
from graphport.ops.dialects.tflite.resize_short import UNIT, coordinates_of, neighbours

if TYPE_CHECKING:
    from graphport.ops.dialects.tflite.fixed_point import Numbers


@integers("RESIZE_BILINEAR", SIGNED)
def resize_bilinear(given: Given) -> Numbers:
    """Linear between the two nearest along height and width, halves away from zero, of the stored numbers."""
    x = given.stored(0)
    for axis, count in zip((1, 2), given.stored(1).reshape(-1).tolist(), strict=True):
        lower, upper, shares = neighbours(x.shape[axis], count, coordinates_of(given))
        share = shares.reshape(-1, *[1] * (3 - axis))
        x = np.take(x, lower, axis) * (UNIT - share) + np.take(x, upper, axis) * share
    return given.clamped(quotient(x, UNIT * UNIT) - given.zero)
