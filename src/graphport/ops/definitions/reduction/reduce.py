"""One number for all elements along some axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import axis_indices
from graphport.ops.special_functions import widened
from graphport.ops.symbolic import is_symbolic, maximum, minimum, quotient
from graphport.ops.types import FLOATS, INDICES, INT64, Tensor, Types

Summed = FLOATS | INDICES | {DType.UINT32, DType.UINT64}
T = Annotated[Tensor, Types("T", Summed)]
Ordered = Annotated[Tensor, Types("T", Summed | {DType.INT8, DType.UINT8, DType.BOOL})]
Axes = Annotated[Tensor, Types("tensor(int64)", INT64)]


def _reduce_shape(
    data: TensorFact, axes: TensorFact | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> TensorFact:
    if axes is not None and axes.elements is None:
        return _unknown_axes(data, axes, keepdims, noop_with_empty_axes)
    chosen = axis_indices(axes.integer_elements, data.rank) if axes is not None else ()
    if not chosen:
        if noop_with_empty_axes:
            return data.with_shape(data.dims)
        chosen = tuple(range(data.rank))
    if keepdims:
        return data.with_shape([1 if axis in chosen else dim for axis, dim in enumerate(data.dims)])
    return data.with_shape([dim for axis, dim in enumerate(data.dims) if axis not in chosen])


def _unknown_axes(data: TensorFact, axes: TensorFact, keepdims: int, noop: int) -> TensorFact:
    """Return the result for axes known only at run time; without `keepdims` the rank follows from their count."""
    count = axes.dims[0] if axes.rank else 1
    if not isinstance(count, Symbolic) and count > data.rank:
        message = f"{count} axes of a tensor of rank {data.rank}"
        raise ShapeError(message)
    if keepdims:
        return data.with_shape([OPEN] * data.rank)
    if isinstance(count, Symbolic):
        return TensorFact(data.dtype, None)
    if count == 0:
        return data.with_shape(data.dims if noop else ())
    return data.with_shape([OPEN] * (data.rank - count))


def _reduced(
    summed: Callable[..., Any], data: Tensor, axes: Tensor | None, keepdims: int, noop_with_empty_axes: int
) -> Tensor:
    """Apply the reduction `summed(array, axis=…, keepdims=…)` over `axes`; 16-bit floats are reduced in float32.

    Raises:
        ShapeError: an axis is outside of the tensor, or named twice.
    """
    chosen = () if axes is None else axis_indices([int(axis) for axis in axes.reshape(-1)], data.ndim)
    along = chosen if chosen or noop_with_empty_axes else None
    wide = widened(data) if data.dtype.kind not in "iub" else data
    return np.asarray(summed(wide, axis=along, keepdims=bool(keepdims))).astype(data.dtype)


_sums = op(
    shape=_reduce_shape,
    since=13,
    outputs=("reduced",),
    symbolic=True,
    exactness="accumulation",
    role="pointwise",
    index_operands=("axes",),
    turns="reduced",
)
_products = op(
    shape=_reduce_shape,
    since=18,
    outputs=("reduced",),
    symbolic=True,
    exactness="accumulation",
    role="pointwise",
    index_operands=("axes",),
    turns="reduced",
)
_others = op(
    shape=_reduce_shape,
    since=18,
    outputs=("reduced",),
    exactness="accumulation",
    role="pointwise",
    index_operands=("axes",),
    turns="reduced",
)
_extremes = op(
    shape=_reduce_shape,
    since=18,
    outputs=("reduced",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("axes",),
    turns="reduced",
)


@_sums
def ReduceSum(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """Sum along `axes`; without axes along all axes, or along none with `noop_with_empty_axes`.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Raises:
        ShapeError: an axis is outside of the tensor, or named twice.

    Source: ONNX ReduceSum-13.
    """
    return _reduced(np.sum, data, axes, keepdims, noop_with_empty_axes)


@_others
def ReduceMean(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """Mean along `axes` (see `ReduceSum`); a mean of integers is truncated toward zero.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceMean-18.
    """
    return _reduced(_mean, data, axes, keepdims, noop_with_empty_axes)


def _mean(x: Tensor, **how: Any) -> Any:
    if x.dtype.kind not in "iu":
        return np.mean(x, **how)
    total = np.asarray(np.sum(x, **how))
    return quotient(total, np.array(x.size // total.size if total.size else 1, total.dtype))


@_products
def ReduceProd(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The product along `axes` (see `ReduceSum`).  Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceProd-18.
    """
    return _reduced(np.prod, data, axes, keepdims, noop_with_empty_axes)


