"""Advanced indexing by index tensors and masks in exported programs: read and write."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import bounded, integers, scalar_of
from graphport.formats.pytorch.rules.functions.indexing_embedding_bag import embedding_bag
from graphport.formats.pytorch.rules.overloads import aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.comparison import Where
from graphport.ops.definitions.indexing import Compress, Gather, GatherND, NonZero, ScatterND
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Split, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, transposed, vector
from graphport.ops.shapes import broadcast

_MASKS = (DType.BOOL, DType.UINT8)


def _expanded(b: Builder, indices: Any) -> tuple[list[int], list[Value]]:
    """Return the indexed axes, and an index tensor for each; a mask is replaced by the indices of its true elements."""
    axes: list[int] = []
    chosen: list[Value] = []
    axis = 0
    for item in indices if is_sequence(indices) else (indices,):
        if item is None:
            axis += 1
            continue
        found = item if isinstance(item, Value) else b.constant(np.array(item, np.int64))
        rows = _rows(b, found) if dtype_of(found) in _MASKS else [found]
        axes += range(axis, axis + len(rows))
        chosen += rows
        axis += len(rows)
    return axes, chosen


def _rows(b: Builder, mask: Value) -> list[Value]:
    rank = len(b.dims(mask))
    indices = b(NonZero, mask)
    if rank == 1:
        return [b(Squeeze, indices, [0])]
    rows = b.results(Split, rank, indices, [1] * rank, axis=0)
    return [b(Squeeze, row, [0]) for row in rows]


def _broadcast_indices(b: Builder, chosen: Sequence[Value]) -> list[Value]:
    """Broadcast index tensors to one shape by adding zeros of the other tensors, which works for open dims."""
    shapes = [b.dims(item) for item in chosen]
    if all(shape == shapes[0] for shape in shapes):
        return list(chosen)
    found: list[Value] = []
    for item in chosen:
        wide = item
        for other in chosen:
            if other is not item:
                wide = b(Add, wide, b(Mul, other, b.constant(0, DType.INT64)))
        found.append(wide)
    return found


def _joined(b: Builder, chosen: Sequence[Value]) -> Value:
    last = vector(b, [-1])
    wide = _broadcast_indices(b, [cast(b, item, DType.INT64) for item in chosen])
    return (
        b(Concat, *(b(Unsqueeze, item, last) for item in wide), axis=-1)
        if len(wide) > 1
        else b(Unsqueeze, wide[0], last)
    )


def _stand_together(axes: Sequence[int]) -> bool:
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))


@aten("aten.index", "aten._unsafe_index")
def index(b: Builder, self: Value, indices: Any) -> Value:
    """Advanced indexing: the axes of adjacent indices keep their position, those of separated indices go first."""
    items = list(indices) if is_sequence(indices) else [indices]
    given = [(axis, item) for axis, item in enumerate(items) if item is not None]
    if len(given) == 1 and isinstance(given[0][1], Value):
        axis, item = given[0]
        if dtype_of(item) not in _MASKS:
            return b(Gather, self, item, axis=axis)
        if len(b.dims(item)) == 1:
            return b(Compress, self, item, axis=axis)
        if not axis:
            return b(GatherND, self, b(Transpose, b(NonZero, item), perm=(1, 0)))
    axes, chosen = _expanded(b, indices)
    if not chosen:
        return self
    rest = [axis for axis in range(len(b.dims(self))) if axis not in axes]
    positions = _joined(b, chosen)
    y = b(GatherND, transposed(b, self, [*axes, *rest]), positions)
    # A mask counts as one index at its first axis.
    first = next(axis for axis, item in enumerate(items) if item is not None)
    together = _stand_together([axis for axis, item in enumerate(items) if item is not None])
    if not together or not first:
        return y
    count = len(b.dims(positions)) - 1
    return transposed(b, y, [*range(count, count + first), *range(count), *range(count + first, len(b.dims(y)))])


@aten("aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl", ignores=("unsafe",))
def index_put(b: Builder, self: Value, indices: Any, values: Value, accumulate: Any = False) -> Value:
    items = list(indices) if is_sequence(indices) else [indices]
    axes, chosen = _expanded(b, items)
    updates = cast(b, values, dtype_of(self))
    if not chosen:
        return b(Expand, updates, b(Shape, self))
    if len(chosen) == 1 and isinstance(items[0], Value) and dtype_of(items[0]) in _MASKS and not b.dims(updates):
        mask = items[0]
        if not scalar_of(accumulate) and len(b.dims(mask)) == len(b.dims(self)):
            return b(Where, cast(b, mask, DType.BOOL), updates, self)
    rank = len(b.dims(self))
    rest = [axis for axis in range(rank) if axis not in axes]
    order = [*axes, *rest]
    positions = _joined(b, chosen)
    count = len(b.dims(positions)) - 1
    front = b(Shape, positions, start=0, end=count)
    permuted = transposed(b, self, order)
    behind = b(Shape, permuted, start=len(axes))
    given = [axis for axis, item in enumerate(items) if item is not None]
    first = given[0] if _stand_together(given) else 0
    if first:
        # The assigned values have the indexed axes at their original position.
        parts = [b(Shape, permuted, start=len(axes), end=len(axes) + first), front]
        parts.append(b(Shape, permuted, start=len(axes) + first))
        wide = b(Expand, updates, b(Concat, *parts, axis=0))
        wide = transposed(
            b, wide, [*range(first, first + count), *range(first), *range(first + count, count + len(rest))]
        )
    else:
        wide = b(Expand, updates, b(Concat, front, behind, axis=0) if rest else front)
    y = b(ScatterND, permuted, positions, wide, reduction="add" if scalar_of(accumulate) else None)
    return transposed(b, y, [int(place) for place in np.argsort(order)])


@aten("aten.masked_select")
def masked_select(b: Builder, self: Value, mask: Value) -> Value:
    x, chosen = self, mask
    dims = b.dims(self), b.dims(mask)
    if dims[0] != dims[1]:
        rank = len(broadcast(*dims))
        ones = vector(b, [1] * rank)
        x = b(Expand, b(Expand, self, ones), b(Shape, b(Expand, mask, ones)))
        chosen = b(Expand, b(Expand, mask, ones), b(Shape, x))
    flat = vector(b, [-1])
    return b(Compress, b(Reshape, x, flat), b(Reshape, chosen, flat), axis=0)


def strided_indices(size: Any, stride: Any, storage_offset: Any) -> np.ndarray[Any, Any]:
    """Return the storage indices of a strided tensor's elements.

    Raises:
        UnsupportedError: a size is not static, or there are too many elements.
    """
    sizes, strides = integers(size), integers(stride)
    bounded(prod(sizes))
    indices = np.full((), int(scalar_of(storage_offset or 0)), np.int64)
    for n, step in zip(sizes, strides, strict=True):
        indices = indices[..., None] + np.arange(n, dtype=np.int64) * step
    return indices


@aten("aten.as_strided", "aten.as_strided_copy")
def as_strided(b: Builder, self: Value, size: Any, stride: Any, storage_offset: Any = 0) -> Value:
    """as_strided of a contiguous tensor, whose flattened elements equal its storage."""
    indices = strided_indices(size, stride, storage_offset)
    return b(Gather, b(Reshape, self, [-1]), b.constant(indices))


aten("aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only")(embedding_bag)
