"""Shapes as ONNX Runtime's own domain changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.onnx.rules.com_microsoft.binding import import_rule, only
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Cast
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reshape import Reshape, Transpose, Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("ExpandDims")
def expand_dims(b: Builder, x: Value, axis: Value) -> Value:
    """Insert an axis."""
    return b(Unsqueeze, x, b(Cast, axis, to=DType.INT64))


@import_rule("Range")
def range_of_numbers(b: Builder, start: Value, limit: Value, delta: Value | None = None) -> Value:
    """Numbers from `start` to `limit`, exclusive; each operand has one element of any rank."""
    ends = [_scalar(b, each) for each in (start, limit)]
    return b(Range, *ends, b.like(start, 1) if delta is None else _scalar(b, delta))


def _scalar(b: Builder, x: Value) -> Value:
    return x if not b.dims(x) else b(Reshape, x, b.constant(np.empty(0, np.int64)))


@import_rule("UnfoldTensor")
def unfold_tensor(b: Builder, x: Value, *, dim: int = -1, size: int, step: int = 1) -> Value:
    """Windows of `size` elements along `dim`, `step` apart, as a new last axis."""
    shape = b.dims(x, at_least=1)
    if not -len(shape) <= dim < len(shape):
        message = f"dim {dim} is outside of a tensor of rank {len(shape)}"
        raise ShapeError(message)
    axis = dim % len(shape)
    length = shape[axis]
    if not isinstance(length, int):
        message = f"supported only with a known size of axis {axis}"
        raise UnsupportedError(message)
    only("a window that fits", holds=0 < size <= length and step > 0)
    reserve((length - size) // step + 1, size, what="window indices")
    starts = np.arange(0, length - size + 1, step)
    taken = b(Gather, x, b.constant(starts[:, None] + np.arange(size)), axis=axis)
    axes = [n for n in range(len(shape) + 1) if n != axis + 1]
    return b(Transpose, taken, perm=(*axes, axis + 1))
