"""StableHLO's gather and scatter in TFLite: slices along any axes, with clamped or dropped start indices."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import Operator, import_rule, nearest
from graphport.formats.tflite.rules.reduction_bodies import reduction_of
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Max, Min, Mul
from graphport.ops.definitions.comparison import And, GreaterOrEqual, Less, Where
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.definitions.indexing.scattering import ScatterElements
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reduction.reduce import ReduceSum
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat
from graphport.ops.lowering.operands import as_int64, cast, dtype_of, reshaped, sizes, transposed, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_REDUCED = {"assign": "none", "Add": "add", "Mul": "mul", "Max": "max", "Min": "min"}
_SCATTERED = frozenset((DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64))


@dataclass(frozen=True, slots=True)
class _Windows:
    """Slices of a tensor with dims `dims`; rows of `starts` [*batch, axes] contain their start indices."""

    dims: tuple[int, ...]
    starts: Value
    batch: tuple[int, ...]
    axes: tuple[int, ...]
    """Axis of each element of a row."""
    extents: tuple[int, ...]
    kept: tuple[int, ...]
    """Axes of a slice that are not collapsed."""
    placed: tuple[int, ...]
    """Result axes of the slice axes."""

    def order(self) -> list[int]:
        """Permutation from (batch axes, slice axes) to the result axes."""
        rank = len(self.batch) + len(self.kept)
        others = iter(range(len(self.batch)))
        return [
            len(self.batch) + self.placed.index(axis) if axis in self.placed else next(others) for axis in range(rank)
        ]

    def shape(self) -> tuple[int, ...]:
        """Shape of the batch axes, then of the slice axes."""
        return (*self.batch, *(self.extents[axis] for axis in self.kept))


def _windows(
    op: Operator, extents: Sequence[int], placed: Sequence[int], left_out: Sequence[int], axes_of: str
) -> _Windows:
    b = op.b
    dims, index_dims = sizes(op.dims(0), "the sliced tensor"), sizes(op.dims(1), "the indices")
    axes, last = tuple(op.option(axes_of, ())), int(op.option("index_vector_dim"))
    starts = as_int64(b, op.raw(1))
    if last == len(index_dims):
        starts, index_dims = b(Unsqueeze, starts, [-1]), (*index_dims, 1)
    kept = tuple(axis for axis in range(len(dims)) if axis not in left_out)
    is_whole = 0 <= last < len(index_dims) and index_dims[last] == len(axes) and len(placed) == len(kept)
    rank = len(index_dims) - 1 + len(kept)
    inside = all(0 <= axis < len(dims) for axis in (*axes, *left_out)) and all(0 <= axis < rank for axis in placed)
    if not is_whole or not inside or len(set(axes)) != len(axes) or len(set(placed)) != len(placed):
        message = f"indices {list(index_dims)} with index_vector_dim {last} for axes {list(axes)} of {list(dims)}"
        raise ShapeError(message, "expected one index per axis, and distinct axes within the ranks")
    if len(extents) != len(dims) or any(not 0 <= k <= n for k, n in zip(extents, dims, strict=True)):
        message = f"slices have shape {list(extents)}, the operand has shape {list(dims)}"
        raise ShapeError(message, "expected equal ranks, and no slice dim above the operand dim")
    starts = transposed(b, starts, [*(axis for axis in range(len(index_dims)) if axis != last), last])
    batch = tuple(n for axis, n in enumerate(index_dims) if axis != last)
    return _Windows(dims, starts, batch, axes, tuple(extents), kept, tuple(placed))


def _strides(dims: Sequence[int]) -> list[int]:
    return [prod(dims[axis + 1 :]) for axis in range(len(dims))]


def _grid(windows: _Windows, axis: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the offset along `axis` of each element of a slice from the start of the slice, flat."""
    shape = bounded(windows.extents)
    along = np.arange(windows.extents[axis]).reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return np.broadcast_to(along, shape).reshape(-1).astype(np.int64)


