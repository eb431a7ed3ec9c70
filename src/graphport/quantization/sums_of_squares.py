"""Sums of squares without overflow."""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


def power(x: Array) -> float:
    """Return the sum of squares of all elements of `x`, of any shape.

    It is computed in the type of `x`, which is fast, and in float64 on overflow: attention masks contain the lowest
    float.
    """
    flat = x.reshape(-1)
    with np.errstate(over="ignore"):
        total = float(np.dot(flat, flat))
    return total if isfinite(total) else float(np.square(flat, dtype=np.float64).sum())
