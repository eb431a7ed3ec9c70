"""Which elements there are, and where, in OpenVINO: NonZero and Unique; tables of which only some entries are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.comparison import Not
from graphport.ops.definitions.indexing import Gather, NonZero, ScatterND, Unique
from graphport.ops.definitions.reduction import TopK
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.emitting import emits
from graphport.ops.lowering.operands import as_int64, cast, dtype_of, index, needed_integer, scalar

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


_COUNTED = frozenset({DType.BOOL, DType.FLOAT32, DType.INT32, DType.INT64, DType.UINT8})
"""Types that ONNX Runtime's NonZero supports."""
_SORTED = {
    DType.BOOL: DType.INT8,
    DType.FLOAT16: DType.FLOAT32,
    DType.BFLOAT16: DType.FLOAT32,
    DType.INT16: DType.INT64,
    DType.INT32: DType.INT64,
    DType.UINT8: DType.INT64,
    DType.UINT16: DType.INT64,
    DType.UINT32: DType.INT64,
}
"""Types that ONNX Runtime does not sort, with a supported wider type."""


def _countable(b: Builder, x: Value) -> Value:
    """Cast to a type that NonZero supports; a scalar becomes a vector."""
    x = x if b.dims(x) else b(Reshape, x, [1])
    return x if dtype_of(x) in _COUNTED else cast(b, x, DType.BOOL)


RULES.having(countable=_countable).lower("""
opset3.NonZero(x, *, output_type=None) -> cast(NonZero(countable(x)), output_type if output_type else int64)
""")
RULES.export_rules("""
NonZero
    -> rank(x) == 0: opset3.NonZero(emitted_reshape(x, [1]))
    -> opset3.NonZero(x)
""")


@lower("openvino", "opset10.Unique")
def unique(
    b: Builder,
    x: Value,
    axis: Value | None = None,
    *,
    sorted: bool = True,
    index_element_type: DType = DType.INT64,
    count_element_type: DType = DType.INT64,
) -> tuple[Value, ...]:
    """Unique elements or slices, the index of the first occurrence, the inverse indices, and the counts."""
    place = None if axis is None else needed_integer(axis, "the axis of Unique")
    dtype = dtype_of(x)
    given = cast(b, x, _SORTED.get(dtype, dtype))
    values, first, inverse, counts = b.results(Unique, 4, given, axis=place, sorted=int(sorted))
    index = index_element_type
    positions = cast(b, first, index), cast(b, inverse, index)
    return cast(b, values, dtype), *positions, cast(b, counts, count_element_type)


@Unique.export_rule("openvino")
def export_unique(b: Builder, x: Value, *, axis: int | None = None, sorted: int = 1) -> Exported:
    place = [] if axis is None else [index(b, axis)]
    return emits(b, "opset10.Unique", 4, x, *place, sorted=bool(sorted))


@lower("openvino", "opset16.SparseFillEmptyRows")
def sparse_fill_empty_rows(
    b: Builder, values: Value, dense_shape: Value, indices: Value, default: Value
) -> tuple[Value, ...]:
    """Add a default entry in the first column of each empty row of a sparse matrix [rows, columns].

    `values` [m] are at `indices` [m, 2]; results are the sorted indices [n, 2], the values [n], and which rows were
    empty [rows]. Duplicate indices keep their order.

    Source: OpenVINO SparseFillEmptyRows-16.
    """
    if len(b.dims(values)) != 1 or len(b.dims(indices)) != 2:
        message = f"values have rank {len(b.dims(values))} and indices rank {len(b.dims(indices))}, expected 1 and 2"
        raise ShapeError(message)
    entries, named = b.dims(values, at_least=1)[0], b.dims(indices, at_least=1)[0]
    if isinstance(entries, int) and isinstance(named, int) and entries != named:
        message = f"{entries} values for {named} indices, expected equal counts"
        raise ShapeError(message)
    int_indices = as_int64(b, indices)
    length = b(Gather, as_int64(b, dense_shape), [0])
    is_empty = _without(b, b(Gather, int_indices, 0, axis=1), length)
    empty = b(Reshape, b(NonZero, is_empty), [-1, 1])
    count = b(Shape, empty, start=0, end=1)
    first = b(Concat, empty, _fill(b, 0, b(Shape, empty)), axis=1)
    every = b(Concat, int_indices, first, axis=0)
    own = b(Expand, b(Reshape, default, [1]), count)
    numbers = b(Concat, values, own, axis=0)
    order = _row_by_row(b, every)
    found = cast(b, b(Gather, every, order), dtype_of(indices))
    return (found, b(Gather, numbers, order), is_empty)[: b.count]


def _fill(b: Builder, number: int, shape: Value) -> Value:
    return b(Expand, scalar(b, number, DType.INT64), shape)


def _without(b: Builder, rows: Value, length: Value) -> Value:
    """Return a mask [length] of the integers that are not in `rows`."""
    at = b(Unsqueeze, rows, [1])
    # A row may occur more than once, so all updates of a row are equal.
    held = b(ScatterND, _fill(b, 0, length), at, _fill(b, 1, b(Shape, rows)), reduction="max")
    return b(Not, cast(b, held, DType.BOOL))


def _row_by_row(b: Builder, indices: Value) -> Value:
    """Return the permutation that sorts `indices` [n, 2] by row, then by column (two stable sorts).

    One key of both would not fit into the integers of large tables.
    """
    by_column = _in_order(b, b(Gather, indices, 1, axis=1))
    rows = b(Gather, b(Gather, indices, 0, axis=1), by_column)
    return b(Gather, by_column, _in_order(b, rows))


def _in_order(b: Builder, keys: Value) -> Value:
    return b.results(TopK, 2, keys, b(Shape, keys), largest=0)[1]
