"""Sums and products so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import axis_index
from graphport.ops.special_functions import widened
from graphport.ops.types import FLOATS, INDICES, SCALAR, Tensor, Types

T = Annotated[Tensor, Types("T", FLOATS | INDICES | {DType.UINT32, DType.UINT64})]
Axis = Annotated[Tensor, Types("T2", INDICES)]


def _running_shape(x: TensorFact, axis: TensorFact, *, exclusive: int = 0, reverse: int = 0) -> TensorFact:
    if axis.elements is not None and len(axis.elements) != 1:
        message = f"axis has {len(axis.elements)} entries"
        raise ShapeError(message, "it is one number")
    if axis.elements is not None and x.shape is not None and isinstance(axis.elements[0], int):
        axis_index(axis.elements[0], x.rank)
    return TensorFact(x.dtype, x.shape)


def _running(
    accumulate: Callable[..., Any], neutral: int, x: Tensor, axis: Tensor, exclusive: int, reverse: int
) -> Tensor:
    place = int(axis.reshape(-1)[0])
    wide = widened(x) if x.dtype.kind not in "iu" else x
    flipped = np.flip(wide, place) if reverse else wide
    if exclusive and x.shape[place]:
        before = np.full_like(np.take(flipped, [0], place), neutral)
        flipped = np.concatenate([before, np.take(flipped, np.arange(x.shape[place] - 1), place)], place)
    result = accumulate(flipped, axis=place)
    return np.asarray(np.flip(result, place) if reverse else result).astype(x.dtype)


@op(
    shape=_running_shape,
    since=11,
    exactness="accumulation",
    role="pointwise",
    index_operands=("axis",),
    ranks={"x": (1, None), "axis": SCALAR},
)
def CumSum(x: T, axis: Axis, *, exclusive: int = 0, reverse: int = 0) -> T:
    """Running sums along `axis`, without the current element if `exclusive`, from the end if `reverse`.

    Shapes: x [*s], axis [] → [*s].

    Raises:
        ShapeError: the axis is outside of the tensor.

    Source: ONNX CumSum-14.
    """
    return _running(np.cumsum, 0, x, axis, exclusive, reverse)


@op(
    shape=_running_shape,
    since=26,
    exactness="accumulation",
    role="pointwise",
    index_operands=("axis",),
    ranks={"x": (1, None), "axis": SCALAR},
)
def CumProd(x: T, axis: Axis, *, exclusive: int = 0, reverse: int = 0) -> T:
    """Running products along `axis`, without the current element if `exclusive`, from the end if `reverse`.

    Shapes: x [*s], axis [] → [*s].

    Raises:
        ShapeError: the axis is outside of the tensor.

    Source: ONNX CumProd-26.
    """
    return _running(np.cumprod, 1, x, axis, exclusive, reverse)