@import_rule("STABLEHLO_GATHER", is_raw=True)
def stablehlo_gather(op: Operator) -> Value:
    """STABLEHLO_GATHER: slices by start index, clamped so that slices are inside."""
    b = op.b
    extents, placed = tuple(op.option("slice_sizes", ())), tuple(op.option("offset_dims", ()))
    windows = _windows(op, extents, placed, tuple(op.option("collapsed_slice_dims", ())), "start_index_map")
    dims = windows.dims
    room = [dims[axis] - extents[axis] for axis in windows.axes]
    starts = b(Max, b(Min, windows.starts, vector(b, room)), vector(b, [0] * len(room)))
    strides = _strides(dims)
    steps = vector(b, [strides[axis] for axis in windows.axes])
    first = b(ReduceSum, b(Mul, starts, steps), [-1], keepdims=1)
    offsets = np.ravel_multi_index(np.indices(bounded(extents)), dims).reshape(-1) if dims else np.zeros(1, np.int64)
    found = b(Gather, reshaped(b, op.raw(0), (-1,)), b(Add, first, vector(b, offsets.tolist())), axis=0)
    return transposed(b, reshaped(b, found, windows.shape()), windows.order())


@import_rule("STABLEHLO_SCATTER", is_raw=True)
def stablehlo_scatter(op: Operator) -> Value:
    """STABLEHLO_SCATTER: write or combine updates at start indices; updates outside are dropped.

    Operands: x, start indices, updates.
    """
    b, x = op.b, op.raw(0)
    reduction = _REDUCED.get(reduction_of(op.options.get("update_computation_subgraph")))
    if reduction is None:
        message = "the update function is not an assignment, sum, product, maximum or minimum"
        raise UnsupportedError(message)
    dims, updates = sizes(op.dims(0), "the updated tensor"), sizes(op.dims(2), "the updates")
    placed, left_out = (tuple(op.option(name, ())) for name in ("update_window_dims", "inserted_window_dims"))
    if any(not 0 <= axis < len(updates) for axis in placed) or len(placed) + len(left_out) != len(dims):
        message = f"{len(placed)} window axes and {len(left_out)} inserted axes for an operand of rank {len(dims)}"
        raise ShapeError(
            message, "expected window axes within the updates, and as many axes in total as the operand has"
        )
    lengths = iter(updates[axis] for axis in placed)
    extents = [1 if axis in left_out else next(lengths) for axis in range(len(dims))]
    windows = _windows(op, extents, placed, left_out, "scatter_dims_to_operand_dims")
    order = windows.order()
    if tuple(windows.shape()[axis] for axis in order) != updates:
        message = f"updates have shape {list(updates)}, expected {[windows.shape()[axis] for axis in order]}"
        raise ShapeError(message)
    own = dtype_of(x)
    wide = nearest(own, _SCATTERED)
    count = prod(dims)
    padded = b(Concat, cast(b, reshaped(b, x, (count,)), wide), b.constant(np.zeros(1, wide.numpy), wide), axis=0)
    moved = transposed(b, op.raw(2), [order.index(axis) for axis in range(len(order))])
    given = cast(b, reshaped(b, moved, (-1,)), wide)
    found = b(ScatterElements, padded, reshaped(b, _targets(b, windows), (-1,)), given, reduction=reduction)
    kept = b(Slice, found, [0], [count])
    return cast(b, reshaped(b, kept, dims), own)


def _targets(b: Builder, windows: _Windows) -> Value:
    """Flat indices of slice elements, [*batch, elements]; elements outside get an index beyond the end."""
    dims, strides = windows.dims, _strides(windows.dims)
    flat: Value = vector(b, [0])
    is_inside: Value | None = None
    for axis, n in enumerate(dims):
        at = vector(b, _grid(windows, axis).tolist())
        if axis in windows.axes:
            place, last = windows.axes.index(axis), len(windows.batch)
            start = b(Slice, windows.starts, [place], [place + 1], [last])
            at = b(Add, start, at)
            within = b(And, b(GreaterOrEqual, at, 0), b(Less, at, n))
            is_inside = within if is_inside is None else b(And, is_inside, within)
        flat = b(Add, flat, b(Mul, at, strides[axis]))
    shape = [*windows.batch, prod(windows.extents)]
    if is_inside is None:
        return b(Add, flat, b.constant(np.zeros(bounded(shape), np.int64)))
    return b(Where, is_inside, flat, prod(dims))
