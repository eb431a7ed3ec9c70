"""Region of interest operators of NNEF.

A row of `rois` contains the begin of the region on each spatial axis, in order, then the end. Pooling rounds them to
integers and divides the r elements between into p cells of ceil(r / p) elements, which begin every floor(r / p) (NNEF
1.0.5, 4.6.1). Resampling uses them unrounded and repeats the border of the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.formats.nnef.rules.pooling.arrangement import Pooling
from graphport.formats.nnef.rules.pooling.pools import avg_pool, max_pool
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.arithmetic import Add, Ceil, Div, Floor, Max, Min, Mul, Sub
from graphport.ops.definitions.arithmetic.cast import Cast, CastLike
from graphport.ops.definitions.comparison import And, GreaterOrEqual, Less, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.view import Attributes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


def _spatial(b: Builder, input: Value, rois: Value, sizes: Shaped) -> int:
    """Return the number of spatial axes, after checking the shapes of `rois` and `sizes`.

    Raises:
        ShapeError: `rois` or `sizes` are not made for so many.
    """
    count = len(b.dims(input)) - 2
    if len(sizes) != count or count < 1 or any(size < 1 for size in sizes):
        message = f"{list(sizes)} for an input of rank {count + 2}"
        raise ShapeError(message, "write one positive value per spatial axis")
    dims = b.dims(rois)
    if len(dims) != 2 or decide_equal(dims[1], 2 * count) is False:
        message = f"rois have the shape {list(dims)}"
        raise ShapeError(message, f"write one row per region: {count} begins and {count} ends")
    return count


def _column(b: Builder, rois: Value, number: int) -> Value:
    """Return one coordinate of all regions: [N, 1]."""
    return b(Gather, rois, [number], axis=1)


def _extent(b: Builder, input: Value, axis: int) -> Value:
    """The length of an axis: int64[1]."""
    dim = b.dims(input)[axis]
    return b.integers([dim]) if isinstance(dim, int) else b(Shape, input, start=axis, end=axis + 1)


# ── resampling ────────────────────────────────────────────────────────────────────────────────────────────────────────


@lower("nnef", "roi_resample")
def roi_resample(
    b: Builder, input: Value, rois: Value, batch_index: Value, *, output_size: Shaped, method: str = "symmetric"
) -> Value:
    """Resample each region at a grid of `output_size` points by linear interpolation."""
    count = _spatial(b, input, rois, output_size)
    strides = _strides(b, input, count)
    image = b(Mul, b(Reshape, batch_index, [-1, *[1] * count]), strides[0])
    corners = [_neighbours(b, input, rois, axis, size, method) for axis, size in enumerate(output_size)]
    order = (1, 0, *range(2, count + 2))
    rows = b(Reshape, b(Transpose, input, perm=order), [0, -1])
    total: Value | None = None
    for chosen in product((0, 1), repeat=count):
        place, share = image, None
        for axis, side in enumerate(chosen):
            at, weight = (_along(b, each, axis, count) for each in corners[axis][side])
            place = b(Add, place, b(Mul, at, strides[axis + 1]))
            share = weight if share is None else b(Mul, share, weight)
        # [C, N, *output_size]
        term = b(Mul, b(Gather, rows, place, axis=1), share)
        total = term if total is None else b(Add, total, term)
    if total is None:
        raise ValueError(count)
    return b(Transpose, total, perm=order)


def _strides(b: Builder, input: Value, count: int) -> list[Value]:
    """Return the stride in pixels of the batch axis and each spatial axis."""
    strides = [b.integers([1])]
    for axis in range(count + 1, 1, -1):
        strides.insert(0, b(Mul, strides[0], _extent(b, input, axis)))
    return strides


def _along(b: Builder, value: Value, axis: int, count: int) -> Value:
    """[N, size] as [N, 1, …, size, …, 1] with `size` on spatial axis `axis`."""
    axes = [place + 1 for place in range(count) if place != axis]
    return b(Unsqueeze, value, [*axes]) if axes else value


def _neighbours(
    b: Builder, input: Value, rois: Value, axis: int, size: int, method: str
) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """Return the two pixels next to each sample along an axis, and their weights: twice [N, size]."""
    points = _points(b, input, rois, axis, size, method)
    below = b(Floor, points)
    above = b(Sub, points, below)
    last = b(Sub, _extent(b, input, axis + 2), [1])
    place = b(Cast, below, to=DType.INT64)
    indices = [b(Max, b(Min, each, last), [0]) for each in (place, b(Add, place, [1]))]
    return (indices[0], b(Sub, 1.0, above)), (indices[1], above)


def _points(b: Builder, input: Value, rois: Value, axis: int, size: int, method: str) -> Value:
    """Return the sample coordinates of each region along an axis, in pixels (integers are pixel centers): [N, size]."""
    count = len(b.dims(input)) - 2
    begin, end = _column(b, rois, axis), _column(b, rois, axis + count)
    length = b(Sub, end, begin)
    steps = np.arange(size, dtype=np.float64)[None]
    if method == "aligned":
        share = steps / max(size - 1, 1)
        return b(Add, begin, b(Mul, b(Sub, length, 1.0), b.like(rois, share)))
    shift = 0.5 if method == "symmetric" else 0.0
    if method not in ("symmetric", "asymmetric"):
        message = f"the method is {method!r}"
        raise ShapeError(message, "use symmetric, asymmetric or aligned")
    points = b(Add, begin, b(Mul, length, b.like(rois, (steps + shift) / size)))
    return b(Sub, points, b.like(rois, shift)) if shift else points


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoiAlign(Attributes):
    output_size: Shaped
    sampling_rate: Shaped
    resize_method: str = "symmetric"


@_RoiAlign.lower("nnef", "avg_roi_align")
def avg_roi_align(b: Builder, stated: _RoiAlign, input: Value, rois: Value, batch_index: Value) -> Value:
    """ROI Align: average `sampling_rate` samples in each cell of a grid over each region."""
    x, window = _roi_samples(b, stated, input, rois, batch_index)
    return avg_pool(b, Pooling(size=window, stride=window), x)


@_RoiAlign.lower("nnef", "max_roi_align")
def max_roi_align(b: Builder, stated: _RoiAlign, input: Value, rois: Value, batch_index: Value) -> Value:
    """ROI Align: maximum of `sampling_rate` samples in each cell of a grid over each region."""
    x, window = _roi_samples(b, stated, input, rois, batch_index)
    return max_pool(b, Pooling(size=window, stride=window), x)


def _roi_samples(b: Builder, stated: _RoiAlign, input: Value, rois: Value, batch_index: Value) -> tuple[Value, Shaped]:
    size, rate = stated.output_size, stated.sampling_rate
    if len(rate) != len(size) or any(each < 1 for each in rate):
        message = f"sampling_rate is {list(rate)} for output_size {list(size)}"
        raise ShapeError(message, "write one positive value per spatial axis")
    points = tuple(n * each for n, each in zip(size, rate, strict=True))
    return roi_resample(b, input, rois, batch_index, output_size=points, method=stated.resize_method), (1, 1, *rate)


# ── pooling ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@lower("nnef", "max_roi_pool")
def max_roi_pool(b: Builder, input: Value, rois: Value, batch_index: Value, *, output_size: Shaped) -> Value:
    """ROI max pooling: the maximum in each cell of a grid over each region; 0 outside the image."""
    count = _spatial(b, input, rois, output_size)
    x = _images(b, input, batch_index)
    lowest, coverage = b.like(x, float(np.finfo(np.float32).min)), None
    for axis, size in enumerate(output_size):
        member = _members(b, input, rois, axis, size)
        moved = _moved(b, x, axis + 2)
        # Cell by cell: all cells together would need the memory of as many images.
        x = _restored(b, b(Concat, *_largest(b, moved, member, size, lowest), axis=-1), axis + 2)
        some = b(ReduceMax, b(CastLike, member, x), [-1], keepdims=0)
        others = [place for place in range(1, count + 2) if place != axis + 2]
        share = b(Unsqueeze, some, [*others])
        coverage = share if coverage is None else b(Mul, coverage, share)
    if coverage is None:
        raise ValueError(count)
    return b(Where, b(Cast, coverage, to=DType.BOOL), x, 0.0)


def _largest(b: Builder, x: Value, member: Value, size: int, lowest: Value) -> list[Value]:
    """Return the maximum of each cell's elements along the last axis; `member` [N, size, length] selects them."""
    found: list[Value] = []
    inner = range(1, len(b.dims(x)) - 2)
    for cell in range(size):
        mask = b(Gather, member, [cell], axis=1)
        mask = b(Unsqueeze, mask, [*inner]) if inner else mask
        found.append(b(ReduceMax, b(Where, mask, x, lowest), [-1], keepdims=1))
    return found


