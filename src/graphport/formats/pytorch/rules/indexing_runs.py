"""Slices of run-time length, repeated elements and runs of equal elements in exported programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axis_of, scalar_of
from graphport.formats.pytorch.rules.functions.indexing_slices import sliced
from graphport.formats.pytorch.rules.overloads import aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Mod, Sub
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, Less, Not, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Compress, Gather, NonZero
from graphport.ops.definitions.reduction import CumSum, ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.operands import as_int64, transposed, vector


def _integer_or_tensor(bound: Any) -> Any:
    """Return a bound as a Python integer if it is static, else as a tensor of one element."""
    if isinstance(bound, Value) and bound.storage is None:
        return bound
    return int(scalar_of(bound))


@aten("aten.narrow")
def narrow(b: Builder, self: Value, dim: Any, start: Any, length: Any) -> Value:
    """narrow: `length` elements from `start`, which may be negative; both may be run-time values."""
    axis = axis_of(scalar_of(dim), len(b.dims(self)))
    first, count = _integer_or_tensor(start), _integer_or_tensor(length)
    if isinstance(first, int) and isinstance(count, int):
        # A negative start with an end of 0 would select nothing, so the end is omitted.
        return sliced(b, self, axis, first, None if first < 0 and first + count == 0 else first + count)
    one = vector(b, [1])
    begin = b(Reshape, as_int64(b, first), one) if isinstance(first, Value) else vector(b, [first])
    if isinstance(first, Value) or first < 0:
        extent = b(Shape, self, start=axis, end=axis + 1)
        begin = b(Where, b(Less, begin, [0]), b(Add, begin, extent), begin)
    by = b(Reshape, as_int64(b, count), one) if isinstance(count, Value) else vector(b, [count])
    return sliced(b, self, axis, begin, b(Add, begin, by))


@aten("aten.repeat_interleave.self_Tensor")
def repeat_interleave(b: Builder, self: Value, repeats: Value, dim: Any = None, output_size: Any = None) -> Value:
    """Repeat each element along an axis `repeats` times, which is a scalar or a vector."""
    x = b(Reshape, self, [-1]) if dim is None else self
    axis = axis_of(0 if dim is None else scalar_of(dim), len(b.dims(x)))
    times = b(Expand, b(Reshape, repeats, [-1]), b(Shape, x, start=axis, end=axis + 1))
    return b(Gather, x, repeated(b, times, output_size), axis=axis)


@aten("aten.repeat_interleave.Tensor")
def repeated(b: Builder, repeats: Value, output_size: Any = None) -> Value:
    """Return each index i `repeats[i]` times: output j has the index that counts the cumulative sums <= j."""
    del output_size
    times = as_int64(b, repeats)
    ends = b(CumSum, times, b.constant(0, DType.INT64))
    total = b(ReduceSum, times, keepdims=0)
    indices = b(Range, b.constant(0, DType.INT64), total, b.constant(1, DType.INT64))
    before = b(GreaterOrEqual, b(Unsqueeze, indices, [1]), b(Unsqueeze, ends, [0]))
    return b(ReduceSum, cast(b, before, DType.INT64), [1], keepdims=0)


@aten("aten.unique_consecutive")
def unique_consecutive(
    b: Builder, self: Value, return_inverse: Any = False, return_counts: Any = False, dim: Any = None
) -> Any:
    """Return the first element of each run of equal elements, of the flattened tensor or along an axis."""
    del return_inverse, return_counts
    rank = len(b.dims(self))
    axis = None if dim is None else axis_of(scalar_of(dim), rank)
    x = b(Reshape, self, [-1]) if axis is None else transposed(b, self, [axis, *(a for a in range(rank) if a != axis)])
    differ = b(Not, b(Equal, sliced(b, x, 0, 1, None), sliced(b, x, 0, 0, -1)))
    width = len(b.dims(x))
    if width > 1:
        flags = b(ReduceMax, cast(b, differ, DType.INT32), list(range(1, width)), keepdims=0)
        differ = cast(b, flags, DType.BOOL)
    count = b(Shape, x, start=0, end=1)
    # An empty tensor has no runs.
    begins = sliced(b, b(Concat, b.constant(np.array([True])), differ, axis=0), 0, 0, count)
    y = b(Compress, x, begins, axis=0)
    if axis:
        y = transposed(b, y, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    if b.count == 1:
        return y
    zero = b.constant(0, DType.INT64)
    inverse = b(Sub, b(CumSum, cast(b, begins, DType.INT64), zero), b.constant(1, DType.INT64))
    inverse = b(Reshape, inverse, b(Shape, self)) if axis is None else inverse
    firsts = b(Reshape, b(Transpose, b(NonZero, begins), perm=(1, 0)), [-1])
    ends = b(Concat, sliced(b, firsts, 0, 1, None), count, axis=0)
    return (y, inverse, b(Sub, ends, firsts))[: b.count]


@aten("aten.fill_diagonal")
def fill_diagonal(b: Builder, self: Value, fill_value: Any, wrap: Any = False) -> Value:
    """Fill the diagonal; with `wrap`, a tall matrix has another diagonal below each square block."""
    rank = len(b.dims(self))
    zero, one = b.constant(0, DType.INT64), b.constant(1, DType.INT64)

    def counted(axis: int) -> Value:
        extent = b(Reshape, b(Shape, self, start=axis, end=axis + 1), [])
        shape = [-1 if a == axis else 1 for a in range(rank)]
        return b(Reshape, b(Range, zero, extent, one), shape)

    indices = [counted(axis) for axis in range(rank)]
    if scalar_of(wrap) and rank == 2:
        period = b(Add, b(Reshape, b(Shape, self, start=1, end=2), []), one)
        indices[0] = b(Mod, indices[0], period)
    on = b(Equal, indices[0], indices[1])
    for place in indices[2:]:
        on = b(And, on, b(Equal, indices[0], place))
    return b(Where, on, b.like(self, scalar_of(fill_value)), self)
