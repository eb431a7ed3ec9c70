"""Operators that compute indices, and one-hot encoding."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.dims import Dim, product
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import index_in_depth
from graphport.ops.shapes import axis_index, same_dim
from graphport.ops.types import ALL_4, CLASSIC, IEEE, INT64, INTEGERS, SCALAR, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]
Old = Annotated[Tensor, Types("T", CLASSIC)]
Indices = Annotated[Tensor, Types("tensor(int64)", INT64)]
Numbers1 = Annotated[Tensor, Types("T1", IEEE | INTEGERS)]
Numbers2 = Annotated[Tensor, Types("T2", IEEE | INTEGERS)]
Filler = Annotated[Tensor, Types("T3", CLASSIC)]


def _one_hot_shape(indices: TensorFact, depth: TensorFact, values: TensorFact, *, axis: int = -1) -> TensorFact:
    if values.shape is not None and values.rank != 1:
        message = f"values has rank {values.rank}"
        raise ShapeError(message, "expected a vector of two elements: off_value, on_value")
    if values.shape is not None:
        same_dim(2, values.dims[0], "numbers in values")
    place = axis_index(axis, indices.rank + 1)
    return values.with_shape([*indices.dims[:place], _depth(depth), *indices.dims[place:]])


def _depth(fact: TensorFact) -> Dim:
    if fact.elements:
        return fact.elements[0]
    return int(fact.reals[0]) if fact.reals else OPEN


@op(
    shape=_one_hot_shape,
    since=9,
    outputs=("output",),
    exactness="exact",
    index_operands=("indices", "depth"),
    holds={"indices": index_in_depth},
    ranks={"depth": SCALAR, "values": 1},
)
def OneHot(indices: Numbers1, depth: Numbers2, values: Filler, *, axis: int = -1) -> Filler:
    """One-hot encoding: `values[1]` at each index along a new axis of length `depth`, `values[0]` elsewhere.

    Negative indices count from the end; indices outside [-depth, depth) set nothing. Fractions are truncated.

    Shapes: indices [*i], depth [] or [1], values [2] → [*i] with depth at `axis`.

    Raises:
        ShapeError: the axis is out of range, or `values` does not have two elements.

    Source: ONNX OneHot-11.
    """
    count = int(depth.reshape(-1)[0])
    # Unsigned indices beyond int64 would be negative.
    wanted = (np.minimum(indices, 2**62) if indices.dtype == np.uint64 else indices).astype(np.int64)
    wanted = np.where(wanted < 0, wanted + count, wanted)
    place = axis % (indices.ndim + 1)
    steps = np.arange(count).reshape([-1 if i == place else 1 for i in range(indices.ndim + 1)])
    # Slices, not elements: string elements would convert to a fixed-width type.
    return np.where(np.expand_dims(wanted, place) == steps, values[1:2], values[:1])


def _non_zero_shape(x: TensorFact) -> TensorFact:
    return TensorFact(DType.INT64, (OPEN if x.shape is None else x.rank, OPEN))


@op(shape=_non_zero_shape, since=9, exactness="exact", role="index")
def NonZero(x: T) -> Indices:
    """Indices of the elements that are not zero, in row-major order, one column each.

    Shapes: x [*s] → [rank, n].

    Source: ONNX NonZero-13.
    """
    if not x.ndim:
        return np.zeros((0, int(np.count_nonzero(x))), np.int64)
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


def _unique_shape(x: TensorFact, *, axis: int | None = None, sorted: int = 1) -> tuple[TensorFact, ...]:
    count = TensorFact(DType.INT64, (OPEN,))
    if axis is None:
        length = OPEN if x.shape is None else product(x.dims)
        return x.with_shape((OPEN,)), count, TensorFact(DType.INT64, (length,)), count
    place = axis_index(axis, x.rank)
    inverse = TensorFact(DType.INT64, (x.dims[place],))
    return x.with_shape([*x.dims[:place], OPEN, *x.dims[place + 1 :]]), count, inverse, count


@op(
    shape=_unique_shape,
    since=11,
    outputs=("y", "indices", "inverse_indices", "counts"),
    moves_data=True,
    exactness="exact",
    role="passive",
)
def Unique(x: Old, *, axis: int | None = None, sorted: int = 1) -> tuple[Old, Indices, Indices, Indices]:
    """Unique elements (or slices along `axis`), ascending, or in order of first occurrence unless `sorted`.

    Further results: index of the first occurrence, index of each element in the unique ones, number of occurrences.

    Shapes: x [*s] → [n] (or [*s] with n at `axis`), [n], the number of elements (or slices), [n].

    Raises:
        ShapeError: the axis is out of range.

    Source: ONNX Unique-11.
    """
    # NumPy cannot compare slices of strings: ranks in ascending order replace the strings.
    words, coded = np.unique(x, return_inverse=True) if x.dtype == object else (None, x)
    values, first, inverse, counts = np.unique(coded.reshape(x.shape), True, True, True, axis=axis)
    values, inverse = values if words is None else words[values], inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = rank[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)