@lower("nnef", "avg_roi_pool")
def avg_roi_pool(b: Builder, input: Value, rois: Value, batch_index: Value, *, output_size: Shaped) -> Value:
    """ROI average pooling: the mean in each cell of a grid over each region; 0 outside the image."""
    count = _spatial(b, input, rois, output_size)
    x = _images(b, input, batch_index)
    for axis, size in enumerate(output_size):
        member = b(CastLike, _members(b, input, rois, axis, size), x)
        number = b(Max, b(ReduceSum, member, [-1], keepdims=1), 1.0)
        # All elements of a cell have the same weight along an axis: [N, 1, …, length, size].
        share = b(Transpose, b(Div, member, number), perm=(0, 2, 1))
        if count > 1:
            share = b(Unsqueeze, share, [*range(1, count)])
        x = _restored(b, b(MatMul, _moved(b, x, axis + 2), share), axis + 2)
    return x


def _images(b: Builder, input: Value, batch_index: Value) -> Value:
    """Gather the image of each region."""
    return b(Gather, input, b(Reshape, batch_index, [-1]), axis=0)


def _moved(b: Builder, x: Value, axis: int) -> Value:
    """Move an axis of `x` to the end."""
    rank = len(b.dims(x))
    return x if axis == rank - 1 else b(Transpose, x, perm=(*range(axis), *range(axis + 1, rank), axis))


