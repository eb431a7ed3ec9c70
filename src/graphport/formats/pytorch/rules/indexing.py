"""Slices, gathers and scatters in exported programs, and declarations of their views."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axis_of, scalar_of
from graphport.formats.pytorch.rules.functions.indexing_indices import column_of, scatter, scatter_reduce, slice_scatter
from graphport.formats.pytorch.rules.functions.indexing_slices import is_unbounded_end, sliced
from graphport.formats.pytorch.rules.functions.reduction_norms import norm
from graphport.formats.pytorch.rules.indexing_indices import strided_indices
from graphport.formats.pytorch.rules.overloads import RULES, aten, view
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mul
from graphport.ops.definitions.comparison import Equal, Greater, Less, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Gather, ScatterElements, ScatterND
from graphport.ops.definitions.reduction import ReduceMax
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.extents import extent
from graphport.ops.lowering.operands import dtype_of, ends_of, transposed, vector

view("aten.slice", "aten.narrow", kind="slice", op_type="aten.slice_scatter.default")
view("aten.select", kind="slice", op_type="aten.select_scatter.default")
view("aten.diagonal", kind="slice", op_type="aten.diagonal_scatter.default")
view("aten.as_strided", kind="slice", op_type="aten.as_strided_scatter.default")
view("aten.split", "aten.split_with_sizes", "aten.chunk", "aten.tensor_split", kind="cat")
view("aten.unbind", kind="stack")


# ── writing into a part ───────────────────────────────────────────────────────────────────────────────────────────────


def _placed(b: Builder, bound: Any, size: Value) -> Value:
    """Normalize a negative slice bound and clamp it to the axis."""
    found = b(Reshape, bound, [1]) if isinstance(bound, Value) else vector(b, [int(bound)])
    if not isinstance(bound, Value) and bound >= 0:
        return b(Min, found, size)
    zero = vector(b, [0])
    positive = b(Where, b(Less, found, zero), b(Add, found, size), found)
    return b(Max, b(Min, positive, size), zero)


def _is_constant_bound(bound: Any) -> bool:
    return not isinstance(bound, Value) or bound.storage is not None


@aten("aten.slice_scatter")
def slice_scatter_(
    b: Builder,
    self: Value,
    src: Value,
    dim: Any = 0,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    length: Any = None,
) -> Value:
    """Write `src` into a slice: concatenate it with the elements before and after; with a step, scatter it.

    `length` replaces `end` if the view is a `narrow`.
    """
    axis = axis_of(scalar_of(dim), len(b.dims(self)))
    own = cast(b, src, dtype_of(self))
    if isinstance(count := b.dims(self)[axis], int) and all(map(_is_constant_bound, (start, end, length))):
        if length is not None:
            start = int(scalar_of(start)) % max(count, 1)
            end = start + int(scalar_of(length))
        return slice_scatter(b, self, own, axis, start, end, step)
    size = extent(b, self, axis)
    is_last = length is None and is_unbounded_end(end)
    first = _placed(b, 0 if start is None else start, size)
    if scalar_of(step) != 1:
        return _stepped(b, self, own, axis, first, int(scalar_of(step)))
    behind = b(Add, first, extent(b, own, axis))
    parts = [sliced(b, self, axis, 0, first), own, sliced(b, self, axis, behind, None)]
    kept = parts[1:] if start in (None, 0) else parts
    return b(Concat, *(kept[:-1] if is_last else kept), axis=axis)


def _stepped(b: Builder, x: Value, src: Value, axis: int, first: Value, step: int) -> Value:
    rank = len(b.dims(x))
    indices = _counted(b, first, extent(b, src, axis), step)
    order = [axis, *(a for a in range(rank) if a != axis)]
    y = b(ScatterND, transposed(b, x, order), b(Unsqueeze, indices, [1]), transposed(b, src, order))
    return transposed(b, y, [int(place) for place in np.argsort(order)])


def _counted(b: Builder, first: Value, count: Value, step: int) -> Value:
    """Return the indices first + step * i for i in range(count)."""
    scalar = vector(b, [])
    indices = b(Range, b.constant(0, DType.INT64), b(Reshape, count, scalar), b.constant(1, DType.INT64))
    return b(Add, b(Mul, indices, b.constant(step, DType.INT64)), first)


@aten("aten.select_scatter")
def select_scatter(b: Builder, self: Value, src: Value, dim: Any, index: Any) -> Value:
    """Write `src` at one index of an axis."""
    axis = axis_of(scalar_of(dim), len(b.dims(self)))
    wide = b(Unsqueeze, src, [axis])
    if _is_constant_bound(index) and not isinstance(size := b.dims(self)[axis], Symbolic):
        place = int(scalar_of(index)) % size
        return slice_scatter_(b, self, wide, axis, place, place + 1)
    place = index if isinstance(index, Value) else int(index)
    end = b(Add, _placed(b, place, extent(b, self, axis)), [1])
    return slice_scatter_(b, self, wide, axis, place, end)


@aten("aten.diagonal_scatter")
def diagonal_scatter(b: Builder, self: Value, src: Value, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Value:
    rank = len(b.dims(self))
    i, j, k = axis_of(scalar_of(dim1), rank), axis_of(scalar_of(dim2), rank), int(scalar_of(offset))
    order = [i, j, *(a for a in range(rank) if a not in (i, j))]
    permuted = transposed(b, cast(b, src, dtype_of(self)), [rank - 2, *range(rank - 2)])
    count = b(Shape, permuted, start=0, end=1)
    rows, columns = (_counted(b, vector(b, [max(n, 0)]), count, 1) for n in (-k, k))
    last = vector(b, [1])
    indices = b(Concat, b(Unsqueeze, rows, last), b(Unsqueeze, columns, last), axis=1)
    y = b(ScatterND, transposed(b, self, order), indices, permuted)
    return transposed(b, y, [int(place) for place in np.argsort(order)])


@aten("aten.as_strided_scatter")
def as_strided_scatter(b: Builder, self: Value, src: Value, size: Any, stride: Any, storage_offset: Any = 0) -> Value:
    indices = strided_indices(size, stride, storage_offset)
    if np.unique(indices).size != indices.size:
        message = "as_strided_scatter with overlapping elements"
        raise UnsupportedError(message)
    flat = b(Reshape, self, [-1])
    y = b(ScatterND, flat, b.constant(indices[..., None]), src)
    return b(Reshape, y, b(Shape, self))


# ── scattering ────────────────────────────────────────────────────────────────────────────────────────────────────────

_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0}


@aten("aten.scatter_reduce")
def scatter_reduce_(
    b: Builder, self: Value, dim: Any, index: Value, src: Value, reduce: str, include_self: Any = True
) -> Value:
    """scatter_reduce; without `include_self`, the targets are first set to the neutral element."""
    axis = axis_of(scalar_of(dim), len(b.dims(self)))
    if scalar_of(include_self) and reduce != "mean":
        return scatter_reduce(b, self, axis, index, src, reduce)
    if reduce == "mean" and not dtype_of(self).is_floating:
        message = "scatter_reduce with reduce=mean of integers"
        raise UnsupportedError(message)
    neutral = _NEUTRAL[reduce] if reduce in _NEUTRAL else ends_of(dtype_of(self))[0 if reduce == "amax" else 1]
    base = self if scalar_of(include_self) else scatter(b, self, axis, index, None, None, neutral)
    if reduce != "mean":
        return scatter_reduce(b, base, axis, index, src, reduce)
    total = scatter(b, base, axis, index, src, "add")
    start = b(Expand, b.like(self, 1 if scalar_of(include_self) else 0), b(Shape, self))
    count = scatter(b, start, axis, index, None, "add", 1.0)
    return b(Div, total, b(Max, count, 1))


RULES.lower("""
aten.scatter.value_reduce, aten.scatter.reduce(self, dim, index, src=None, value=None, reduce=None)
    -> torch.scatter(self, dim, index, src, reduce, value)
