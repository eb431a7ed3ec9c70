"""Pieces and places of tensors in the words of PNNX."""

from __future__ import annotations

from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.indexing import (
    Gather,
    GatherElements,
    Slice,
)
from graphport.ops.indexing import pnnx_lifts as pnnx_lifts  # noqa: PLC0414  registers its rules
from graphport.ops.indexing import pnnx_masks as pnnx_masks  # noqa: PLC0414  registers its rules
from graphport.ops.indexing import pnnx_places as pnnx_places  # noqa: PLC0414  registers its rules
from graphport.ops.indexing import pnnx_slices as pnnx_slices  # noqa: PLC0414  registers its rules
from graphport.ops.indexing.pnnx_slices import END
from graphport.ops.pytorch import DIALECT, called, dtype_of, static

# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@Slice.lift(DIALECT)
def lift_slice(
    b: Builder, data: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value | None:
    """One axis after another; PyTorch's steps go forward."""
    first, last, by = static(starts), static(ends), static(steps)
    places = static(axes)
    if first is None or last is None or (steps is not None and by is None) or (axes is not None and places is None):
        return None
    places = tuple(range(len(first))) if places is None else places
    by = (1,) * len(first) if by is None else by
    if any(step < 1 for step in by):
        return None
    y = data
    for axis, p, q, step in zip(places, first, last, by, strict=True):
        end = min(q, END) if q >= 0 else q
        y = called(b, "Tensor.slice", TensorFact(dtype_of(data), None), input=y, dim=axis, start=p, end=end, step=step)
    return y


@Gather.lift(DIALECT)
def lift_gather(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value | None:
    """One place, a row of them, or rows of a table."""
    fact = TensorFact(dtype_of(data), None)
    rank = len(b.dims(indices))
    known = static(indices)
    if rank == 0 and known is not None:
        return called(b, "Tensor.select", fact, input=data, dim=axis, index=known[0])
    if rank == 1 and (known is None or min(known, default=0) >= 0):
        return called(b, "torch.index_select", fact, input=data, index=indices, dim=axis)
    return called(b, "F.embedding", fact, input=indices, weight=data) if axis == 0 and len(b.dims(data)) == 2 else None


@GatherElements.lift(DIALECT)
def lift_gather_elements(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value:
    return called(b, "torch.gather", TensorFact(dtype_of(data), b.dims(indices)), input=data, index=indices, dim=axis)