def _restored(b: Builder, x: Value, axis: int) -> Value:
    """Move the last axis of `x` back to `axis`."""
    rank = len(b.dims(x))
    return x if axis == rank - 1 else b(Transpose, x, perm=(*range(axis), rank - 1, *range(axis, rank - 1)))


def _members(b: Builder, input: Value, rois: Value, axis: int, size: int) -> Value:
    """Return which elements of an axis belong to each of the `size` cells of a region: bool [N, size, length]."""
    count = len(b.dims(input)) - 2
    begin, end = (b(Floor, b(Add, _column(b, rois, number), 0.5)) for number in (axis, axis + count))
    share = b(Div, b(Max, b(Sub, end, begin), 0.0), float(size))
    steps = b.like(rois, np.arange(size, dtype=np.float64)[None])
    first = b(Add, begin, b(Mul, b(Floor, share), steps))
    behind = b(Add, first, b(Ceil, share))
    indices = _indices(b, input, axis + 2, rois)
    last = b.integers([2])
    return b(
        And,
        b(GreaterOrEqual, indices, b(Unsqueeze, first, last)),
        b(Less, indices, b(Unsqueeze, behind, last)),
    )


def _indices(b: Builder, input: Value, axis: int, like: Value) -> Value:
    """0, 1, … up to the length of an axis, with the element type of `like`."""
    dim = b.dims(input)[axis]
    if isinstance(dim, int):
        return b.like(like, np.arange(reserve(dim), dtype=np.float64))
    numbers = b(Range, *(_scalar(b, value) for value in (b.integers([0]), _extent(b, input, axis), b.integers([1]))))
    return b(CastLike, numbers, like)


def _scalar(b: Builder, value: Value) -> Value:
    return b(Squeeze, value, [0])
