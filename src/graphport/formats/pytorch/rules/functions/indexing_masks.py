"""Masks, tables and diagonals of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axis_of, bounded, emits, length, scalar_of
from graphport.formats.pytorch.rules.functions.indexing_slices import Answer
from graphport.formats.pytorch.rules.promotion import cast
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Compress, Gather, ScatterND, Unique
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.operands import as_int64, dtype_of, transposed
from graphport.ops.pattern import constant_numbers
from graphport.ops.shapes import broadcast


@emits("torch.masked_select", "aten::masked_select")
def masked_select(b: Builder, input: Value, mask: Value) -> Value:
    dims = broadcast(b.dims(input), b.dims(mask))
    wide = [
        each if b.dims(each) == dims else b(Expand, each, [length(dims, a) for a in range(len(dims))])
        for each in (input, mask)
    ]
    flat = [b(Reshape, each, [-1]) for each in wide]
    return b(Compress, flat[0], flat[1], axis=0)


PNNX.lower("""
# Entries where the mask is true become those of `source`, one after another.
torch.masked_scatter, aten::masked_scatter, aten::masked_scatter_(input, mask, source)
    -> ScatterND(input, Transpose(places := NonZero(Expand(mask, Shape(input))), perm=(1, 0)),
                 Slice(Reshape(source, [-1]), [0], Shape(places, start=1), [0]))
aten::embedding(weight, indices, padding_idx: ignored = None, scale: ignored = None, sparse: ignored = None)
    -> Gather(weight, indices)
Tensor.item, aten::item(input)
    -> rank(input) > 0: Reshape(input, [])
    -> input
""")


@emits("torch.diagonal_scatter", "aten::diagonal_scatter")
def diagonal_scatter(b: Builder, input: Value, src: Value, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Value:
    """Write `src` to a diagonal of a matrix."""
    if len(b.dims(input)) != 2 or (axis_of(scalar_of(dim1), 2), axis_of(scalar_of(dim2), 2)) != (0, 1):
        message = "diagonal_scatter of a tensor whose rank is not 2, or of swapped axes"
        raise UnsupportedError(message)
    rows, columns = (length(b.dims(input), axis) for axis in (0, 1))
    k = int(scalar_of(offset))
    row, column = max(-k, 0), max(k, 0)
    count = max(min(rows - row, columns - column), 0)
    indices = np.arange(bounded(count), dtype=np.int64)
    return b(ScatterND, input, b.constant(np.stack([indices + row, indices + column], axis=1)), src)


PNNX.lower(
    """
# ONNX has an index for a tensor of rank 0, PyTorch has none.
torch.nonzero, aten::nonzero, torch.argwhere, aten::argwhere(input)
    -> rank(input) == 0: Slice(Transpose(NonZero(Reshape(input, [1])), perm=(1, 0)), [0], [0], [1])
    -> Transpose(NonZero(input), perm=(1, 0))
""",
    ignores=("as_tuple",),
)


def _sorted_unique(b: Builder, x: Value, axis: int | None) -> Answer:
    """Return the sorted distinct elements, the index of each element among them, and their counts."""
    own = dtype_of(x)
    # ONNX Runtime has kernels of Unique for int8 and int64.
    given = cast(b, x, DType.INT64) if own.kind in "iub" and own is not DType.UINT64 else x
    if b.count == 1:
        return cast(b, b(Unique, given, axis=axis), own)
    values, _, inverse, counts = b.results(Unique, 4, given, axis=axis)
    return cast(b, values, own), b(Reshape, inverse, b(Shape, x)) if axis is None else inverse, counts


@emits("aten::_unique2", "torch.unique")
def unique(
    b: Builder, input: Value, sorted: Any = True, return_inverse: Any = False, return_counts: Any = False
) -> Answer:
    del sorted, return_inverse, return_counts
    return _sorted_unique(b, input, None)


@emits("aten::unique_dim")
def unique_dim(
    b: Builder, input: Value, dim: Any, sorted: Any = True, return_inverse: Any = False, return_counts: Any = False
) -> Answer:
    del sorted, return_inverse, return_counts
    return _sorted_unique(b, input, axis_of(scalar_of(dim), len(b.dims(input))))


PNNX.lower(
    "nn.Embedding, F.embedding(input, weight) -> Gather(weight, input)",
    ignores=("num_embeddings", "embedding_dim", "sparse", "scale_grad_by_freq", "padding_idx"),
)


PNNX.lower("""
aten::one_hot, F.one_hot, torch.one_hot(input, num_classes=-1)
    -> num_classes < 0: unsupported("the number of classes is the largest of them")
    -> OneHot(input, index(num_classes), [0, 1])
