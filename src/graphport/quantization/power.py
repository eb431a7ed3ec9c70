"""Sums of squares that do not overflow."""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


def power(x: Array) -> float:
    """The sum of the squares of all numbers of `x`, of any shape.

    It is added up in the type of `x`, which is quick, and in float64 where that is too narrow: masks of attention are
    as low as float32 goes.
    """
    flat = x.reshape(-1)
    with np.errstate(over="ignore"):
        total = float(np.dot(flat, flat))
    return total if isfinite(total) else float(np.square(flat, dtype=np.float64).sum())
