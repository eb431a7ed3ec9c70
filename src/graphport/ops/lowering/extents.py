"""Construction of shapes, indices and slices from dims that may be dynamic, in canonical operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Concat, Expand, Shape
from graphport.ops.lowering.operands import as_scalar, index, scalar, transposed, vector

if TYPE_CHECKING:
    from graphport.core.dtypes import DType
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def extent(b: Builder, x: Value, axis: int) -> Value:
    """Return the length of one axis: int64 [1]."""
    return b(Shape, x, start=axis, end=axis + 1) if axis != -1 else b(Shape, x, start=axis)


def joined(b: Builder, *parts: Value | int) -> Value:
    """Concatenate lengths [1] and integers to a shape."""
    return b(Concat, *(vector(b, [part]) if isinstance(part, int) else part for part in parts), axis=0)


def counted(b: Builder, length: Value) -> Value:
    """Return the integers 0, 1, …, length - 1."""
    return b(Range, index(b, 0), as_scalar(b, length), index(b, 1))


def gather_index(b: Builder, x: Value, place: int, axis: int = -1) -> Value:
    """Gather one index along an axis; the axis is removed."""
    return b(Gather, x, place, axis=axis)


def cut(b: Builder, x: Value, start: int, stop: int, axis: int, step: int = 1) -> Value:
    """Slice `start` to `stop` along an axis with a step."""
    steps = [] if step == 1 else [vector(b, [step])]
    return b(Slice, x, *(vector(b, [n]) for n in (start, stop, axis)), *steps)


def fill(b: Builder, number: float, dtype: DType, *parts: Value | int) -> Value:
    """Create a tensor filled with one number."""
    return b(Expand, scalar(b, number, dtype), joined(b, *parts))


def mixed(b: Builder, x: Value, axis: int, matrix: Value) -> Value:
    """Multiply along one axis of `x` by a matrix [in, out]."""
    order = [*(other for other in range(len(b.dims(x))) if other != axis), axis]
    return transposed(b, b(MatMul, transposed(b, x, order), matrix), np.argsort(order).tolist())
