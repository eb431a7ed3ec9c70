"""Gather operators: selection of elements by index."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.dims import Dim, Symbolic, decide_less
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import index_along_axis, index_in_axes
from graphport.ops.shapes import axis_index, same_dim
from graphport.ops.types import ALL_4, BOOL, CLASSIC, INDICES, INT64, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]
Old = Annotated[Tensor, Types("T", CLASSIC)]
Indices = Annotated[Tensor, Types("tensor(int64)", INT64)]
Condition = Annotated[Tensor, Types("T1", BOOL)]
Tind = Annotated[Tensor, Types("Tind", INDICES)]


def _gather_shape(data: TensorFact, indices: TensorFact, *, axis: int = 0) -> TensorFact:
    place = axis_index(axis, data.rank)
    _check_indices(indices, data.dims[place], place)
    return data.with_shape([*data.dims[:place], *indices.dims, *data.dims[place + 1 :]])


def _check_indices(indices: TensorFact, length: Dim, axis: int) -> None:
    for index in indices.elements or ():
        if isinstance(index, int) and isinstance(length, int) and not -length <= index < length:
            message = f"index {index} is outside of axis {axis} with {length} entries"
            raise ShapeError(message)


@op(
    picks=True,
    turns="axis",
    shape=_gather_shape,
    since=1,
    outputs=("output",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("indices",),
    holds={"indices": index_along_axis},
    ranks={"data": (1, None)},
)
def Gather(data: T, indices: Tind, *, axis: int = 0) -> T:
    """Select slices of `data` along `axis` by `indices`; negative indices count from the end.

    Shapes: data [*s], indices [*i] → [*s[:axis], *i, *s[axis+1:]].

    Raises:
        ShapeError: the axis or a constant index is out of range.
        IndexError: an index is out of range.

    Source: ONNX Gather-13.
    """
    return np.take(data, indices, axis)


def _gather_elements_shape(data: TensorFact, indices: TensorFact, *, axis: int = 0) -> TensorFact:
    if data.shape is None or indices.shape is None:
        known = data.shape or indices.shape
        return data.with_shape(indices.shape or (None if known is None else [OPEN] * len(known)))
    place = axis_index(axis, data.rank)
    if indices.rank != data.rank:
        message = f"indices has rank {indices.rank}, data {data.rank}"
        raise ShapeError(message, "they must agree")
    for number, (own, wanted) in enumerate(zip(data.dims, indices.dims, strict=True)):
        if number != place and decide_less(own, wanted):
            message = f"axis {number} of indices has {wanted} elements, expected at most {own} (data)"
            raise ShapeError(message)
    _check_indices(indices, data.dims[place], place)
    return data.with_shape(indices.shape)


@op(
    picks=True,
    shape=_gather_elements_shape,
    since=11,
    outputs=("output",),
    exactness="exact",
    role="passive",
    index_operands=("indices",),
    holds={"indices": index_along_axis},
)
def GatherElements(data: T, indices: Tind, *, axis: int = 0) -> T:
    """Select elements of `data` along `axis`: output[i][j][k] = data[indices[i][j][k]][j][k] for axis 0.

    Shapes: data [*s], indices [*i] of equal rank → [*i].

    Raises:
        ShapeError: the ranks differ, or `indices` is longer than `data` along another axis.
        IndexError: an index is out of range.

    Source: ONNX GatherElements-13.
    """
    positions = list(np.indices(indices.shape, sparse=True))
    positions[axis] = indices
    return data[tuple(positions)]


def _gather_nd_shape(data: TensorFact, indices: TensorFact, *, batch_dims: int = 0) -> TensorFact:
    for name, tensor in (("data", data), ("indices", indices)):
        if tensor.shape is not None and not 0 <= batch_dims < tensor.rank:
            message = f"batch_dims is {batch_dims}, expected 0 to {tensor.rank - 1}: {name} has rank {tensor.rank}"
            raise ShapeError(message)
    for axis in range(batch_dims):
        same_dim(data.dims[axis], indices.dims[axis], f"axis {axis} of data and indices")
    last = indices.dims[-1]
    if isinstance(last, Symbolic):
        return TensorFact(data.dtype, None)
    if not 1 <= last <= data.rank - batch_dims:
        message = (
            f"the last dim of indices is {last}; expected 1 to {data.rank - batch_dims} (rank {data.rank}, "
            f"batch_dims {batch_dims})"
        )
        raise ShapeError(message)
    return data.with_shape([*indices.dims[:-1], *data.dims[batch_dims + last :]])


@op(
    picks=True,
    shape=_gather_nd_shape,
    since=11,
    outputs=("output",),
    exactness="exact",
    role="passive",
    index_operands=("indices",),
    holds={"indices": index_in_axes},
    ranks={"data": (1, None), "indices": (1, None)},
)
def GatherND(data: T, indices: Indices, *, batch_dims: int = 0) -> T:
    """Slices of `data`, each named by a vector along the last axis of `indices`, within equal `batch_dims` first axes.

    Shapes: data [*s], indices [*i, k] → [*i, *s[batch_dims + k:]].

    Raises:
        ShapeError: the vectors are longer than the rank, or the first axes differ.
        IndexError: an index is outside of its axis.

    Source: ONNX GatherND-13.
    """
    batch = np.indices(indices.shape[:batch_dims], sparse=True)
    rest = indices.ndim - 1 - batch_dims
    lead = [place.reshape(*place.shape, *[1] * rest) for place in batch]
    return data[(*lead, *np.moveaxis(indices, -1, 0))]


def _compress_shape(input: TensorFact, condition: TensorFact, *, axis: int | None = None) -> TensorFact:
    if condition.shape is not None and condition.rank != 1:
        message = f"condition has rank {condition.rank}"
        raise ShapeError(message, "expected rank 1")
    count: Dim = OPEN if condition.elements is None else sum(condition.integer_elements)
    if axis is None:
        return input.with_shape((count,))
    place = axis_index(axis, input.rank)
    return input.with_shape([*input.dims[:place], count, *input.dims[place + 1 :]])


@op(
    picks=True,
    shape=_compress_shape,
    since=9,
    outputs=("output",),
    exactness="exact",
    role="passive",
    ranks={"condition": 1},
)
def Compress(input: Old, condition: Condition, *, axis: int | None = None) -> Old:
    """Select slices along `axis` (of the flattened tensor without an axis) for which `condition` is true.

    Shapes: input [*s], condition [k] with k up to the length → [*s] with n at `axis`, or [n].

    Raises:
        ShapeError: `condition` is not a vector.
        IndexError: a true element lies beyond the end of the axis.

    Source: ONNX Compress-11.
    """
    return np.compress(condition, input, axis)
