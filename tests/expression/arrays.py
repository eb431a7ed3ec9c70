"""Short spellings of arrays."""

from __future__ import annotations

import numpy as np


def f32(values):
    return np.array(values, np.float32)


def f64(values):
    return np.array(values, np.float64)


def i32(values):
    return np.array(values, np.int32)
