"""Many elements summed up in one, along some axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import axis_index, axis_indices
from graphport.ops.types import FLOATS, INDICES, INT64, NUMBERS_4, Tensor, Types

Summed = FLOATS | INDICES | {DType.UINT32, DType.UINT64}
T = Annotated[Tensor, Types("T", Summed)]
Ordered = Annotated[Tensor, Types("T", Summed | {DType.INT8, DType.UINT8, DType.BOOL})]
Number = Annotated[Tensor, Types("T", NUMBERS_4)]
Ranked = Annotated[Tensor, Types("T", NUMBERS_4)]
Places = Annotated[Tensor, Types("I", INT64)]
Index = Annotated[Tensor, Types("tensor(int64)", INT64)]
Axis = Annotated[Tensor, Types("T2", INDICES)]
Axes = Annotated[Tensor, Types("tensor(int64)", INT64)]


def _reduce_shape(
    data: TensorFact, axes: TensorFact | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> TensorFact:
    if axes is not None and axes.elements is None:
        # Which axes go is not known; with keepdims the rank is, and the number of axes may be.
        return data.with_shape([OPEN] * data.rank) if keepdims else _fewer(data, axes)
    chosen = axis_indices(axes.numbers, data.rank) if axes is not None else ()
    if not chosen:
        if noop_with_empty_axes:
            return data.with_shape(data.dims)
        chosen = tuple(range(data.rank))
    if keepdims:
        return data.with_shape([1 if axis in chosen else dim for axis, dim in enumerate(data.dims)])
    return data.with_shape([dim for axis, dim in enumerate(data.dims) if axis not in chosen])


def _fewer(data: TensorFact, axes: TensorFact) -> TensorFact:
    count: Dim = axes.dims[0] if axes.dims else 1
    if isinstance(count, Symbolic) or count == 0:
        return TensorFact(data.dtype, None)
    return data.with_shape([OPEN] * (data.rank - count))


def _reduced(
    reduce: Callable[..., Any], data: Tensor, axes: Tensor | None, keepdims: int, noop_with_empty_axes: int
) -> Tensor:
    """`reduce(array, axis=…, keepdims=…)` over `axes`; half types are summed in float32."""
    chosen = () if axes is None else tuple(int(axis) for axis in axes.reshape(-1))
    if not chosen and noop_with_empty_axes:
        return data
    is_half = data.dtype.itemsize == 2 and data.dtype.kind not in "iu"
    wide = data.astype(np.float32) if is_half else data
    answer = reduce(wide, axis=chosen or None, keepdims=bool(keepdims))
    return np.asarray(answer).astype(data.dtype)


_sum = op(shape=_reduce_shape, since=13, outputs=("reduced",), exactness="accumulation", index_operands=("axes",))
_others = op(shape=_reduce_shape, since=18, outputs=("reduced",), exactness="accumulation", index_operands=("axes",))
_extremes = op(
    shape=_reduce_shape, since=18, outputs=("reduced",), exactness="exact", role="passive", index_operands=("axes",)
)


@_sum
def ReduceSum(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The sum along `axes`, along all without them.  Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceSum-13.
    """
    return _reduced(np.sum, data, axes, keepdims, noop_with_empty_axes)