""")


@aten("aten.index_reduce")
def index_reduce(
    b: Builder, self: Value, dim: Any, index: Value, source: Value, reduce: str, include_self: Any = True
) -> Value:
    """Reduce the slices of `source` into the slices of `self` at `index` along an axis."""
    axis = axis_of(scalar_of(dim), len(b.dims(self)))
    return scatter_reduce_(b, self, axis, column_of(b, index, axis, source), source, reduce, include_self)


@aten("aten.index_fill")
def index_fill(b: Builder, self: Value, dim: Any, index: Value, value: Any) -> Value:
    rank = len(b.dims(self))
    axis = axis_of(scalar_of(dim), rank)
    column = b(Reshape, index, [-1 if a == axis else 1 for a in range(rank)])
    parts = [b(Shape, column if a == axis else self, start=a, end=a + 1) for a in range(rank)]
    shape = b(Concat, *parts, axis=0) if rank > 1 else parts[0]
    filler = cast(b, value, dtype_of(self)) if isinstance(value, Value) else b.like(self, scalar_of(value))
    return b(ScatterElements, self, b(Expand, column, shape), b(Expand, filler, shape), axis=axis)


@aten("aten.put")
def put(b: Builder, self: Value, index: Value, source: Value, accumulate: Any = False) -> Value:
    flat = b(Reshape, self, [-1])
    indices = b(Reshape, index, [-1, 1])
    how = "add" if scalar_of(accumulate) else None
    y = b(ScatterND, flat, indices, b(Reshape, source, [-1]), reduction=how)
    return b(Reshape, y, b(Shape, self))


@aten("aten.one_hot")
def one_hot(b: Builder, self: Value, num_classes: Any = -1) -> Value:
    """one_hot with `num_classes` classes, by default the maximum plus 1."""
    if not isinstance(num_classes, Value) and num_classes < 0:
        count: Any = b(Add, b(ReduceMax, self, keepdims=0), b.constant(1, DType.INT64))
    else:
        count = num_classes if isinstance(num_classes, Value) else b.constant(int(num_classes), DType.INT64)
    classes = b(Range, b.constant(0, DType.INT64), count, b.constant(1, DType.INT64))
    return cast(b, b(Equal, b(Unsqueeze, self, [-1]), classes), DType.INT64)


@aten("aten.embedding_renorm")
def embedding_renorm(b: Builder, self: Value, indices: Value, max_norm: Any, norm_type: Any) -> Value:
    """Scale the rows of a table at `indices` whose norm exceeds `max_norm` to that norm."""
    most = float(scalar_of(max_norm))
    positions = b(Reshape, indices, [-1])
    rows = b(Gather, self, positions)
    size = norm(b, rows, scalar_of(norm_type), -1, True)
    shorter = b(Mul, rows, b(Div, b.like(size, most), b(Add, size, 1e-7)))
    kept = b(Where, b(Greater, size, b.like(size, most)), shorter, rows)
    return b(ScatterND, self, b(Unsqueeze, positions, [1]), kept)
