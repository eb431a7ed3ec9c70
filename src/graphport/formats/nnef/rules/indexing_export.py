"""Export of gather and scatter operators to NNEF, which only gathers along an axis: by comparisons and sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import bounded, reserve
from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError, export_rule
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import dtype_of, integers, sizes
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.indexing import ScatterElementsView
from graphport.ops.views.reduction import TopKView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_MOST_COMPARED = 1 << 22
"""Entries of a tensor that has a place for each choice."""
_MOST_SORTED = 256
"""Entries each of which is compared with each."""
_NONE = "none"


@export_rule("nnef", "Trilu")
def export_trilu(b: Builder, input: Value, k: Value | None = None, *, upper: int = 1) -> Any:
    """Export Trilu: select `x` or 0 by a constant triangular mask."""
    rows, columns = sizes(b.dims(input)[-2:], "a triangular mask")
    shift = (0,) if k is None else constant_numbers(k)
    if shift is None or dtype_of(input) is DType.BOOL:
        return None
    full = np.ones(bounded((rows, columns)), np.bool_)
    diagonal = max(-rows, min(shift[0], columns))  # NumPy takes no number of 64 bits here
    kept = np.triu(full, diagonal) if upper else np.tril(full, diagonal)
    mask = b.constant(kept.reshape([1] * (len(b.dims(input)) - 2) + [rows, columns]))
    return (OpBuilder(b)("Where", mask, input, b.like(input, 0)),)


@export_rule("nnef", "OneHot")
def export_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Any:
    """Export OneHot: compare the indices with every position."""
    known, chosen = integers(depth), values.storage if values.is_constant else None
    if known is None or chosen is None or dtype_of(values) is DType.BOOL:
        return None
    emit, n, rank = OpBuilder(b), known[0], len(b.dims(indices)) + 1
    off, on = (b.like(values, np.full([1] * rank, number)) for number in chosen.numpy())
    place = axis % rank
    positions = _from_front(b, indices, n)
    wide = emit("Unsqueeze", positions, [place])
    every = np.arange(reserve(n), dtype=np.float32).reshape([n if at == place else 1 for at in range(rank)])
    return (emit("Where", emit("Equal", wide, b.constant(every)), on, off),)


@export_rule("nnef", "GatherND")
def export_gather_nd(b: Builder, data: Value, indices: Value, *, batch_dims: int = 0) -> Any:
    """Export GatherND: flatten the indexed axes and gather along one."""
    extents = sizes(b.dims(data))
    storage = indices.storage if indices.is_constant else None
    count = b.dims(indices, at_least=1)[-1]
    if batch_dims or storage is None or not isinstance(count, int) or not 0 < count <= len(extents):
        return None
    positions = storage.numpy().reshape(-1, count).astype(np.int64)
    lengths = np.array(extents[:count])
    positions = np.where(positions < 0, positions + lengths, positions)
    if np.any((positions < 0) | (positions >= lengths)):
        message = f"indices beyond the axes of {list(lengths)}"
        raise UnsupportedError(message)
    flat = np.ravel_multi_index(tuple(positions.T), tuple(extents[:count]))
    emit, rest = OpBuilder(b), extents[count:]
    joined = emit("Reshape", data, [int(lengths.prod()), *rest])
    wanted = np.asarray(flat).reshape(storage.shape[:-1]).astype(np.int64)
    return (emit("Gather", joined, b.constant(wanted), axis=0),)


@export_rule("nnef", "GatherElements")
def export_gather_elements(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Any:
    """Export GatherElements: multiply by a one-hot tensor and sum over the axis."""
    extents, wanted = sizes(b.dims(data)), sizes(b.dims(indices))
    place, emit = axis % len(extents), OpBuilder(b)
    n = extents[place]
    if not dtype_of(data).is_floating or not 0 < int(np.prod(wanted)) * n <= _MOST_COMPARED:
        return None
    others = [at for at in range(len(extents)) if at != place and wanted[at] != extents[at]]
    if others:
        ends = np.array([wanted[at] for at in others], np.int64)
        zeros = b.constant(np.zeros(len(others), np.int64))
        data = emit("Slice", data, zeros, b.constant(ends), b.constant(np.array(others, np.int64)))
    chosen = _one_hot(b, indices, n)
    order = [at for at in range(len(extents)) if at != place]
    behind = emit("Transpose", data, perm=(*order, place))
    entries = emit("Unsqueeze", behind, [place])
    return (_total(b, emit("Where", chosen, entries, 0.0), -1),)


@ScatterElementsView.export_rule("nnef")
def export_scatter_elements(b: Builder, op: ScatterElementsView) -> Any:
    """Export ScatterElements: for each position, sum the updates with its index and test whether there are any."""
    extents, sent = sizes(b.dims(op.data)), sizes(b.dims(op.indices))
    place, emit = op.axis % len(extents), OpBuilder(b)
    n = extents[place]
    is_small = 0 < int(np.prod(sent)) * n <= _MOST_COMPARED
    if not dtype_of(op.data).is_floating or op.reduction not in (_NONE, "add") or not is_small:
        return None
    chosen = _one_hot(b, op.indices, n)
    wide = emit("Unsqueeze", op.updates, [-1])
    zero, one = b.like(op.data, 0.0), b.like(op.data, 1.0)
    arrived = _move_and_pad(b, _total(b, emit("Where", chosen, wide, zero), place), place, extents)
    if op.reduction == "add":
        return (emit("Add", op.data, arrived),)
    counts = _move_and_pad(b, _total(b, emit("Where", chosen, one, zero), place), place, extents)
    return (emit("Where", emit("Greater", counts, zero), arrived, op.data),)


def _move_and_pad(b: Builder, x: Value, place: int, extents: tuple[int, ...]) -> Value:
    """Move the last axis of `x` to `place`, and zero-pad its other axes to `extents`."""
    emit, rank = OpBuilder(b), len(extents)
    order = [*range(place), rank - 1, *range(place, rank - 1)]
    x = emit("Transpose", x, perm=tuple(order))
    missing = [extent - has for extent, has in zip(extents, sizes(b.dims(x)), strict=True)]
    if not any(missing):
        return x
    return emit("Pad", x, [0] * rank + missing)


@TopKView.export_rule("nnef")
def export_top_k(b: Builder, op: TopKView) -> Any:
    """Export TopK: the rank of an element is the number of elements before it in order; select by rank."""
    extents, known = sizes(b.dims(op.x)), constant_numbers(op.k)
    place, emit = op.axis % len(extents), OpBuilder(b)
    n = extents[place]
    is_small = 0 < n <= _MOST_SORTED and int(np.prod(extents)) * n <= _MOST_COMPARED
    if known is None or not 0 < known[0] <= n or not dtype_of(op.x).is_floating or not is_small:
        return None
    order = (*(at for at in range(len(extents)) if at != place), place)
    x = emit("Transpose", op.x, perm=order)
    one, other = (emit("Unsqueeze", x, [at]) for at in (-1, -2))
    zero = b.like(op.x, 0.0)
    # Ties: the first element comes first.
    earlier = np.tril(np.ones((n, n), np.bool_), -1).reshape([1] * (len(extents) - 1) + [n, n])
    is_same = emit("And", emit("Equal", other, one), b.constant(earlier))
    is_before = emit("Or", emit("Greater" if op.largest else "Less", other, one), is_same)
    ranks = _total(b, emit("Where", is_before, 1.0, zero), -1)
    every = np.arange(known[0]).reshape([1] * (len(extents) - 1) + [known[0], 1])
    chosen = emit("Equal", emit("Unsqueeze", ranks, [-2]), b.like(op.x, every))
    values = _total(b, emit("Where", chosen, other, zero), -1)
    indices = emit("ArgMax", emit("Where", chosen, 1.0, zero), axis=-1, keepdims=0)
    back = tuple(int(at) for at in np.argsort(order))
    return emit("Transpose", values, perm=back), emit("Transpose", indices, perm=back)


def _one_hot(b: Builder, indices: Value, n: int) -> Value:
    """Compare indices with every position: boolean […, n]."""
    emit = OpBuilder(b)
    wide = emit("Unsqueeze", _from_front(b, indices, n), [-1])
    every = np.arange(reserve(n), dtype=np.float32).reshape([1] * len(b.dims(indices)) + [n])
    return emit("Equal", wide, b.constant(every))


def _from_front(b: Builder, indices: Value, n: int) -> Value:
    """Normalize negative indices, as floats."""
    emit, storage = OpBuilder(b), indices.storage if indices.is_constant else None
    if storage is not None:
        numbers = storage.numpy().astype(np.float32)
        return b.constant(np.where(numbers < 0, numbers + n, numbers).astype(np.float32))
    positions = emit("Cast", indices, to=DType.FLOAT32)
    zero = b.constant(np.float32(0))
    return emit("Where", emit("Less", positions, zero), emit("Add", positions, n), positions)


def _total(b: Builder, x: Value, axis: int) -> Value:
    return OpBuilder(b)("ReduceSum", x, b.constant(np.array([axis], np.int64)), keepdims=0)
