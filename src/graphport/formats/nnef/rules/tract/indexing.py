"""Picking elements in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import decide_less
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.nnef.rules.tract.binding import (
    DIALECT,
    RULES,
    Numbers,
    axis_of,
    import_rule,
    static,
    static_integer,
    vector,
)
from graphport.formats.nnef.rules.tract.rule_table import dims_of, fact_like, static_integers
from graphport.formats.nnef.rules.tract.types import datum, datum_name
from graphport.ir.graph import Value
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, export_rule
from graphport.ops.definitions.indexing.slicing import FAR
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.views.indexing import SliceView
from graphport.ops.views.reduction import TopKView

if TYPE_CHECKING:
    from graphport.ops.builder import Builder


@import_rule("slice")
def slice_(
    b: Builder, input: Value, *, axes: tuple[int, ...], begin: Numbers, end: Numbers = (), stride: Numbers = ()
) -> Value:
    """Slice; an end of 0 after a begin within the axis means its end, and 0 to 0 is empty."""
    emit, rank = OpBuilder(b), len(b.dims(input))
    indices = tuple(axis_of(axis, rank) for axis in axes)
    steps = static(stride) if isinstance(stride, Value) else stride
    if steps and (count := len(steps)) != len(indices):
        message = f"{count} strides for {len(indices)} axes, expected equal counts"
        raise ShapeError(message)
    first, last = static(begin), static(end)
    ends: Numbers = end
    if last is not None:
        known = last or (0,) * len(indices)
        starts = first if first is not None else (0,) * len(known)
        if len(known) != len(indices) or len(starts) != len(indices):
            message = f"axes, begin and end have {len(indices)}, {len(starts)} and {len(known)} entries"
            raise ShapeError(message)
        forward = [step > 0 for step in steps] if steps else [True] * len(indices)
        ends = tuple(
            FAR if stop == 0 and start > 0 and ahead else stop
            for start, stop, ahead in zip(starts, known, forward, strict=True)
        )
    has_steps = steps is not None and any(step != 1 for step in steps)
    by = vector(b, stride) if steps is None or has_steps else None
    return emit("Slice", input, vector(b, begin), vector(b, ends), vector(b, indices), by)


@import_rule("tract_core_downsample")
def downsample(b: Builder, input: Value, *, axis: int, stride: int, modulo: int = 0) -> Value:
    """Take every `stride`-th element of an axis from `modulo` on; a negative stride counts from the end."""
    place = axis_of(axis, len(b.dims(input)))
    start, stop = (modulo, FAR) if stride > 0 else (-1 - modulo, -FAR)
    return OpBuilder(b)("Slice", input, *(vector(b, (n,)) for n in (start, stop, place, stride)))


@import_rule("tract_core_dyn_slice")
def dyn_slice(b: Builder, input: Value, start: Value, end: Value, *, len: int | Value, axis: int) -> Value:
    """Slice an axis between bounds that are computed at run time."""
    rank = [*b.dims(input)].__len__()
    del len
    return OpBuilder(b)("Slice", input, vector(b, start), vector(b, end), vector(b, (axis_of(axis, rank),)))


@import_rule("tract_core_gather")
def gather(b: Builder, input: Value, indices: Value, *, axis: int, datum_type: str = "") -> Value:
    """Gather entries along an axis; indices may be negative."""
    emit = OpBuilder(b)
    y = emit("Gather", input, _indices(b, indices), axis=axis_of(axis, len(b.dims(input))))
    dtype = datum(datum_type) if datum_type else None
    return y if dtype is None or dtype is y.dtype else emit("Cast", y, to=dtype)


def _indices(b: Builder, indices: Value) -> Value:
    own = indices.dtype
    return indices if own in (None, DType.INT64, DType.INT32) else OpBuilder(b)("Cast", indices, to=DType.INT64)


RULES.having(places=_indices).lower("""
tract_core_gather_elements(input, indices, *, axis) -> GatherElements(input, places(indices), axis=axis)
tract_core_gather_nd(input, indices, *, batch_dims=0) -> GatherND(input, cast(indices, int64), batch_dims=batch_dims)
tract_core_scatter_elements(input, indices, updates, *, axis, reduction="none")
    -> ScatterElements(input, places(indices), updates, axis=axis, reduction=reduction)
tract_core_scatter_nd(input, indices, updates, *, reduction="none")
    -> ScatterND(input, cast(indices, int64), updates, reduction=reduction)
