"""Where the largest and the least elements are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from graphport.core.dims import decide_less
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import count_along_axis
from graphport.ops.shapes import axis_index
from graphport.ops.types import INT64, NUMBERS_4, SCALAR, Tensor, Types

Number = Annotated[Tensor, Types("T", NUMBERS_4)]
Index = Annotated[Tensor, Types("tensor(int64)", INT64)]
Indices = Annotated[Tensor, Types("I", INT64)]


def _arg_shape(data: TensorFact, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> TensorFact:
    place = axis_index(axis, data.rank)
    if data.dims[place] == 0:
        message = f"axis {place} has length 0"
        raise ShapeError(message, "expected at least one element along the axis")
    rest = [1] if keepdims else []
    return TensorFact(DType.INT64, (*data.dims[:place], *rest, *data.dims[place + 1 :]))


def _arg(find: Callable[..., Any], data: Tensor, axis: int, keepdims: int, select_last_index: int) -> Tensor:
    found = find(np.flip(data, axis) if select_last_index else data, axis=axis)
    if select_last_index:
        found = data.shape[axis] - 1 - found
    return (np.expand_dims(found, axis) if keepdims else np.asarray(found)).astype(np.int64)


@op(finds="reduced", shape=_arg_shape, since=1, outputs=("reduced",), exactness="exact", role="index")
def ArgMax(data: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Index:
    """Index of the maximum along `axis`; of equal maxima the first, or with `select_last_index` the last.

    Shapes: data [*s] → [*s], 1 or nothing at `axis`.

    Raises:
        ShapeError: the axis is outside of the tensor, or has no entries.

    Source: ONNX ArgMax-13.
    """
    return _arg(np.argmax, data, axis, keepdims, select_last_index)


@op(finds="reduced", shape=_arg_shape, since=1, outputs=("reduced",), exactness="exact", role="index")
def ArgMin(data: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Index:
    """Index of the minimum along `axis`; of equal minima the first, or with `select_last_index` the last.

    Shapes: data [*s] → [*s], 1 or nothing at `axis`.

    Raises:
        ShapeError: the axis is outside of the tensor, or has no entries.

    Source: ONNX ArgMin-13.
    """
    return _arg(np.argmin, data, axis, keepdims, select_last_index)


def _topk_shape(
    x: TensorFact, k: TensorFact, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[TensorFact, TensorFact]:
    place = axis_index(axis, x.rank)
    if k.elements is not None and len(k.elements) != 1:
        message = f"k has {len(k.elements)} entries"
        raise ShapeError(message, "it is one number")
    count = OPEN if k.elements is None else k.elements[0]
    length = x.dims[place]
    if decide_less(count, 0) or decide_less(length, count):
        message = f"k is {count}, axis {place} has {length} entries"
        raise ShapeError(message)
    shape = (*x.dims[:place], count, *x.dims[place + 1 :])
    return x.with_shape(shape), TensorFact(DType.INT64, shape)


@op(
    finds="indices",
    shape=_topk_shape,
    since=11,
    outputs=("values", "indices"),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("k",),
    holds={"k": count_along_axis},
    ranks={"x": (1, None), "k": SCALAR},
)
def TopK(x: Number, k: Index, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Number, Indices]:
    """The `k` largest (or smallest) elements along `axis` in order, and their indices; ties by lower index.

    Shapes: x [*s], k [1] → twice [*s] with k at `axis`.

    Raises:
        ShapeError: the axis has fewer than `k` elements.

    Source: ONNX TopK-24.
    """
    del sorted  # being sorted always is one way of not having to be
    order = np.argsort(np.flip(x, axis) if largest else x, axis=axis, kind="stable")
    if largest:
        # Ascending and stable on the flipped axis, read backwards: descending, and of equal ones the first.
        order = x.shape[axis] - 1 - np.flip(order, axis)
    indices = np.take(order, np.arange(int(k.reshape(-1)[0])), axis=axis)
    return np.take_along_axis(x, indices, axis), indices.astype(np.int64)
