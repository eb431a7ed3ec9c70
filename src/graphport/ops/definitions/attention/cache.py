"""Caches of keys and values that do not grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import decide_less
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import index_of_update
from graphport.ops.shapes import axis_index, same_dim
from graphport.ops.types import ALL_12, INT64, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.attention import TensorScatterView

T = Annotated[Tensor, Types("T", ALL_12)]
Indices = Annotated[Tensor, Types("tensor(int64)", INT64)]


@viewed
def _scatter_shape(op: TensorScatterView[TensorFact]) -> TensorFact:
    if op.mode not in ("linear", "circular"):
        message = f"unknown mode {op.mode!r}"
        raise ShapeError(message, "linear or circular")
    if op.past_cache.shape is None or op.update.shape is None:
        return TensorFact(op.past_cache.dtype, op.past_cache.shape)
    place = axis_index(op.axis, op.past_cache.rank)
    if place == 0:
        message = "axis is 0, the batch axis"
        raise ShapeError(message, "set axis to the sequence axis")
    if op.update.rank != op.past_cache.rank:
        message = f"update has rank {op.update.rank}, past_cache {op.past_cache.rank}"
        raise ShapeError(message)
    for number, (cached, new) in enumerate(zip(op.past_cache.dims, op.update.dims, strict=True)):
        if number != place:
            same_dim(cached, new, f"axis {number} of past_cache and update")
        elif decide_less(cached, new):
            message = f"{new} new entries do not fit into a cache of {cached}"
            raise ShapeError(message)
    return TensorFact(op.past_cache.dtype, op.past_cache.shape)


@op(
    shape=_scatter_shape,
    since=24,
    outputs=("present_cache",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("write_indices",),
    holds={"write_indices": index_of_update},
    ranks={"write_indices": 1},
)
def TensorScatter(
    past_cache: T, update: T, write_indices: Indices | None = None, *, axis: int = -2, mode: str = "linear"
) -> T:
    """Write `update` into `past_cache` along `axis`, starting at `write_indices` of each sample (default 0).

    In `circular` mode positions wrap around at the end of the axis.

    Shapes: past_cache [B, …, S, …], update [B, …, L, …] with L <= S at `axis`, write_indices [B] → [B, …, S, …].

    Raises:
        ShapeError: an unknown mode, the batch axis, or an update whose shape does not fit.
        IndexError: a negative position, or in `linear` mode a position beyond the end.

    Source: ONNX TensorScatter-24.
    """
    present = past_cache.copy()
    cached, new = np.moveaxis(present, axis, 1), np.moveaxis(update, axis, 1)
    batch, capacity = cached.shape[:2]
    first = np.zeros(batch, np.int64) if write_indices is None else write_indices.reshape(-1)
    indices = first[:, None] + np.arange(new.shape[1])
    if mode == "circular":
        indices = indices % capacity
    elif indices.size and (indices.min() < 0 or indices.max() >= capacity):
        message = f"entries {indices.min()} to {indices.max()} are not all in a cache of {capacity}"
        raise IndexError(message)
    cached[np.arange(batch)[:, None], indices] = new
    return present