tract_onnx_non_zero(input, *, count_symbol: ignored = "") -> NonZero(input)
""")


@import_rule("tract_core_one_hot")
def one_hot(
    b: Builder, input: Value, *, axis: int, dim: int | Value, value_off: float = 0.0, value_on: float = 1.0
) -> Value:
    """Insert an axis of length `dim` with `value_on` at the index and `value_off` elsewhere."""
    emit = OpBuilder(b)
    depth = vector(b, dim)
    scalar = emit("Reshape", depth, vector(b, ())) if isinstance(dim, Value) else b.constant(np.array(dim, np.int64))
    return emit("OneHot", input, scalar, b.constant(np.array([value_off, value_on], np.float32)), axis=axis)


@import_rule("tract_core_topk")
def topk(b: Builder, input: Value, *, k: int | Value, axis: int, largest: bool = True) -> tuple[Value, ...]:
    """Return the `k` largest or smallest elements along an axis, sorted, and their indices."""
    from graphport.ops import registry

    place = axis_of(axis, len(b.dims(input)))
    return b.results(registry.op_defs()["TopK"], 2, input, vector(b, k), axis=place, largest=int(largest), sorted=1)


@import_rule("tract_core_trilu")
def trilu(b: Builder, input: Value, k: Value | None = None, *, upper: bool = True) -> Value:
    """Keep the upper or lower triangle, set all other elements to 0."""
    emit = OpBuilder(b)
    offset = None
    if k is not None:
        known = static(k)
        offset = b.constant(np.array(known[0], np.int64)) if known else emit("Cast", k, to=DType.INT64)
    return emit("Trilu", input, offset, upper=int(upper))


@import_rule("tract_onnx_ml_direct_lookup")
def direct_lookup(b: Builder, input: Value, values: Value, fallback: Value) -> Value:
    """Look up each index in a table, with a fallback out of range."""
    emit = OpBuilder(b)
    extent = b.dims(values, at_least=1)[0]
    size = b.constant(np.array(static_integer(extent) if isinstance(extent, int) else 0, np.int64))
    place = emit("Cast", input, to=DType.INT64)
    inside = emit("And", emit("GreaterOrEqual", place, 0), emit("Less", place, size))
    safe = emit("Where", inside, place, 0)
    return emit("Where", inside, emit("Gather", values, safe, axis=0), fallback)


@import_rule("tract_onnx_ml_reverse_lookup")
def reverse_lookup(b: Builder, input: Value, keys: Value, *, fallback: int) -> Value:
    """Return the index of each entry in a table, with a fallback for absent ones."""
    emit, rank = OpBuilder(b), len(b.dims(input))
    same = emit("Equal", emit("Unsqueeze", input, vector(b, (rank,))), keys)
    found = emit("Cast", same, to=DType.INT64)
    place = emit("ArgMax", found, axis=-1, keepdims=0)
    some = emit("Cast", emit("ReduceMax", found, vector(b, (-1,)), keepdims=0), to=DType.BOOL)
    return emit("Cast", emit("Where", some, place, fallback), to=DType.INT32)


# Export rules


RULES.export_rules("""
Gather -> tract_core_gather(data, indices, axis=axis(axis, data))
GatherElements -> tract_core_gather_elements(data, indices, axis=axis(axis, data))
ScatterElements
    -> tract_core_scatter_elements(data, indices, updates, axis=axis(axis, data), reduction=reduction)
