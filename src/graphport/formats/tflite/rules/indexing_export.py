"""Export rules of gather and scatter operators to TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.budget import bounded, reserve
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.computed_sizes import size_vector
from graphport.formats.tflite.rules.emitting import (
    NUMERIC_TYPES,
    cast_to,
    computed_in,
    extent,
    in_int32,
    ints,
    lengths_of,
    shaped,
    wrapped,
)
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.indexing import gathering, indices, regions, scattering
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of, float_element, integers, sizes
from graphport.ops.views.indexing import ScatterElementsView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

Exported: TypeAlias = "tuple[Value, ...] | None"
_SCATTERED = {
    **dict.fromkeys((DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16), DType.INT32),
    DType.FLOAT16: DType.FLOAT32,
    DType.UINT32: DType.INT64,
}
"""Types in which elements of other types are scattered."""
_REDUCED = {"add": "ADD", "mul": "MUL", "max": "MAXIMUM", "min": "MINIMUM"}


@gathering.Gather.export_rule("tflite")
def export_gather(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Exported:
    axis %= len(b.dims(data))
    wrapped_indices = wrapped(b, indices, extent(b, data, axis))
    if dtype_of(data) is DType.STRING and len(b.dims(data)) == 1:
        return (emit(b, "GATHER", data, wrapped_indices, axis=axis),)
    if dtype_of(data) is DType.UINT64:
        found = emit(b, "GATHER", cast_to(b, data, DType.INT64), wrapped_indices, axis=axis)
        return (cast_to(b, found, DType.UINT64),)
    return (computed_in(b, _GATHERED, "GATHER", data, beside=(wrapped_indices,), axis=axis),)


_GATHERED = frozenset(
    (
        *(DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.INT64, DType.INT16, DType.INT8, DType.UINT8),
        *(DType.BOOL, DType.INT4),
    )
)


def _grid(b: Builder, indices: Value, dims: Sequence[Dim], axis: int) -> Value:
    """Return the index along `axis` of each element of a tensor [*dims], the first dims of `indices`: [*dims, 1]."""
    if all(isinstance(n, int) for n in dims):
        extents = sizes(dims, "the indices")
        reserve(*extents)
        column = np.arange(extents[axis]).reshape(-1, *[1] * (len(extents) - axis))
        return ints(b, np.broadcast_to(column, (*extents, 1)).tolist())
    lengths = lengths_of(b, indices)
    count = emit(b, "GATHER", lengths, ints(b, axis), axis=0)
    column = shaped(b, emit(b, "RANGE", ints(b, 0), count, ints(b, 1)), (-1, *[1] * (len(dims) - axis)))
    front = emit(b, "GATHER", lengths, ints(b, [*range(len(dims))]), axis=0)
    return emit(b, "BROADCAST_TO", column, emit(b, "CONCATENATION", front, ints(b, [1]), axis=0))


def _full_indices(b: Builder, data: Value, indices: Value, axis: int) -> Value:
    """Convert indices along `axis`, shape [*i], to full index vectors [*i, rank] for GATHER_ND."""
    dims = b.dims(indices)
    along = emit(b, "EXPAND_DIMS", wrapped(b, indices, extent(b, data, axis)), ints(b, len(dims)))
    parts = [along if each == axis else _grid(b, indices, dims, each) for each in range(len(dims))]
    return emit(b, "CONCATENATION", *parts, axis=len(dims))


RULES.having(whole=_full_indices).export_rules(
    "GatherElements -> GATHER_ND(data, whole(data, indices, axis(axis, data)))"
)


@gathering.GatherND.export_rule("tflite")
def export_gather_nd(b: Builder, data: Value, indices: Value, *, batch_dims: int = 0) -> Exported:
    *dims, depth = b.dims(indices, at_least=1)
    if batch_dims and depth == 1:
        flat = emit(b, "SQUEEZE", indices, squeeze_dims=(len(dims),))
        picked = wrapped(b, flat, extent(b, data, batch_dims))
        return (emit(b, "GATHER", data, picked, axis=batch_dims, batch_dims=batch_dims),)
    (count,) = sizes((depth,), "the number of indexed axes")
    found = _all_wrapped(b, indices, data, batch_dims, count)
    if batch_dims:
        grids = [_grid(b, indices, dims, axis) for axis in range(batch_dims)]
        found = emit(b, "CONCATENATION", *grids, found, axis=len(dims))
    return (emit(b, "GATHER_ND", data, found),)


def _all_wrapped(b: Builder, indices: Value, data: Value, first: int, count: int) -> Value:
    """Normalize negative indices [*i, count] of the first axes of `data`."""
    known, found = integers(indices), in_int32(b, indices)
    if known is not None and min(known, default=0) >= 0:
        return found
    lengths = b.dims(data)[first : first + count]
    if all(isinstance(n, int) for n in lengths):
        ends = ints(b, [n for n in lengths if isinstance(n, int)])
    else:
        ends = emit(b, "GATHER", lengths_of(b, data), ints(b, [*range(first, first + count)]), axis=0)
    return emit(b, "SELECT_V2", emit(b, "LESS", found, 0), emit(b, "ADD", found, ends), found)


def _scatter_updates(b: Builder, data: Value, at: Value, updates: Value, reduction: str) -> Value:
    """Scatter updates [n, *rest] into `data` at indices [n, k]; only `add` supports duplicate indices."""
    extents = size_vector(b, b.dims(data), data)
    if reduction == "add":
        return computed_in(b, NUMERIC_TYPES, "ADD", data, emit(b, "SCATTER_ND", at, updates, extents))
    lengths = b.dims(updates)
    known = [n for n in lengths if isinstance(n, int)]
    is_static = len(known) == len(lengths)
    ones = b.like(at, np.ones(bounded(known))) if is_static else emit(b, "FILL", lengths_of(b, updates), b.like(at, 1))
    is_set = emit(b, "GREATER", emit(b, "SCATTER_ND", at, ones, extents), 0)
    new = emit(b, "SCATTER_ND", at, updates, extents)
    if reduction != "none":
        new = computed_in(b, NUMERIC_TYPES, _REDUCED[reduction], data, new)
    return emit(b, "SELECT_V2", is_set, new, data)


def _scatter_in_sequence(b: Builder, data: Value, at: Value, updates: Value, reduction: str) -> Value:
    """Scatter updates in sequence, so that the last duplicate wins."""
    (count,) = sizes(b.dims(at)[:1], "the indices")
    if reduction == "add" or _are_distinct(at):
        return _scatter_updates(b, data, at, updates, reduction)
    if count > _MAX_SEQUENTIAL_UPDATES:
        message = f"{count} updates with reduction {reduction} at non-constant or equal indices"
        raise UnsupportedError(message, help=f"expected at most {_MAX_SEQUENTIAL_UPDATES} updates")
    for place in range(count):
        one, update = (emit(b, "GATHER", each, ints(b, [place]), axis=0) for each in (at, updates))
        data = _scatter_updates(b, data, one, update, reduction)
    return data


_MAX_SEQUENTIAL_UPDATES = 64
"""Maximum number of updates that are written in sequence."""


def _are_distinct(at: Value) -> bool:
    """Whether indices are constant and distinct."""
    numbers, shape = integers(at), getattr(at.fact, "shape", None)
    if numbers is None and at.storage is not None and at.is_constant:
        numbers = tuple(at.storage.numpy().reshape(-1).tolist())
    if numbers is None or shape is None:
        return False
    rows = np.array(numbers).reshape(-1, int(shape[-1]))
    return len(np.unique(rows, axis=0)) == len(rows)


def _scatter_type(data: Value) -> DType | None:
    """Return the type in which elements are scattered, if it differs from their type.

    Raises:
        UnsupportedError: no type has a kernel.
    """
    dtype = dtype_of(data)
    if dtype in NUMERIC_TYPES:
        return None
    if dtype not in _SCATTERED:
        message = f"LiteRT has no scatter kernel for {dtype}"
        raise UnsupportedError(message)
    return _SCATTERED[dtype]


def _scattered_as(b: Builder, dtype: DType, op_def: OpDef, *operands: Value, **attributes: Attribute) -> Exported:
    data, indices, updates = operands
    y = b(op_def, cast_to(b, data, dtype), indices, cast_to(b, updates, dtype), **attributes)
    return (cast_to(b, y, dtype_of(data)),)


@scattering.ScatterND.export_rule("tflite")
def export_scatter_nd(b: Builder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Exported:
    if (wide := _scatter_type(data)) is not None:
        return _scattered_as(b, wide, scattering.ScatterND, data, indices, updates, reduction=reduction)
    *rows, depth = sizes(b.dims(indices), "the indices")
    lengths = sizes(b.dims(data), "the shape")
    count = int(np.prod(rows, dtype=np.int64))
    at = shaped(b, _all_wrapped(b, indices, data, 0, depth), (count, depth))
    return (_scatter_in_sequence(b, data, at, shaped(b, updates, (count, *lengths[depth:])), reduction),)


@ScatterElementsView.export_rule("tflite")
def export_scatter_elements(b: Builder, op: ScatterElementsView) -> Exported:
    if (wide := _scatter_type(op.data)) is not None:
        op_def = scattering.ScatterElements
        return _scattered_as(b, wide, op_def, op.data, op.indices, op.updates, axis=op.axis, reduction=op.reduction)
    rank = len(b.dims(op.data))
    count = int(np.prod(sizes(b.dims(op.indices), "the indices"), dtype=np.int64))
    at = shaped(b, _full_indices(b, op.data, op.indices, op.axis % rank), (count, rank))
    return (_scatter_in_sequence(b, op.data, at, shaped(b, op.updates, (count,)), op.reduction),)


@indices.OneHot.export_rule("tflite")
def export_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Exported:
    axis %= len(b.dims(indices)) + 1
    off, on = (emit(b, "GATHER", values, ints(b, place), axis=0) for place in (0, 1))
    wide, count = cast_to(b, indices, DType.INT32), float_element(depth)
    n = ints(b, int(count)) if count is not None else shaped(b, cast_to(b, depth, DType.INT32), ())
    wide = emit(b, "SELECT_V2", emit(b, "LESS", wide, 0), emit(b, "ADD", wide, n), wide)
    if dtype_of(values) in _ON_OFF:
        return (emit(b, "ONE_HOT", wide, n, on, off, axis=axis),)
    on_off = [cast_to(b, each, DType.FLOAT32) for each in (on, off)]
    return (cast_to(b, emit(b, "ONE_HOT", wide, n, *on_off, axis=axis), dtype_of(values)),)


_ON_OFF = frozenset((DType.FLOAT32, DType.INT16, DType.INT32, DType.INT64, DType.INT8, DType.UINT8, DType.BOOL))


@indices.NonZero.export_rule("tflite")
def export_non_zero(b: Builder, x: Value) -> Exported:
    condition = x if dtype_of(x) is DType.BOOL else computed_in(b, NUMERIC_TYPES, "NOT_EQUAL", x, b.like(x, 0))
    return (emit(b, "TRANSPOSE", emit(b, "WHERE", condition), ints(b, [1, 0])),)


def _index_grid(b: Builder, n: int | Value, shape: tuple[int, int]) -> Value:
    """Return the integers 0 … n - 1 as a row or a column."""
    return shaped(b, emit(b, "RANGE", ints(b, 0), ints(b, n) if isinstance(n, int) else n, ints(b, 1)), shape)


@regions.Trilu.export_rule("tflite")
def export_trilu(b: Builder, input: Value, k: Value | None = None, *, upper: int = 1) -> Exported:
    rows, columns = (extent(b, input, axis) for axis in (-2, -1))
    offset = 0 if k is None else float_element(k)
    if not isinstance(rows, int) or not isinstance(columns, int):
        found = emit(b, "SUB", _index_grid(b, columns, (1, -1)), _index_grid(b, rows, (-1, 1)))
        limit = ints(b, int(offset or 0)) if offset is not None or k is None else shaped(b, in_int32(b, k), ())
        kept = emit(b, "GREATER_EQUAL" if upper else "LESS_EQUAL", found, limit)
        return (emit(b, "SELECT_V2", kept, input, b.like(input, np.zeros(()))),)
    reserve(rows, columns)
    ahead = np.arange(columns) - np.arange(rows)[:, None]
    if offset is None and k is not None:
        distances = b.like(k, ahead)
        kept = emit(b, "GREATER_EQUAL" if upper else "LESS_EQUAL", distances, shaped(b, k, ()))
    else:
        kept = b.constant(ahead >= (offset or 0) if upper else ahead <= (offset or 0))
    return (emit(b, "SELECT_V2", kept, input, b.like(input, np.zeros(()))),)


def _best(b: Builder, op_type: str, data: Value, axis: int, keepdims: int, is_last: int) -> Value:
    axis %= max(len(b.dims(data)), 1)
    given = emit(b, "REVERSE_V2", data, ints(b, [axis])) if is_last else data
    options: dict[str, Any] = {"output_type": 4, "types": (DType.INT64,)}
    y = computed_in(b, _SEARCHED, op_type, given, beside=(ints(b, axis),), **options)
    if is_last:
        n = extent(b, data, axis)
        last = b.like(y, n - 1) if isinstance(n, int) else emit(b, "SUB", cast_to(b, n, dtype_of(y)), 1)
        y = emit(b, "SUB", last, y)
    dims = b.dims(data)
    return shaped(b, y, (*dims[:axis], 1, *dims[axis + 1 :])) if keepdims else y


_SEARCHED = frozenset((DType.FLOAT32, DType.INT32))
RULES.having(
    best=_best, int32=lambda b, x: cast_to(b, x, DType.INT32), flat=lambda b, x: shaped(b, x, (-1,))
).export_rules("""
ArgMax -> best("ARG_MAX", data, axis, keepdims, select_last_index)
ArgMin -> best("ARG_MIN", data, axis, keepdims, select_last_index)
Compress
    -> kept = int32(flat(WHERE(condition))); axis is None: GATHER(flat(input), kept, axis=0)
    -> GATHER(input, kept, axis=axis(axis, input))
ReverseSequence -> REVERSE_SEQUENCE(input, sequence_lens, seq_dim=time_axis, batch_dim=batch_axis)
""")
