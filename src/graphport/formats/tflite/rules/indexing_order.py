"""Export rules of sorting and unique elements to TFLite."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.emitting import (
    NUMERIC_TYPES,
    cast_to,
    extent,
    in_int32,
    ints,
    lengths_of,
    shaped,
    transposed_constant,
)
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.indexing import indices
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.operands import dtype_of, integers, sizes
from graphport.ops.views.reduction import TopKView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"


@TopKView.export_rule("tflite")
def export_top_k(b: Builder, op: TopKView) -> Exported:
    rank, own = len(b.dims(op.x)), dtype_of(op.x)
    order = [*(each for each in range(rank) if each != op.axis % rank), op.axis % rank]
    back = [order.index(each) for each in range(rank)]
    known = integers(op.k)
    count = ints(b, known[0]) if known else in_int32(b, shaped(b, op.k, ()))
    given = transposed_constant(b, _to_sortable(b, op.x), order)
    wide = dtype_of(given)
    given = given if op.largest else _reverse_order(b, given)
    values, numbers = emits(b, "TOPK_V2", 2, given, count, types=(wide, DType.INT32))
    values = transposed_constant(b, values if op.largest else _reverse_order(b, values), back)
    return _from_sortable(b, values, own), cast_to(b, transposed_constant(b, numbers, back), DType.INT64)


def _to_sortable(b: Builder, x: Value) -> Value:
    """Convert elements to a type that TFLite can sort, in equal order; uint64 as int64 minus 2^63."""
    own = dtype_of(x)
    if own is DType.UINT64:
        return b(Add, cast_to(b, x, DType.INT64), b.constant(np.iinfo(np.int64).min, DType.INT64))
    return cast_to(b, x, own if own in NUMERIC_TYPES else _SORTED.get(own, DType.FLOAT32))


def _from_sortable(b: Builder, x: Value, own: DType) -> Value:
    """Invert `_to_sortable`: convert sorted elements back to the type `own`."""
    return cast_to(b, b(Add, x, b.like(x, np.iinfo(np.int64).min)) if own is DType.UINT64 else x, own)


def _reverse_order(b: Builder, x: Value) -> Value:
    """Reverse the order of elements: -x for floats, -1 - x for integers, whose minimum has no negation."""
    return emit(b, "NEG", x) if dtype_of(x).is_floating else emit(b, "SUB", b.like(x, -1), x)


_SORTED = {
    **dict.fromkeys((DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16), DType.INT32),
    DType.UINT32: DType.INT64,
}


@indices.Unique.export_rule("tflite")
def export_unique(b: Builder, x: Value, *, axis: int | None = None, sorted: int = 1) -> Exported:
    """Export Unique: distinct elements in order of first occurrence, then sorted."""
    if axis is not None and len(b.dims(x)) > 1:
        return _distinct_rows(b, x, axis % len(b.dims(x)), is_sorted=bool(sorted))
    flat = _to_sortable(b, shaped(b, x, (-1,)))
    wide = dtype_of(flat)
    values, which = emits(b, "UNIQUE", 2, flat, idx_out_type=2, types=(wide, DType.INT32))
    count = shaped(b, lengths_of(b, values), ())
    table = emit(b, "ONE_HOT", which, count, ints(b, 1), ints(b, 0), axis=-1)
    begins = emit(b, "ARG_MAX", table, ints(b, 0), output_type=2, types=(DType.INT32,))
    counts = emit(b, "SUM", table, ints(b, [0]), keep_dims=False)
    if sorted:
        _, order = emits(b, "TOPK_V2", 2, _reverse_order(b, values), count, types=(wide, DType.INT32))
        _, ranks = emits(b, "TOPK_V2", 2, emit(b, "NEG", order), count, types=(DType.INT32, DType.INT32))
        values, begins, counts = (emit(b, "GATHER", each, order, axis=0) for each in (values, begins, counts))
        which = emit(b, "GATHER", ranks, which, axis=0)
    return _from_sortable(b, values, dtype_of(x)), *(cast_to(b, each, DType.INT64) for each in (begins, which, counts))


def _distinct_rows(b: Builder, x: Value, axis: int, *, is_sorted: bool) -> Exported:
    """Distinct slices along an axis: compare all pairs, ordered by the first differing element."""
    rank = len(b.dims(x))
    order = [axis, *(each for each in range(rank) if each != axis)]
    rows = _flat_rows(b, transposed_constant(b, _to_sortable(b, x), order))
    pair = emit(b, "EXPAND_DIMS", rows, ints(b, 1)), emit(b, "EXPAND_DIMS", rows, ints(b, 0))
    signs = emit(b, "SUB", *(cast_to(b, emit(b, op_type, *pair), DType.INT32) for op_type in ("GREATER", "LESS")))
    before = emit(b, "CUMSUM", emit(b, "MUL", signs, signs), ints(b, 2), exclusive=True, reverse=False)
    first = emit(b, "SELECT_V2", emit(b, "EQUAL", before, 0), signs, b.like(signs, 0))
    compared = emit(b, "SUM", first, ints(b, [2]), keep_dims=False)  # 1 where row i is above row j
    same = cast_to(b, emit(b, "EQUAL", compared, 0), DType.INT32)
    begin = emit(b, "ARG_MAX", same, ints(b, 1), output_type=2, types=(DType.INT32,))
    n = extent(b, x, axis)
    numbers = emit(b, "RANGE", ints(b, 0), ints(b, n) if isinstance(n, int) else n, ints(b, 1))
    is_first = emit(b, "EQUAL", begin, numbers)
    ones = cast_to(b, is_first, DType.INT32)
    if is_sorted:
        below = emit(b, "MUL", cast_to(b, emit(b, "GREATER", compared, 0), DType.INT32), ones)
        which = emit(b, "SUM", below, ints(b, [1]), keep_dims=False)
    else:
        which = emit(b, "GATHER", emit(b, "CUMSUM", ones, ints(b, 0), exclusive=True, reverse=False), begin, axis=0)
    begins = cast_to(b, shaped(b, emit(b, "WHERE", is_first), (-1,)), DType.INT32)
    if is_sorted:
        ranks = emit(b, "SUB", b.like(which, -1), emit(b, "GATHER", which, begins, axis=0))
        count = emit(b, "SUM", ones, ints(b, [0]), keep_dims=False)
        _, sorted_rows = emits(b, "TOPK_V2", 2, ranks, count, types=(DType.INT32, DType.INT32))
        begins = emit(b, "GATHER", begins, sorted_rows, axis=0)
    counts = emit(b, "GATHER", emit(b, "SUM", same, ints(b, [1]), keep_dims=False), begins, axis=0)
    found = b(Gather, x, begins, axis=axis)
    return found, *(cast_to(b, each, DType.INT64) for each in (begins, which, counts))


def _flat_rows(b: Builder, x: Value) -> Value:
    """Reshape a tensor to rows, one for each index of the first axis."""
    dims = b.dims(x)
    n = dims[0] if isinstance(dims[0], int) else -1
    return shaped(b, x, (n, prod(sizes(dims[1:], "the rows"))))