@_extremes
def ReduceMax(data: Ordered, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Ordered:
    """Maximum along `axes` (see `ReduceSum`); an empty set gives the lowest value of the type.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceMax-20.
    """
    return _reduced(_largest, data, axes, keepdims, noop_with_empty_axes)


@_extremes
def ReduceMin(data: Ordered, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Ordered:
    """Minimum along `axes` (see `ReduceSum`); an empty set gives the highest value of the type.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceMin-20.
    """
    return _reduced(_least, data, axes, keepdims, noop_with_empty_axes)


def _largest(x: Tensor, **how: Any) -> Any:
    return _of_dims(maximum, x, **how) if is_symbolic(x) else np.max(x, initial=_end(x, is_top=False), **how)


def _least(x: Tensor, **how: Any) -> Any:
    return _of_dims(minimum, x, **how) if is_symbolic(x) else np.min(x, initial=_end(x, is_top=True), **how)


def _of_dims(choose: Callable[[Tensor, Tensor], Tensor], x: Tensor, *, axis: object, keepdims: bool) -> Any:
    """Reduce a vector of symbolic dims by `choose` (maximum or minimum)."""
    if axis == () or not x.ndim:
        return x
    chosen = reduce(choose, [np.asarray(dim, object) for dim in x])
    return chosen.reshape(1) if keepdims else chosen


def _end(x: Tensor, *, is_top: bool) -> Any:
    if x.dtype.kind == "b":
        return is_top
    if x.dtype.kind in "iu":
        return np.iinfo(x.dtype).max if is_top else np.iinfo(x.dtype).min
    return np.inf if is_top else -np.inf


@_others
def ReduceL1(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The sum of magnitudes along `axes` (see `ReduceSum`).

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceL1-18.
    """
    return _reduced(_magnitudes, data, axes, keepdims, noop_with_empty_axes)


def _magnitudes(x: Tensor, **how: Any) -> Any:
    return np.sum(np.abs(x), **how)


@_others
def ReduceL2(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The root of the sum of squares along `axes` (see `ReduceSum`).

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceL2-18.
    """
    return _reduced(_norm, data, axes, keepdims, noop_with_empty_axes)


def _norm(x: Tensor, **how: Any) -> Any:
    return np.sqrt(_squares(x, **how))


@_others
def ReduceLogSum(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The logarithm of the sum along `axes` (see `ReduceSum`).

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceLogSum-18.
    """
    return _reduced(_log_sum, data, axes, keepdims, noop_with_empty_axes)


def _log_sum(x: Tensor, **how: Any) -> Any:
    return np.log(np.sum(x, **how))


@_others
def ReduceLogSumExp(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The logarithm of the sum of exponentials along `axes` (see `ReduceSum`), without overflow.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceLogSumExp-18.
    """
    return _reduced(_log_sum_exp, data, axes, keepdims, noop_with_empty_axes)


def _log_sum_exp(x: Tensor, *, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    wide = x.astype(np.float64) if x.dtype.kind in "iu" else x
    top = np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(wide - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis)


@_others
def ReduceSumSquare(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The sum of squares along `axes` (see `ReduceSum`).  Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceSumSquare-18.
    """
    return _reduced(_squares, data, axes, keepdims, noop_with_empty_axes)


def _squares(x: Tensor, **how: Any) -> Any:
    return np.sum(x * x, **how)
