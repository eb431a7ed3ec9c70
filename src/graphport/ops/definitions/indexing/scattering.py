"""Elements put into a tensor."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import is_numpy_own
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import index_along_axis, index_in_axes
from graphport.ops.shapes import axis_index, decided_equal_shapes
from graphport.ops.types import ALL_4, INDICES, INT64, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]
Indices = Annotated[Tensor, Types("tensor(int64)", INT64)]
Tind = Annotated[Tensor, Types("Tind", INDICES)]

_REDUCTIONS: dict[str, Any] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _check_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        message = f"unknown reduction {reduction!r}"
        raise ShapeError(message, ", ".join(_REDUCTIONS))


def _scatter_elements_shape(
    data: TensorFact, indices: TensorFact, updates: TensorFact, *, axis: int = 0, reduction: str = "none"
) -> TensorFact:
    _check_reduction(reduction)
    if data.shape is not None:
        axis_index(axis, data.rank)
        if indices.shape is not None and indices.rank != data.rank:
            message = f"indices has rank {indices.rank}, data {data.rank}"
            raise ShapeError(message, "they must agree")
    if indices.shape is not None and updates.shape is not None:
        decided_equal_shapes(indices.dims, updates.dims, "indices and updates have different shapes")
    return TensorFact(data.dtype, data.shape)


def _scattered(data: Tensor, indices: tuple[Any, ...], updates: Tensor, reduction: str) -> Tensor:
    """A copy of `data` with `updates` put at (or combined into) `indices`, in their order."""
    result = data.copy()
    combine = _REDUCTIONS[reduction]
    if combine is None:
        result[indices] = updates
    elif not is_numpy_own(data.dtype):
        wide = data.astype(np.float32)
        combine.at(wide, indices, updates.astype(np.float32))
        return wide.astype(data.dtype)
    else:
        combine.at(result, indices, updates)
    return result


@op(
    shape=_scatter_elements_shape,
    since=11,
    outputs=("output",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("indices",),
    holds={"indices": index_along_axis},
)
def ScatterElements(data: T, indices: Tind, updates: T, *, axis: int = 0, reduction: str = "none") -> T:
    """Copy `data` and write `updates` at `indices` along `axis`; other coordinates are those of the update.

    With `reduction` (`add`, `mul`, `max`, `min`) old and new elements are combined; without it the last update wins.

    Shapes: data [*s], indices and updates [*i] of equal rank → [*s].

    Raises:
        ShapeError: ranks, or the shapes of indices and updates, differ; an unknown reduction.
        IndexError: an index is out of range.

    Source: ONNX ScatterElements-18.
    """
    positions = list(np.indices(indices.shape, sparse=True))
    positions[axis] = indices
    return _scattered(data, tuple(positions), updates, reduction)


def _scatter_nd_shape(
    data: TensorFact, indices: TensorFact, updates: TensorFact, *, reduction: str = "none"
) -> TensorFact:
    _check_reduction(reduction)
    if data.shape is None or indices.shape is None:
        return TensorFact(data.dtype, data.shape)
    last = indices.dims[-1] if indices.rank else 0
    if not isinstance(last, Symbolic):
        if not 1 <= last <= data.rank:
            message = f"index vectors have {last} elements, expected at most the rank {data.rank} of data"
            raise ShapeError(message)
        if updates.shape is not None:
            wanted = (*indices.dims[:-1], *data.dims[last:])
            decided_equal_shapes(updates.dims, wanted, "updates do not fill the slices that indices name")
    return TensorFact(data.dtype, data.shape)


@op(
    shape=_scatter_nd_shape,
    since=11,
    outputs=("output",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("indices",),
    holds={"indices": index_in_axes},
    ranks={"data": (1, None), "indices": (1, None)},
)
def ScatterND(data: T, indices: Indices, updates: T, *, reduction: str = "none") -> T:
    """Copy `data` and write `updates` to the slices addressed by the index vectors along the last axis of `indices`.

    With `reduction` (`add`, `mul`, `max`, `min`) old and new elements are combined; without it the last update wins.

    Shapes: data [*s], indices [*i, k], updates [*i, *s[k:]] → [*s].

    Raises:
        ShapeError: the index vectors are longer than the rank, updates have another shape, or the reduction is unknown.
        IndexError: an index is out of range.

    Source: ONNX ScatterND-18.
    """
    return _scattered(data, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)