""")


@export_rule(DIALECT, "GatherND")
def export_gather_nd(b: Builder, data: Value, indices: Value, *, batch_dims: int = 0) -> Any:
    return b.emit("tract_core_gather_nd", data, _from_front(b, data, indices, batch_dims), batch_dims=batch_dims)


def _from_front(b: Builder, data: Value, indices: Value, behind: int = 0) -> Value:
    """Normalize negative indices along several axes: tract aborts on them."""
    count = b.dims(indices, at_least=1)[-1]
    dims = b.dims(data)[behind:][:count] if isinstance(count, int) else ()
    lengths = [dim for dim in dims if isinstance(dim, int)]
    if len(lengths) < len(dims) or not lengths:
        return indices
    storage = folded(indices)
    if storage is not None:
        positions = storage.numpy()
        return b.constant(np.where(positions < 0, positions + np.array(lengths), positions).astype(storage.dtype.numpy))
    emit = OpBuilder(b)
    moved = emit("Add", indices, b.like(indices, np.array(lengths)))
    return emit("Where", emit("Less", indices, 0), moved, indices)


@export_rule(DIALECT, "ScatterND")
def export_scatter_nd(b: Builder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Any:
    return b.emit("tract_core_scatter_nd", data, _from_front(b, data, indices), updates, reduction=reduction)


@export_rule(DIALECT, "OneHot")
def export_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Any:
    known = static_integers(depth)
    if not known or values.storage is None or not values.is_constant:
        return None
    off, on = (float(x) for x in values.storage.numpy().reshape(-1))
    x = indices
    if x.dtype is not DType.INT64:
        x = b.emit("tract_core_cast", x, facts=[fact_like(x, DType.INT64)], to="i64")[0]
    place = axis % (len(b.dims(indices)) + 1)
    dims = b.dims(indices)
    fact = TensorFact(DType.FLOAT32, (*dims[:place], known[0], *dims[place:]))
    hot = b.emit("tract_core_one_hot", x, facts=[fact], axis=place, dim=known[0], value_off=off, value_on=on)
    dtype = values.dtype
    if dtype is None or dtype is DType.FLOAT32:
        return hot
    return b.emit("tract_core_cast", hot[0], to=datum_name(dtype) or "f32")


@TopKView.export_rule(DIALECT)
def export_topk(b: Builder, op: TopKView) -> Any:
    count = static_integers(op.k)
    if not count:
        return None
    given = {"k": count[0], "axis": op.axis % len(b.dims(op.x)), "largest": bool(op.largest)}
    return b.emit("tract_core_topk", op.x, facts=[UNKNOWN, UNKNOWN], **given)


@export_rule(DIALECT, "Trilu")
def export_trilu(b: Builder, input: Value, k: Value | None = None, *, upper: int = 1) -> Any:
    offset = k if k is not None else b.constant(np.array(0, np.int64))
    return b.emit("tract_core_trilu", input, offset, upper=bool(upper))


@export_rule(DIALECT, "NonZero")
def export_non_zero(b: Builder, x: Value) -> Any:
    return b.emit("tract_onnx_non_zero", x)


@SliceView.export_rule(DIALECT)
def export_slice(b: Builder, op: SliceView) -> Any:
    """Export Slice with symbolic bounds; strided slices of static dims become gathers.

    tract 0.23 moves a strided slice before earlier operations and fails on reshapes.
    """
    dims = b.dims(op.data)
    first, last = dims_of(op.starts), dims_of(op.ends)
    if first is None or last is None:
        return None
    indices = tuple(range(len(first))) if op.axes is None else static_integers(op.axes)
    by = (1,) * len(first) if op.steps is None else static_integers(op.steps)
    if indices is None or by is None:
        return None
    x = op.data
    chosen: list[tuple[int, Any, Any, int]] = []
    for axis, start, stop, step in zip(indices, first, last, by, strict=True):
        place = axis % len(dims)
        extent = dims[place]
        begin, end = (_within(at, extent) for at in (start, stop))
        if isinstance(extent, int) and (step < 0 or (step > 1 and op.data.producer is not None)):
            taken = range(*slice(_numeric(start), _numeric(stop), step).indices(extent))
            if not taken or not all(isinstance(at, int) for at in (start, stop)):
                return None
            x = b.emit("tract_core_gather", x, b.constant(np.array(taken, np.int64)), axis=place)[0]
        elif step < 0:
            return None
        else:
            chosen.append((place, begin, end, step))
    if not chosen:
        return x if x is not op.data else None
    at, begins, ends_, strides = (tuple(part) for part in zip(*chosen, strict=True))
    if any(decide_less(begin, end) is False for begin, end in zip(begins, ends_, strict=True)):
        # tract would read an end of 0 as that of the axis.
        return None
    given = () if set(strides) == {1} else strides
    return b.emit("slice", x, axes=at, begin=begins, end=ends_, stride=given)


def _numeric(place: Any) -> int:
    return place if isinstance(place, int) else 0


def _within(place: Any, extent: Any) -> Any:
    """Normalize a slice bound: negative bounds count from the end, bounds beyond the extent are the extent."""
    if not isinstance(place, int):
        return place
    if place >= FAR or (isinstance(extent, int) and place > extent):
        return extent
    if place < 0:
        return max(place + extent, 0) if isinstance(extent, int) else extent + place
    return place
