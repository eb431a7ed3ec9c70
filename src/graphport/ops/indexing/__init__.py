"""Elements picked from a tensor, or put into one."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, ceil_div, decide_less, maximum, minimum
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import axis_index, axis_indices, check_rank
from graphport.ops.types import ALL_4, BOOL, CLASSIC, IEEE, INDICES, INT64, INTEGERS, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]
Old = Annotated[Tensor, Types("T", CLASSIC)]
Places = Annotated[Tensor, Types("tensor(int64)", INT64)]
Condition = Annotated[Tensor, Types("T1", BOOL)]
_OLD_NUMBERS = IEEE | INTEGERS
Numbers1 = Annotated[Tensor, Types("T1", _OLD_NUMBERS)]
Numbers2 = Annotated[Tensor, Types("T2", _OLD_NUMBERS)]
Filler = Annotated[Tensor, Types("T3", CLASSIC)]
Tind = Annotated[Tensor, Types("Tind", INDICES)]


def _gather_shape(data: TensorFact, indices: TensorFact, *, axis: int = 0) -> TensorFact:
    place = axis_index(axis, data.rank)
    length = data.dims[place]
    for index in indices.elements or ():
        if isinstance(index, int) and isinstance(length, int) and not -length <= index < length:
            message = f"index {index} is outside of axis {place} with {length} entries"
            raise ShapeError(message)
    return data.with_shape([*data.dims[:place], *indices.dims, *data.dims[place + 1 :]])


@op(
    shape=_gather_shape,
    since=1,
    outputs=("output",),
    nnef="gather(data, indices, axis=axis)",
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("indices",),
)
def Gather(data: T, indices: Tind, *, axis: int = 0) -> T:
    """Entries of `data` along `axis`, picked by `indices`; negative ones count from the end.

    Shapes: data [*s], indices [*i] → [*s[:axis], *i, *s[axis+1:]].

    Raises:
        IndexError: an index is outside of the axis.

    Source: ONNX Gather-13.
    """
    return np.take(data, indices, axis)


def _slice_shape(
    data: TensorFact,
    starts: TensorFact,
    ends: TensorFact,
    axes: TensorFact | None = None,
    steps: TensorFact | None = None,
) -> TensorFact:
    dims = list(data.dims)
    if axes is None:
        count = starts.dims[0] if starts.elements is None else len(starts.elements)
        chosen = tuple(range(len(dims) if isinstance(count, Symbolic) else count))
    elif axes.elements is None:
        return data.with_shape([OPEN] * len(dims))
    else:
        chosen = axis_indices(axes.numbers, len(dims))
    for number, axis in enumerate(chosen):
        if axis >= len(dims):
            message = f"{len(chosen)} starts for a tensor of rank {len(dims)}"
            raise ShapeError(message)
        dims[axis] = _slice_length(dims[axis], _entry(starts, number), _entry(ends, number), _step(steps, number))
    return data.with_shape(dims)


def _entry(fact: TensorFact, number: int) -> Dim | None:
    return None if fact.elements is None else fact.elements[number]


def _step(steps: TensorFact | None, number: int) -> Dim | None:
    return 1 if steps is None else _entry(steps, number)


def _slice_length(n: Dim, start: Dim | None, end: Dim | None, step: Dim | None) -> Dim:
    """Entries that `start:end:step` takes of `n` (ONNX Slice-13: negative positions count from the end, then clamp)."""
    if start is None or end is None or step is None or isinstance(step, Symbolic):
        return OPEN
    if step == 0:
        message = "a step of 0 never arrives"
        raise ShapeError(message, "steps are positive or negative")
    first, last = _from_front(start, n), _from_front(end, n)
    if first is None or last is None:
        return OPEN
    if step > 0:
        # A start behind the end takes nothing, clamped or not.
        return maximum(ceil_div(minimum(last, n) - maximum(first, 0), step), 0)
    return maximum(ceil_div(minimum(maximum(first, 0), n - 1) - maximum(last, -1), -step), 0)


FAR = 2**31 - 1
"""Exporters write the largest integer of 32 or 64 bits for "to the end"; no axis is so long."""


def _from_front(position: Dim, n: Dim) -> Dim | None:
    if isinstance(position, int) and abs(position) >= FAR:
        return n if position > 0 else -1
    is_negative = decide_less(position, 0)
    if is_negative is None:
        return None
    return position + n if is_negative else position


@op(
    shape=_slice_shape,
    since=10,
    outputs=("output",),
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("starts", "ends", "axes", "steps"),
)
def Slice(data: T, starts: Tind, ends: Tind, axes: Tind | None = None, steps: Tind | None = None) -> T:
    """Entries from `starts` up to (not including) `ends`, every `steps`-th, of each of `axes`.

    Negative positions count from the end; positions are clamped to the axis. A negative step walks backwards.

    Shapes: data [*s], the others [k].

    Raises:
        ShapeError: a step of 0, or an axis outside of the tensor.

    Source: ONNX Slice-13.
    """
    places = range(len(starts)) if axes is None else [int(axis) for axis in axes]
    strides = [1] * len(starts) if steps is None else [int(step) for step in steps]
    window = [slice(None)] * data.ndim
    for axis, start, end, step in zip(places, starts, ends, strides, strict=True):
        window[axis] = _window(int(start), int(end), step, data.shape[axis])
    return data[tuple(window)]


def _window(start: int, end: int, step: int, n: int) -> slice:
    first, last = (position + n if position < 0 else position for position in (start, end))
    if step > 0:
        return slice(max(first, 0), max(last, 0), step)
    first, last = min(max(first, 0), n - 1), max(last, -1)
    # Python takes an end before the first entry for one that counts from the back.
    return slice(0, 0) if first < 0 else slice(first, None if last < 0 else last, step)


def _gather_elements_shape(data: TensorFact, indices: TensorFact, *, axis: int = 0) -> TensorFact:
    if data.shape is not None:
        axis_index(axis, data.rank)
        if indices.shape is not None and indices.rank != data.rank:
            message = f"indices has rank {indices.rank}, data {data.rank}"
            raise ShapeError(message, "they must agree")
    return TensorFact(data.dtype, indices.shape)


@op(
    shape=_gather_elements_shape,
    since=11,
    outputs=("output",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("indices",),
)
def GatherElements(data: T, indices: Tind, *, axis: int = 0) -> T:
    """One element of `data` for each of `indices`, which says its place along `axis`; the other places are its own.

    Shapes: data [*s], indices [*i] of the same rank → [*i].

    Source: ONNX GatherElements-13.
    """
    places = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices
    return data[tuple(places)]


def _gather_nd_shape(data: TensorFact, indices: TensorFact, *, batch_dims: int = 0) -> TensorFact:
    last = indices.dims[-1] if indices.rank else 0
    if isinstance(last, Symbolic):
        return TensorFact(data.dtype, None)
    if batch_dims + last > data.rank:
        message = f"indices name {batch_dims + last} axes of a tensor of rank {data.rank}"
        raise ShapeError(message)
    return data.with_shape([*indices.dims[:-1], *data.dims[batch_dims + last :]])


@op(
    shape=_gather_nd_shape,
    since=11,
    outputs=("output",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("indices",),
)
def GatherND(data: T, indices: Places, *, batch_dims: int = 0) -> T:
    """Slices of `data`, each named by a vector along the last axis of `indices`, within equal `batch_dims` first axes.

    Shapes: data [*s], indices [*i, k] → [*i, *s[batch_dims + k:]].

    Raises:
        ShapeError: the vectors are longer than the rank.

    Source: ONNX GatherND-13.
    """
    batch = np.indices(indices.shape[:batch_dims], sparse=True)
    rest = indices.ndim - 1 - batch_dims
    lead = [place.reshape(*place.shape, *[1] * rest) for place in batch]
    return data[(*lead, *np.moveaxis(indices, -1, 0))]


def _scatter_shape(data: TensorFact, indices: TensorFact, updates: TensorFact, **attributes: Any) -> TensorFact:
    del indices, updates
    reduction = attributes.get("reduction", "none")
    if reduction not in _REDUCTIONS:
        message = f"reduction is {reduction!r}"
        raise ShapeError(message, ", ".join(_REDUCTIONS))
    if data.shape is not None and "axis" in attributes:
        axis_index(attributes["axis"], data.rank)
    return TensorFact(data.dtype, data.shape)


_REDUCTIONS: dict[str, Any] = {
    "none": None,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _scattered(data: Tensor, places: tuple[Any, ...], updates: Tensor, reduction: str) -> Tensor:
    """A copy of `data` with `updates` put at (or combined into) `places`, in their order."""
    result = data.copy()
    combine = _REDUCTIONS[reduction]
    if combine is None:
        result[places] = updates
    elif data.dtype.kind == "V":
        wide = data.astype(np.float32)
        combine.at(wide, places, updates.astype(np.float32))
        return wide.astype(data.dtype)
    else:
        combine.at(result, places, updates)
    return result


@op(
    shape=_scatter_shape,
    since=11,
    outputs=("output",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("indices",),
)
def ScatterElements(data: T, indices: Tind, updates: T, *, axis: int = 0, reduction: str = "none") -> T:
    """`data` with each of `updates` at its own place, but at `indices` along `axis`; `reduction` combines both.

    Shapes: data [*s], indices and updates [*i] of the same rank → [*s].

    Source: ONNX ScatterElements-18.
    """
    places = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices
    return _scattered(data, tuple(places), updates, reduction)


@op(
    shape=_scatter_shape,
    since=11,
    outputs=("output",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("indices",),
)
def ScatterND(data: T, indices: Places, updates: T, *, reduction: str = "none") -> T:
    """`data` with `updates` in the slices that the vectors along the last axis of `indices` name.

    Shapes: data [*s], indices [*i, k], updates [*i, *s[k:]] → [*s].

    Source: ONNX ScatterND-18.
    """
    return _scattered(data, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)


def _one_hot_shape(indices: TensorFact, depth: TensorFact, values: TensorFact, *, axis: int = -1) -> TensorFact:
    place = axis_index(axis, indices.rank + 1)
    count = OPEN if depth.elements is None else depth.elements[0]
    return values.with_shape([*indices.dims[:place], count, *indices.dims[place:]])


@op(shape=_one_hot_shape, since=9, outputs=("output",), exactness="exact", index_operands=("indices", "depth"))
def OneHot(indices: Numbers1, depth: Numbers2, values: Filler, *, axis: int = -1) -> Filler:
    """`values[1]` at the place that each index says along a new axis of length `depth`, `values[0]` elsewhere.

    Indices outside of [-depth, depth) set nothing.

    Shapes: indices [*i], depth [] or [1], values [2] → [*i] with depth at `axis`.

    Source: ONNX OneHot-11.
    """
    count = int(depth.reshape(-1)[0])
    wanted = np.trunc(indices.astype(np.float64)) if indices.dtype.kind not in "iu" else indices
    wanted = np.where(wanted < 0, wanted + count, wanted)
    place = axis % (indices.ndim + 1)
    steps = np.arange(count).reshape([-1 if i == place else 1 for i in range(indices.ndim + 1)])
    return np.where(np.expand_dims(wanted, place) == steps, values[1], values[0])


def _non_zero_shape(x: TensorFact) -> TensorFact:
    return TensorFact(DType.INT64, (x.rank, OPEN))


@op(shape=_non_zero_shape, since=9, exactness="exact", role="index")
def NonZero(x: T) -> Places:
    """Places of the elements that are not zero, in row-major order, one column each.  Shapes: x [*s] → [rank, n].

    Source: ONNX NonZero-13.
    """
    return (
        np.array(np.nonzero(np.atleast_1d(x)), np.int64).reshape(x.ndim, -1)
        if x.ndim
        else np.zeros((0, int(np.count_nonzero(x))), np.int64)
    )


def _unique_shape(x: TensorFact, *, axis: int | None = None, sorted: int = 1) -> tuple[TensorFact, ...]:
    del sorted
    count = TensorFact(DType.INT64, (OPEN,))
    if axis is None:
        return x.with_shape((OPEN,)), count, count, count
    place = axis_index(axis, x.rank)
    return x.with_shape([*x.dims[:place], OPEN, *x.dims[place + 1 :]]), count, count, count


@op(
    shape=_unique_shape,
    since=11,
    outputs=("y", "indices", "inverse_indices", "counts"),
    moves_data=True,
    exactness="exact",
)
def Unique(x: Old, *, axis: int | None = None, sorted: int = 1) -> tuple[Old, Places, Places, Places]:
    """The different elements (or slices along `axis`), ascending or in order of first appearance.

    Also: where each appears first, which of them each element is, how often each appears.

    Shapes: x [*s] → [n] (or [*s] with n at `axis`), and three times [n].

    Source: ONNX Unique-11.
    """
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = rank[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _compress_shape(input: TensorFact, condition: TensorFact, *, axis: int | None = None) -> TensorFact:
    count: Dim = OPEN if condition.elements is None else sum(condition.numbers)
    if axis is None:
        return input.with_shape((count,))
    place = axis_index(axis, input.rank)
    return input.with_shape([*input.dims[:place], count, *input.dims[place + 1 :]])


@op(shape=_compress_shape, since=9, outputs=("output",), moves_data=True, exactness="exact")
def Compress(input: Old, condition: Condition, *, axis: int | None = None) -> Old:
    """Entries along `axis` (of the flattened tensor without it) where `condition` holds.

    Shapes: input [*s], condition [k] with k up to the length → [*s] with n at `axis`, or [n].

    Source: ONNX Compress-11.
    """
    return np.compress(condition, input, axis)


def _reverse_shape(
    input: TensorFact, sequence_lens: TensorFact, *, batch_axis: int = 1, time_axis: int = 0
) -> TensorFact:
    del sequence_lens
    if {batch_axis, time_axis} != {0, 1}:
        message = f"batch_axis {batch_axis} and time_axis {time_axis}"
        raise ShapeError(message, "one is 0 and the other 1")
    return TensorFact(input.dtype, input.shape)


@op(shape=_reverse_shape, since=10, moves_data=True, exactness="exact", index_operands=("sequence_lens",))
def ReverseSequence(input: Old, sequence_lens: Places, *, batch_axis: int = 1, time_axis: int = 0) -> Old:
    """Each batch entry with its first `sequence_lens[i]` steps reversed.

    Shapes: input [*s] of rank >= 2, sequence_lens [s[batch_axis]] → [*s].

    Source: ONNX ReverseSequence-10.
    """
    x = input if batch_axis == 0 else np.swapaxes(input, 0, 1)
    steps = np.arange(x.shape[1])
    lengths = sequence_lens.reshape(-1, 1)
    order = np.where(steps < lengths, lengths - 1 - steps, steps)
    result = x[np.arange(x.shape[0])[:, None], order]
    return result if batch_axis == 0 else np.swapaxes(result, 0, 1)


def _trilu_shape(input: TensorFact, k: TensorFact | None = None, *, upper: int = 1) -> TensorFact:
    del k, upper
    check_rank(input, 2, "input")
    return TensorFact(input.dtype, input.shape)


@op(shape=_trilu_shape, since=14, outputs=("output",), exactness="exact", index_operands=("k",))
def Trilu(input: T, k: Places | None = None, *, upper: int = 1) -> T:
    """The upper (or lower) triangle of each matrix, from diagonal `k` on; 0 elsewhere.  Shapes: input [*s], k [] → [*s].

    Raises:
        ShapeError: the rank is below 2.

    Source: ONNX Trilu-14.
    """
    diagonal = 0 if k is None else int(k.reshape(-1)[0])
    rows, columns = np.ogrid[: input.shape[-2], : input.shape[-1]]
    kept = columns - rows >= diagonal if upper else columns - rows <= diagonal
    return np.where(kept, input, np.zeros((), input.dtype))
