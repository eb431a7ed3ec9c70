"""Masks, tables and diagonals of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.operands import as_int64
from graphport.ops.dialects.pnnx.indexing_slices import Answer
from graphport.ops.dialects.pnnx.reshape_shapes import moved
from graphport.ops.dialects.torch_functions import axis_of, bounded, emits, length, number, vector
from graphport.ops.dialects.torch_rows import PNNX
from graphport.ops.pages.indexing import Compress, Gather, ScatterND, Unique
from graphport.ops.pages.reshape import Concat, Expand, Reshape, Shape
from graphport.ops.pattern import constant_numbers
from graphport.ops.shapes import broadcast


@emits("torch.masked_select", "aten::masked_select")
def masked_select(b: Builder, input: Value, mask: Value) -> Value:
    dims = broadcast(b.dims(input), b.dims(mask))
    wide = [
        each if b.dims(each) == dims else b(Expand, each, vector(b, [length(dims, a) for a in range(len(dims))]))
        for each in (input, mask)
    ]
    flat = [b(Reshape, each, vector(b, [-1])) for each in wide]
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
    """Of a matrix."""
    if len(b.dims(input)) != 2 or (axis_of(number(dim1), 2), axis_of(number(dim2), 2)) != (0, 1):
        message = "a diagonal of more than a matrix"
        raise UnsupportedError(message)
    rows, columns = (length(b.dims(input), axis) for axis in (0, 1))
    k = int(number(offset))
    row, column = max(-k, 0), max(k, 0)
    count = max(min(rows - row, columns - column), 0)
    places = np.arange(bounded(count), dtype=np.int64)
    return b(ScatterND, input, b.constant(np.stack([places + row, places + column], axis=1)), src)


PNNX.lower(
    "torch.nonzero, aten::nonzero, torch.argwhere, aten::argwhere(input) -> Transpose(NonZero(input), perm=(1, 0))",
    ignores=("as_tuple",),
)


@emits("aten::_unique2", "torch.unique")
def unique(
    b: Builder, input: Value, sorted: Any = True, return_inverse: Any = False, return_counts: Any = False
) -> Answer:
    del sorted, return_inverse, return_counts
    if b.count == 1:
        return b(Unique, input)
    values, _, inverse, counts = b.results(Unique, 4, input)
    return values, b(Reshape, inverse, b(Shape, input)), counts


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
    """By how many columns a diagonal is moved, which may be computed."""
    if isinstance(diagonal, Value) and constant_numbers(diagonal) is None:
        return as_int64(b, diagonal)
    return b.constant(int(number(diagonal)), DType.INT64)


PNNX.having(shift=_shift).lower("""
torch.tril, aten::tril(input, diagonal: any = 0) -> Trilu(input, shift(diagonal), upper=0)
torch.triu, aten::triu(input, diagonal: any = 0) -> Trilu(input, shift(diagonal))
""")


@emits("torch.diagonal", "aten::diagonal")
def diagonal_of(b: Builder, input: Value, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Value:
    rank = len(b.dims(input))
    i, j, k = axis_of(number(dim1), rank), axis_of(number(dim2), rank), int(number(offset))
    x = moved(b, input, [*(a for a in range(rank) if a not in (i, j)), i, j])
    rows, columns = length(b.dims(x), rank - 2), length(b.dims(x), rank - 1)
    count = max(min(rows, columns - k) if k >= 0 else min(rows + k, columns), 0)
    flat = b(Reshape, x, b(Concat, b(Shape, x, start=0, end=rank - 2), vector(b, [-1]), axis=0))
    first = k if k >= 0 else -k * columns
    places = first + np.arange(bounded(count), dtype=np.int64) * (columns + 1)
    return b(Gather, flat, b.constant(places), axis=rank - 2)


@emits("torch.diag", "aten::diag")
def diag(b: Builder, input: Value, diagonal: Any = 0) -> Value:
    k = int(number(diagonal))
    return diag_embed(b, input, k) if len(b.dims(input)) == 1 else diagonal_of(b, input, k)


@emits("torch.diag_embed", "aten::diag_embed")
def diag_embed(b: Builder, input: Value, offset: Any = 0, dim1: Any = -2, dim2: Any = -1) -> Value:
    """Zeros around the last axis on a diagonal."""
    if (number(dim1), number(dim2)) != (-2, -1):
        message = "a diagonal between other axes than the last"
        raise UnsupportedError(message)
    dims = b.dims(input)
    count, k = length(dims, len(dims) - 1), int(number(offset))
    size = count + abs(k)
    places = np.full(bounded(size * size), count, np.int64)
    rows = np.arange(count) + max(-k, 0)
    places[rows * size + np.arange(count) + max(k, 0)] = np.arange(count)
    zero = b(Expand, b.like(input, 0), b(Concat, b(Shape, input, start=0, end=-1), vector(b, [1]), axis=0))
    wide = b(Concat, input, zero, axis=-1)
    flat = b(Gather, wide, b.constant(places), axis=len(dims) - 1)
    return b(Reshape, flat, b(Concat, b(Shape, input, start=0, end=-1), vector(b, [size, size]), axis=0))
