"""Places on the way to ncnn: rows that are 1 in one place and 0 elsewhere.

A choice by a place is a product with such a row, and exact for finite numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.ncnn.integers import MOST
from graphport.ops.dialects.operands import vector
from graphport.ops.pages.arithmetic import Cast
from graphport.ops.pages.comparison import Equal, Or
from graphport.ops.pages.reshape import Unsqueeze

MOST_ENTRIES = 1 << 22
"""Of rows that are 1 in one place."""


def affordable(count: int) -> None:
    """Refuse what would take too much memory."""
    if count > MOST_ENTRIES:
        message = f"a choice among rows of {count} entries in all would be too large"
        raise UnsupportedError(message)


def along(b: Builder, numbers: Any, axis: int, rank: int, dtype: DType) -> Value:
    """A constant of numbers along one axis."""
    shape = [1] * rank
    shape[axis] = -1
    return b.constant(np.asarray(numbers).reshape(shape).astype(dtype.numpy), dtype)


def places_of(b: Builder, numbers: Value, most: int) -> Value:
    """Numbers without a fraction as places."""
    y = b(Cast, numbers, to=DType.INT64)
    y.notes[MOST] = most
    return y


def rows_of(b: Builder, places: Value, n: int) -> Value:
    """For each place among `n`, counted from the end where it is below 0, a row that is 1 there."""
    rank = len(b.dims(places))
    wide = b(Unsqueeze, b(Cast, places, to=DType.FLOAT32), vector(b, [rank]))
    found = b(Equal, wide, along(b, np.arange(n), rank, rank + 1, DType.FLOAT32))
    found = b(Or, found, b(Equal, wide, along(b, np.arange(-n, 0), rank, rank + 1, DType.FLOAT32)))
    return b(Cast, found, to=DType.FLOAT32)
