"""Older forms of picking elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.declare import lower
from graphport.ops.indexing import ScatterElements, Slice

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@Slice.lower("onnx", until=9)
def slice_1(
    b: Builder, data: Value, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Value:
    """Positions were attributes, and there were no steps."""
    operands = [b.constant(np.array(numbers, np.int64)) for numbers in (starts, ends)]
    return b(Slice, data, *operands, None if axes is None else b.constant(np.array(axes, np.int64)))


@lower("onnx", "Scatter")
def scatter(b: Builder, data: Value, indices: Value, updates: Value, *, axis: int = 0) -> Value:
    """The older name of `ScatterElements`, which newer opsets no longer know."""
    return b(ScatterElements, data, indices, updates, axis=axis)