""")


def _shift(b: Builder, diagonal: Any) -> Value:
    """Return the offset of a diagonal, possibly computed at run time."""
    if isinstance(diagonal, Value) and constant_numbers(diagonal) is None:
        return as_int64(b, diagonal)
    return b.constant(int(scalar_of(diagonal)), DType.INT64)


PNNX.having(shift=_shift).lower("""
torch.tril, aten::tril(input, diagonal: any = 0) -> Trilu(input, shift(diagonal), upper=0)
torch.triu, aten::triu(input, diagonal: any = 0) -> Trilu(input, shift(diagonal))
""")


@emits("torch.diagonal", "aten::diagonal")
def diagonal_of(b: Builder, input: Value, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Value:
    rank = len(b.dims(input))
    i, j, k = axis_of(scalar_of(dim1), rank), axis_of(scalar_of(dim2), rank), int(scalar_of(offset))
    x = transposed(b, input, [*(a for a in range(rank) if a not in (i, j)), i, j])
    flat = b(Reshape, x, b(Concat, b(Shape, x, start=0, end=rank - 2), [-1], axis=0))
    if any(not isinstance(n, int) for n in b.dims(x)[-2:]):
        return b(Gather, flat, _diagonal_indices(b, x, k), axis=rank - 2)
    rows, columns = length(b.dims(x), rank - 2), length(b.dims(x), rank - 1)
    count = max(min(rows, columns - k) if k >= 0 else min(rows + k, columns), 0)
    first = k if k >= 0 else -k * columns
    indices = first + np.arange(bounded(count), dtype=np.int64) * (columns + 1)
    return b(Gather, flat, b.constant(indices), axis=rank - 2)


def _diagonal_indices(b: Builder, x: Value, k: int) -> Value:
    """Return the flat indices of a diagonal of dynamic matrices."""
    rows, columns = (
        b(Reshape, b(Shape, x, start=axis, **({} if axis == -1 else {"end": axis + 1})), []) for axis in (-2, -1)
    )
    count = b(Min, b(Sub, rows, b.like(rows, max(-k, 0))), b(Sub, columns, b.like(columns, max(k, 0))))
    steps = b(Range, b.like(count, 0), b(Max, count, 0), 1)
    first = b.like(columns, k) if k >= 0 else b(Mul, columns, -k)
    return b(Add, b(Mul, steps, b(Add, columns, 1)), first)


@emits("torch.diag", "aten::diag")
def diag(b: Builder, input: Value, diagonal: Any = 0) -> Value:
    k = int(scalar_of(diagonal))
    return diag_embed(b, input, k) if len(b.dims(input)) == 1 else diagonal_of(b, input, k)


@emits("torch.diag_embed", "aten::diag_embed")
def diag_embed(b: Builder, input: Value, offset: Any = 0, dim1: Any = -2, dim2: Any = -1) -> Value:
    """Embed the last axis as a diagonal of a zero matrix."""
    dims, k = b.dims(input), int(scalar_of(offset))
    rank = len(dims) + 1
    plane_axes = axis_of(scalar_of(dim1), rank), axis_of(scalar_of(dim2), rank)
    if plane_axes[0] == plane_axes[1]:
        message = f"dim1 and dim2 are equal: axis {plane_axes[0]}"
        raise ShapeError(message)
    if plane_axes != (rank - 2, rank - 1) or not isinstance(dims[-1], int) or not dims[-1]:
        y, others = _with_zeros_around(b, input, k), iter(range(rank - 2))
        last = dict(zip(plane_axes, (rank - 2, rank - 1), strict=True))
        return transposed(b, y, [last[axis] if axis in last else next(others) for axis in range(rank)])
    count = dims[-1]
    size = count + abs(k)
    indices = np.full(bounded(size * size), count, np.int64)
    rows = np.arange(count) + max(-k, 0)
    indices[rows * size + np.arange(count) + max(k, 0)] = np.arange(count)
    zero = b(Expand, b.like(input, 0), b(Concat, b(Shape, input, start=0, end=-1), [1], axis=0))
    wide = b(Concat, input, zero, axis=-1)
    flat = b(Gather, wide, b.constant(indices), axis=len(dims) - 1)
    return b(Reshape, flat, b(Concat, b(Shape, input, start=0, end=-1), [size, size], axis=0))


def _with_zeros_around(b: Builder, x: Value, k: int) -> Value:
    """Embed the last axis as the diagonal `k` of a matrix: pad each element to a row, flatten, crop and reshape."""
    rank = len(b.dims(x))
    pads = [0] * (rank - 1) + [max(-k, 0)] + [0] * (rank - 1) + [max(k, 0)]
    rows = b(Pad, x, pads, 0) if k else x
    count = b(Reshape, b(Shape, rows, start=-1), [])
    steps = b(Range, 0, count, 1)
    shift = b(Sub, steps, b(Unsqueeze, steps, [1]))
    return b(Where, b(Equal, shift, k), b(Unsqueeze, rows, [-1]), 0)