@_others
def ReduceMean(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The mean along `axes`, along all without them; of integers truncated.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceMean-18.
    """
    return _reduced(_mean, data, axes, keepdims, noop_with_empty_axes)


def _mean(x: Tensor, **how: Any) -> Any:
    if x.dtype.kind not in "iu":
        return np.mean(x, **how)
    total = np.asarray(np.sum(x, **how))
    return np.trunc(total / (x.size // total.size if total.size else 1))


@_others
def ReduceProd(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The product along `axes`, along all without them.  Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceProd-18.
    """
    return _reduced(np.prod, data, axes, keepdims, noop_with_empty_axes)


@_extremes
def ReduceMax(data: Ordered, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Ordered:
    """The largest along `axes`, along all without them; of nothing the least number there is.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceMax-20.
    """
    return _reduced(lambda x, **how: np.max(x, initial=_extreme(x, largest=False), **how), data, axes, keepdims, noop_with_empty_axes)


@_extremes
def ReduceMin(data: Ordered, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Ordered:
    """The least along `axes`, along all without them; of nothing the largest number there is.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceMin-20.
    """
    return _reduced(lambda x, **how: np.min(x, initial=_extreme(x, largest=True), **how), data, axes, keepdims, noop_with_empty_axes)


def _extreme(x: Tensor, *, largest: bool) -> Any:
    if x.dtype.kind == "b":
        return largest
    if x.dtype.kind in "iu":
        return np.iinfo(x.dtype).max if largest else np.iinfo(x.dtype).min
    return np.inf if largest else -np.inf


@_others
def ReduceL1(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The sum of magnitudes along `axes`, along all without them.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceL1-18.
    """
    return _reduced(lambda x, **how: np.sum(np.abs(x), **how), data, axes, keepdims, noop_with_empty_axes)


@_others
def ReduceL2(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The root of the sum of squares along `axes`, along all without them.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceL2-18.
    """
    return _reduced(lambda x, **how: np.sqrt(np.sum(x * x, **how)), data, axes, keepdims, noop_with_empty_axes)


@_others
def ReduceLogSum(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The logarithm of the sum along `axes`, along all without them.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceLogSum-18.
    """
    return _reduced(lambda x, **how: np.log(np.sum(x, **how)), data, axes, keepdims, noop_with_empty_axes)


@_others
def ReduceLogSumExp(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The logarithm of the sum of exponentials along `axes`, along all without them; without overflow.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceLogSumExp-18.
    """
    return _reduced(_log_sum_exp, data, axes, keepdims, noop_with_empty_axes)


def _log_sum_exp(x: Tensor, *, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    wide = x.astype(np.result_type(x.dtype, np.float32)) if x.dtype.kind != "f" else x
    top = np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(wide - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis)


@_others
def ReduceSumSquare(data: T, axes: Axes | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> T:
    """The sum of squares along `axes`, along all without them.

    Shapes: data [*s], axes [k] → [*s], 1 or nothing at `axes`.

    Source: ONNX ReduceSumSquare-18.
    """
    return _reduced(lambda x, **how: np.sum(x * x, **how), data, axes, keepdims, noop_with_empty_axes)


def _arg_shape(data: TensorFact, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> TensorFact:
    del select_last_index
    place = axis_index(axis, data.rank)
    rest = [1] if keepdims else []
    return TensorFact(DType.INT64, (*data.dims[:place], *rest, *data.dims[place + 1 :]))


def _arg(find: Callable[..., Any], data: Tensor, axis: int, keepdims: int, select_last_index: int) -> Tensor:
    if select_last_index:
        found = data.shape[axis] - 1 - find(np.flip(data, axis), axis=axis)
    else:
        found = find(data, axis=axis)
    return (np.expand_dims(found, axis) if keepdims else np.asarray(found)).astype(np.int64)


@op(shape=_arg_shape, since=1, outputs=("reduced",), exactness="exact", role="index")
def ArgMax(data: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Index:
    """Where along `axis` the largest number is: the first of several, or with `select_last_index` the last.

    Shapes: data [*s] → [*s], 1 or nothing at `axis`.

    Source: ONNX ArgMax-13.
    """
    return _arg(np.argmax, data, axis, keepdims, select_last_index)


@op(shape=_arg_shape, since=1, outputs=("reduced",), exactness="exact", role="index")
def ArgMin(data: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Index:
    """Where along `axis` the least number is: the first of several, or with `select_last_index` the last.

    Shapes: data [*s] → [*s], 1 or nothing at `axis`.

    Source: ONNX ArgMin-13.
    """
    return _arg(np.argmin, data, axis, keepdims, select_last_index)


def _topk_shape(
    x: TensorFact, k: TensorFact, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[TensorFact, TensorFact]:
    del largest, sorted
    place = axis_index(axis, x.rank)
    count = OPEN if k.elements is None else k.elements[0]
    length = x.dims[place]
    if isinstance(count, int) and isinstance(length, int) and not 0 <= count <= length:
        message = f"k is {count}, axis {place} has {length} entries"
        raise ShapeError(message)
    shape = (*x.dims[:place], count, *x.dims[place + 1 :])
    return x.with_shape(shape), TensorFact(DType.INT64, shape)


@op(
    shape=_topk_shape, since=11, outputs=("values", "indices"), moves_data=True, exactness="exact", index_operands=("k",)
)
def TopK(x: Ranked, k: Axes, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Ranked, Places]:
    """The `k` largest (or least) numbers along `axis` in order, and where they are; of equal ones the first.

    Shapes: x [*s], k [1] → twice [*s] with k at `axis`.

    Raises:
        ShapeError: there are fewer than `k`.

    Source: ONNX TopK-24.
    """
    del sorted  # being sorted always is one way of not having to be
    count = int(k.reshape(-1)[0])
    flipped = np.flip(x, axis)
    order = np.argsort(flipped if largest else x, axis=axis, kind="stable")
    if largest:
        # Ascending and stable on the flipped axis, read backwards: descending, and of equal ones the first.
        order = x.shape[axis] - 1 - np.flip(order, axis)
    places = np.take(order, np.arange(count), axis=axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)


def _running_shape(x: TensorFact, axis: TensorFact, *, exclusive: int = 0, reverse: int = 0) -> TensorFact:
    del exclusive, reverse
    if axis.elements is not None and x.shape is not None:
        axis_index(axis.numbers[0], x.rank)
    return TensorFact(x.dtype, x.shape)


def _running(accumulate: Callable[..., Any], neutral: int, x: Tensor, axis: Tensor, exclusive: int, reverse: int) -> Tensor:
    place = int(axis.reshape(-1)[0])
    turned = np.flip(x, place) if reverse else x
    if exclusive:
        first = np.full_like(np.take(turned, [0], place), neutral) if x.shape[place] else turned
        turned = np.concatenate([first, np.take(turned, np.arange(max(x.shape[place] - 1, 0)), place)], place)
    result = accumulate(turned.astype(np.float32) if x.dtype.itemsize == 2 else turned, axis=place)
    return np.asarray(np.flip(result, place) if reverse else result).astype(x.dtype)


@op(shape=_running_shape, since=11, exactness="accumulation", index_operands=("axis",))
def CumSum(x: T, axis: Axis, *, exclusive: int = 0, reverse: int = 0) -> T:
    """Running sums along `axis`, without the current element if `exclusive`, from the end if `reverse`.

    Shapes: x [*s], axis [] → [*s].

    Source: ONNX CumSum-14.
    """
    return _running(np.cumsum, 0, x, axis, exclusive, reverse)


@op(shape=_running_shape, since=26, exactness="accumulation", index_operands=("axis",))
def CumProd(x: T, axis: Axis, *, exclusive: int = 0, reverse: int = 0) -> T:
    """Running products along `axis`, without the current element if `exclusive`, from the end if `reverse`.

    Shapes: x [*s], axis [] → [*s].

    Source: ONNX CumProd-26.
    """
    return _running(np.cumprod, 1, x, axis, exclusive, reverse)
