"""Import rules of gather, scatter and table lookups of TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import Operator, dequantized, import_rule, nearest
from graphport.formats.tflite.rules.comparison import select_elements
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, BitCast, Div, Max, Min, Mul, Sqrt
from graphport.ops.definitions.comparison import Equal, GreaterOrEqual, Less, Where
from graphport.ops.definitions.indexing.gathering import Gather, GatherND
from graphport.ops.definitions.indexing.indices import OneHot, Unique
from graphport.ops.definitions.indexing.regions import ReverseSequence
from graphport.ops.definitions.indexing.scattering import ScatterElements, ScatterND
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reduction.indices import ArgMax
from graphport.ops.definitions.reduction.reduce import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Reshape, Shape, Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat, Expand
from graphport.ops.lowering.operands import (
    as_index,
    as_int64,
    as_scalar,
    as_vector,
    cast,
    dtype_of,
    finite_limits,
    reshaped,
    scalar,
    sizes,
    transposed,
    vector,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_SEARCHED = frozenset((DType.BOOL, DType.FLOAT32, DType.INT32, DType.INT64))
_SUMMED = frozenset((DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64))


@import_rule("GATHER", moves=True, layout="picks")
def gather(op: Operator) -> Value:
    """GATHER: slices by index along an axis, with `batch_dims` leading batch axes."""
    b, x = op.b, op[0]
    indices = as_index(b, op.raw(1))
    rank, depth = len(b.dims(x)), len(op.dims(1))
    axis, batch = int(op.option("axis")), int(op.option("batch_dims"))
    axis, batch = axis + rank * (axis < 0), batch + depth * (batch < 0)
    if not 0 <= batch <= min(depth, axis) or not axis < rank:
        message = f"axis {axis} and batch_dims {batch} for an operand of rank {rank} and indices of rank {depth}"
        raise ShapeError(message, "expected batch_dims <= axis < operand rank, and batch_dims <= rank of the indices")
    if not batch:
        return b(Gather, x, indices, axis=axis)
    permuted = transposed(b, x, (*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)))
    found = b(GatherND, permuted, b(Unsqueeze, as_int64(b, indices), [-1]), batch_dims=batch)
    moved, middle = depth - batch, axis - batch
    order = [
        *range(batch),
        *range(depth, depth + middle),
        *range(batch, batch + moved),
        *range(depth + middle, rank + depth - batch - 1),
    ]
    return transposed(b, found, order)


RULES.lower("GATHER_ND(x, places) -> GatherND(x, int64(places))", moves=True)


@import_rule("SCATTER_ND", moves=(1,))
def scatter_nd(op: Operator) -> Value:
    """SCATTER_ND: add updates to zeros. Operands: indices, updates, shape."""
    b, updates = op.b, op[1]
    own = dtype_of(updates)
    wide = own if own in _SUMMED else DType.INT32
    zeros = b(Expand, scalar(b, 0, wide), as_vector(b, op.raw(2)))
    indices = as_int64(b, op.raw(0))
    return cast(b, b(ScatterND, zeros, indices, cast(b, updates, wide), reduction="add"), own)


@import_rule("ONE_HOT", is_raw=True)
def one_hot(op: Operator) -> Value:
    """ONE_HOT: `on` where the index along a new axis equals the element, else `off`; negative indices never match."""
    b = op.b
    indices, depth = as_int64(b, op.raw(0)), as_scalar(b, as_int64(b, op.raw(1)))
    indices = b(Where, b(Less, indices, 0), depth, indices)
    on, off = (reshaped(b, op.raw(index), (1,)) for index in (2, 3))
    own = dtype_of(on)
    # Index types that ONNX Runtime's OneHot supports.
    wide = DType.FLOAT32 if own is DType.FLOAT32 else DType.INT64
    values = b(Concat, cast(b, off, wide), cast(b, on, wide), axis=0)
    return cast(b, b(OneHot, indices, depth, values, axis=int(op.option("axis", -1))), own)


# WHERE: the indices of nonzero elements, one row each.
RULES.having(searched=lambda b, x: cast(b, x, nearest(dtype_of(x), _SEARCHED))).lower(
    "WHERE(x) -> Transpose(NonZero(searched(x)), perm=(1, 0))", is_raw=True
)


@import_rule("UNIQUE", moves=True)
def unique(op: Operator) -> tuple[Value, Value]:
    """UNIQUE: distinct elements in order of first occurrence, and the inverse indices."""
    b, x = op.b, op[0]
    own = dtype_of(x)
    wide = cast(b, x, DType.INT64) if own.is_integer and own is not DType.INT64 else x
    values, _, indices, _ = b.results(Unique, 4, wide, sorted=0)
    return cast(b, values, own), cast(b, indices, op.type_of(1) or DType.INT32)


@import_rule("REVERSE_SEQUENCE", moves=True)
def reverse_sequence(op: Operator) -> Value:
    """REVERSE_SEQUENCE: reverse the first elements of each sequence by its length."""
    b, x, rank = op.b, op[0], len(op.dims(0))
    time, batch = (int(op.option(name)) % max(rank, 1) for name in ("seq_dim", "batch_dim"))
    if time == batch:
        message = f"seq_dim and batch_dim are both {time}"
        raise ShapeError(message, "expected different axes")
    order = [batch, time, *[axis for axis in range(rank) if axis not in (batch, time)]]
    found = b(ReverseSequence, transposed(b, x, order), as_int64(b, op.raw(1)), batch_axis=0, time_axis=1)
    return transposed(b, found, [order.index(axis) for axis in range(rank)])


@import_rule("DYNAMIC_UPDATE_SLICE", moves=(0, 1))
def dynamic_update_slice(op: Operator) -> Value:
    """DYNAMIC_UPDATE_SLICE: replace a slice of x; the start is clamped so that the slice fits."""
    b, x, update = op.b, op[0], op[1]
    dims, own = sizes(b.dims(x), "the updated tensor"), sizes(b.dims(update), "the update")
    starts = as_vector(b, op.raw(2))
    if len(dims) != len(own) or any(n < k for n, k in zip(dims, own, strict=True)):
        message = f"the update has shape {list(own)}, the operand has shape {list(dims)}"
        raise ShapeError(message, "expected equal ranks, and no update dim above the operand dim")
    room = [n - k for n, k in zip(dims, own, strict=True)]
    starts = b(Max, b(Min, starts, vector(b, room)), vector(b, [0] * len(room)))
    strides = [int(np.prod(dims[axis + 1 :], dtype=np.int64)) for axis in range(len(dims))]
    grid = np.ravel_multi_index(np.indices(bounded(own)), dims) if dims else np.zeros(1, np.int64)
    at = b(ReduceSum, b(Mul, starts, vector(b, strides)), keepdims=1)
    indices = b(Add, vector(b, grid.reshape(-1).tolist()), at)
    flat = b(ScatterElements, b(Reshape, x, [-1]), indices, b(Reshape, update, [-1]))
    return b(Reshape, flat, dims)


# Matrices


@import_rule("MATRIX_DIAG", moves=True)
def matrix_diag(op: Operator) -> Value:
    """MATRIX_DIAG: matrices with the vectors as diagonals, zero elsewhere."""
    b, x = op.b, op[0]
    (n,) = sizes(b.dims(x, at_least=1)[-1:], "the diagonal")
    return _diagonal(b, b(Unsqueeze, x, [-2]), b.like(x, 0), n, n)


@import_rule("MATRIX_SET_DIAG", moves=(0, 1))
def matrix_set_diag(op: Operator) -> Value:
    """MATRIX_SET_DIAG: replace the diagonals of matrices."""
    b, x, diagonal = op.b, op[0], op[1]
    rows, columns = sizes(b.dims(x, at_least=2)[-2:], "the matrices")
    # The diagonal has the length of the shorter side.
    axis = -2 if columns <= rows else -1
    return _diagonal(b, b(Unsqueeze, diagonal, [axis]), x, rows, columns)


def _diagonal(b: Builder, inside: Value, outside: Value, rows: int, columns: int) -> Value:
    return select_elements(b, b.constant(np.eye(*bounded((rows, columns)), dtype=bool)), inside, outside)


# Tables


@import_rule("SPARSE_TO_DENSE", moves=(2, 3))
def sparse_to_dense(op: Operator) -> Value:
    """SPARSE_TO_DENSE. Operands: indices, shape, values, default value."""
    b, shape = op.b, as_vector(op.b, op.raw(1))
    values, default = op[2], as_scalar(op.b, op[3])
    indices, rank = as_int64(b, op.raw(0)), len(op.dims(0))
    if rank < 2:
        indices = reshaped(b, indices, (1, 1) if not rank else (-1, 1))
    count = b.dims(indices, at_least=1)[0]
    if not b.dims(values):
        values = b(Expand, values, vector(b, [count]) if isinstance(count, int) else b(Shape, indices, end=1))
    return b(ScatterND, b(Expand, default, shape), indices, values)


def _neutral_element(dtype: DType, reduction: str) -> object:
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    return finite_limits(dtype)[0 if reduction == "max" else 1]


def _gathered_up(b: Builder, x: Value, numbers: Value, count: Value, reduction: str) -> Value:
    """Combine rows of `x` by segment index with `reduction`; rows with a negative index are dropped."""
    rank = len(b.dims(numbers))
    rest = b.dims(x)[rank:]
    if rank != 1:
        known = sizes(rest, "a row")
        x, numbers = reshaped(b, x, (-1, *known)), reshaped(b, numbers, (-1,))
    numbers = b(Where, b(Less, numbers, 0), count, numbers)
    rows = reshaped(b, b(Add, count, 1), (1,))
    shape = rows if not rest else b(Concat, rows, b(Shape, x, start=1), axis=0)
    own = dtype_of(x)
    start = b(Expand, b.constant(np.asarray(_neutral_element(own, reduction)).astype(own.numpy), own), shape)
    found = b(ScatterND, start, b(Unsqueeze, numbers, [-1]), x, reduction=reduction)
    return b(Slice, found, vector(b, [0]), reshaped(b, count, (1,)), [0])


RULES.having(gathered_up=_gathered_up).lower("""
UNSORTED_SEGMENT_SUM(x, numbers, count) -> gathered_up(x, int64(numbers), scalar(int64(count)), "add")
UNSORTED_SEGMENT_PROD(x, numbers, count) -> gathered_up(x, int64(numbers), scalar(int64(count)), "mul")
UNSORTED_SEGMENT_MAX(x, numbers, count) -> gathered_up(x, int64(numbers), scalar(int64(count)), "max")
UNSORTED_SEGMENT_MIN(x, numbers, count) -> gathered_up(x, int64(numbers), scalar(int64(count)), "min")
# There are as many as the largest number says.
SEGMENT_SUM(x, numbers) -> gathered_up(x, int64(numbers), Add(ReduceMax(int64(numbers), keepdims=0), 1), "add")
""")


@import_rule("EMBEDDING_LOOKUP")
def embedding_lookup(op: Operator) -> Value:
    """EMBEDDING_LOOKUP: rows of a table. Operands: row indices, table."""
    b, quantization = op.b, op.quantization(1)
    indices = as_index(b, op.raw(0))
    if dtype_of(op.raw(1)) is DType.UINT8 and op.types[0] is DType.FLOAT32 and quantization is not None:
        # This kernel reads uint8 as int8.
        rows = b(Gather, b(BitCast, op.raw(1), to=DType.INT8), indices, axis=0)
        return b(Mul, cast(b, rows, DType.FLOAT32), quantization[2][0])
    if quantization is None or quantization[1] > 0:
        return b(Gather, op[1], indices, axis=0)
    if quantization[1] < 0:
        return dequantized(b, b(Gather, op.widened(1), indices, axis=0), (dtype_of(op.widened(1)), *quantization[1:]))
    rows = b(Gather, op.widened(1), indices, axis=0)
    rank = len(op.dims(1))
    scale = b.constant(np.array(quantization[2], np.float32).reshape(-1, *[1] * (rank - 1)))
    return b(Mul, cast(b, rows, DType.FLOAT32), b(Gather, scale, indices, axis=0))


_MEAN, _ROOT = 1, 2


@import_rule("EMBEDDING_LOOKUP_SPARSE", is_raw=True)
def embedding_lookup_sparse(op: Operator) -> Value:
    """EMBEDDING_LOOKUP_SPARSE: weighted rows of a table, summed by output position.

    Operands: row indices, positions, output shape, weights and table.
    """
    b, combiner = op.b, int(op.option("combiner"))
    rows, indices, extents, weights, table = (op.raw(index) for index in range(5))
    depth = sizes(b.dims(indices)[1:], "an index")[0]
    width = sizes(b.dims(table)[1:], "a row")
    lengths = b(Slice, as_int64(b, extents), [0], [depth - 1])
    shape = b(Concat, lengths, vector(b, width), axis=0) if width else lengths
    spread = b(Unsqueeze, weights, list(range(1, 1 + len(width))))
    products = b(Mul, b(Gather, table, as_index(b, rows), axis=0), spread)
    own = b(Slice, as_int64(b, indices), [0], [depth - 1], [1])
    zero = scalar(b, 0, DType.FLOAT32)
    total = b(ScatterND, b(Expand, zero, shape), own, products, reduction="add")
    if combiner in (_MEAN, _ROOT):
        counted = weights if combiner == _MEAN else b(Mul, weights, weights)
        sums = b(ScatterND, b(Expand, zero, lengths), own, counted, reduction="add")
        sums = sums if combiner == _MEAN else b(Sqrt, sums)
        is_none = b(Equal, sums, 0)
        sums = b(Where, is_none, 1, sums)
        total = b(Div, total, b(Unsqueeze, sums, list(range(depth - 1, depth - 1 + len(width)))))
    return total


@import_rule("HASHTABLE_LOOKUP", moves=(2,))
def hashtable_lookup(op: Operator) -> tuple[Value, Value]:
    """HASHTABLE_LOOKUP: rows of a table by key (zeros if absent), and whether each key was found."""
    b, values = op.b, op[2]
    is_found = b(Equal, b(Unsqueeze, op.raw(0), [1]), b(Unsqueeze, op.raw(1), [0]))
    hits = cast(b, is_found, DType.INT32)
    found = b(ReduceMax, hits, [1], keepdims=0)
    rows = b(Gather, values, b(ArgMax, hits, axis=1, keepdims=0), axis=0)
    rank = len(b.dims(values))
    there = b(Equal, reshaped(b, found, (-1, *[1] * (rank - 1))), 1)
    is_text = dtype_of(values) is DType.STRING
    nothing = b.constant(np.array("", object), DType.STRING) if is_text else b.like(values, 0)
    rows = b(Where, there, rows, nothing)
    return rows, cast(b, found, DType.UINT8)


@import_rule("HASHTABLE_FIND", is_raw=True)
def hashtable_find(op: Operator) -> Value:
    """HASHTABLE_FIND: table values by key, with a default number or string.

    Operands: the table's keys and values, which the graph pass substituted for its handle, then keys and default.
    """
    b = op.b
    if op.count != _SEARCH:
        message = "a lookup table with unknown contents"
        raise UnsupportedError(message)
    keys, values, asked, default = (op.raw(index) for index in range(_SEARCH))
    rank = len(b.dims(asked))
    hits = cast(b, b(Equal, b(Unsqueeze, asked, [rank]), keys), DType.INT32)
    found = b(Equal, b(ReduceMax, hits, [rank], keepdims=0), 1)
    return b(Where, found, b(Gather, values, b(ArgMax, hits, axis=rank, keepdims=0), axis=0), default)


_SEARCH = 4


@import_rule("BUCKETIZE", is_raw=True)
def bucketize(op: Operator) -> Value:
    """BUCKETIZE: the number of boundaries that do not exceed each element."""
    b, x = op.b, op.raw(0)
    boundaries = np.array(op.option("boundaries", ()), np.float32)
    wide = x if dtype_of(x) is DType.FLOAT32 else cast(b, x, DType.FLOAT32)
    is_above = b(GreaterOrEqual, b(Unsqueeze, wide, [-1]), b.constant(boundaries))
    return b(ReduceSum, cast(b, is_above, DType.INT32), [-1], keepdims=0)
