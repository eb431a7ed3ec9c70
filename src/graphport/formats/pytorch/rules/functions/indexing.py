"""Export rules of slicing and gathering to PNNX."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import DIALECT, called, constant_elements, length, static
from graphport.formats.pytorch.rules.functions.arithmetic_export import expressed
from graphport.formats.pytorch.rules.functions.computed_lengths import computed_number, elements_of
from graphport.formats.pytorch.rules.functions.indexing_slices import END
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.indexing import Gather
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.views.indexing import SliceView

# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@SliceView.export_rule(DIALECT)
def export_slice(b: Builder, op: SliceView) -> Value | None:
    """Export Slice axis by axis; PyTorch has positive steps only, so reversed axes are flipped first."""
    first, last, by = static(op.starts), static(op.ends), static(op.steps)
    known_axes = static(op.axes)
    if (op.steps is not None and by is None) or (op.axes is not None and known_axes is None):
        return None
    if first is None or last is None:
        return _computed(b, op.data, op.starts, op.ends, known_axes, by)
    known_axes = tuple(range(len(first))) if known_axes is None else known_axes
    by = (1,) * len(first) if by is None else by
    dims = b.dims(op.data)
    reversed_axes = {axis: length(dims, axis) for axis, step in zip(known_axes, by, strict=True) if step < 0}
    y = called(b, "torch.flip", input=op.data, dims=tuple(reversed_axes)) if reversed_axes else op.data
    for axis, start, end, step in zip(known_axes, first, last, by, strict=True):
        p, q = (start, end) if step > 0 else (_flipped(place, reversed_axes[axis]) for place in (start, end))
        q = min(q, END) if q >= 0 else q
        fact = TensorFact(dtype_of(op.data), None)
        y = called(b, "Tensor.slice", fact, input=y, dim=axis, start=p, end=q, step=abs(step))
    return y


def _computed(
    b: Builder, data: Value, starts: Value, ends: Value, axes: Sequence[int] | None, steps: Sequence[int] | None
) -> Value | None:
    """Emit forward slices with bounds computed at run time, axis by axis."""
    columns: list[list[Any]] = []
    for bound in (starts, ends):
        known, dims = elements_of(bound), b.dims(bound)
        if len(dims) != 1 or not isinstance(dims[0], int):
            return None
        columns.append([_slice_bound(b, data, bound, known, index) for index in range(dims[0])])
    count = len(columns[0])
    sliced_axes, by = axes or tuple(range(count)), steps or (1,) * count
    if min(by, default=1) < 1:
        return None
    y = data
    for axis, start, end, step in zip(sliced_axes, *columns, by, strict=True):
        fact = TensorFact(dtype_of(data), None)
        y = called(b, "Tensor.slice", fact, input=y, dim=axis, start=start, end=end, step=step)
    return y


def _slice_bound(b: Builder, data: Value, bound: Value, known: Sequence[Dim] | None, index: int) -> Any:
    """Return a slice bound as a number, as an expression of sizes, or as a tensor of one element."""
    stated = None if known is None else computed_number(b, known[index], data)
    if isinstance(stated, int):
        return min(stated, END) if stated >= 0 else stated
    if stated is not None:
        return stated
    return b(Gather, bound, b.constant(np.array(index)), axis=0)


def counted(b: Builder, index: Value, extent: object) -> Value | None:
    """Normalize negative indices, which some operators of PyTorch refuse."""
    known = constant_elements(index)
    if known is not None and not (known < 0).any() and dtype_of(index) is DType.INT64:
        return index
    if not isinstance(extent, int):
        return None
    x = index
    if dtype_of(index) is not DType.INT64:
        fact = TensorFact(DType.INT64, b.dims(index))
        x = called(b, "Tensor.to", fact, input=index, copy=False, dtype="torch.long")
    return expressed(b, f"remainder(@0,{extent})", x) if extent else x


def _flipped(place: int, count: int) -> int:
    """Convert a slice start for a negative step to an index of the reversed axis: count - 1 - index, clamped."""
    return count - 1 - max(min(place + count * (place < 0), count - 1), -1)


@Gather.export_rule(DIALECT)
def export_gather(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value | None:
    """Export Gather for one index, a vector, table rows, or an index tensor (gathered flat and reshaped)."""
    rank = len(b.dims(indices))
    known = static(indices)
    if rank == 0 and known is not None:
        return called(b, "Tensor.select", input=data, dim=axis, index=known[0])
    extent = b.dims(data)[axis]
    if known is not None and min(known, default=0) < 0 and isinstance(extent, int):
        known = tuple(place % extent for place in known)
        indices = b.constant(np.array(known, np.int64).reshape([n for n in b.dims(indices) if isinstance(n, int)]))
    if rank == 1 and (known is None or min(known, default=0) >= 0):
        return called(b, "torch.index_select", input=data, index=indices, dim=axis)
    if axis == 0 and len(b.dims(data)) == 2:
        return called(b, "F.embedding", input=indices, weight=data)
    if known is None:
        count = prod(b.dims(indices), start=1)
        flat = called(b, "Tensor.reshape", TensorFact(dtype_of(indices), (count,)), input=indices, shape=(-1,))
        row = counted(b, flat, extent)
    else:
        row = b.constant(np.array(known, np.int64)) if min(known, default=0) >= 0 else None
    return None if row is None else _block(b, data, row, b.dims(indices), axis)


def _block(b: Builder, data: Value, row: Value, block: Sequence[Dim], axis: int) -> Value | None:
    """Reshape slices gathered by a flattened index of shape [*block]; at most one other axis is dynamic."""
    dims = b.dims(data)
    place = axis % len(dims)
    folded = (*dims[:place], *block, *dims[place + 1 :])
    shape = tuple([n if isinstance(n, int) else -1 for n in folded])
    if shape.count(-1) > 1:
        return None
    y = called(b, "torch.index_select", TensorFact(dtype_of(data), None), input=data, index=row, dim=place)
    return called(b, "Tensor.reshape", input=y, shape=shape)


PNNX.export_rules("GatherElements -> torch.gather(input=data, index=indices, dim=axis)")
