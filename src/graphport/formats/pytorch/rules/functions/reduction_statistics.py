"""Statistics of PyTorch: cumulative extremes, quantiles, NaN-ignoring sums, counts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axes_of, axis_of, bounded, emits, length, scalar_of
from graphport.formats.pytorch.rules.functions.reduction_norms import norm
from graphport.formats.pytorch.rules.functions.reduction_reduced import widen_narrow
from graphport.formats.pytorch.rules.promotion import cast, floating
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import OpDef, UnsupportedError
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Cast, Div, Max, Min, Mul, Sqrt, Sub
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, IsNaN, Less, LessOrEqual, Where
from graphport.ops.definitions.generate import EyeLike, Range
from graphport.ops.definitions.indexing import GatherElements, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ArgMax, ReduceMax, ReduceMean, ReduceMin, ReduceSum, TopK
from graphport.ops.definitions.reshape import Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, ends_of, vector

_MOST = 512
"""Maximum size of an axis for algorithms that compare each element with all before it."""


def running_extreme(op_def: OpDef, b: Builder, input: Value, dim: Any) -> tuple[Value, ...]:
    """Cumulative maximum or minimum, and the last index of its value."""
    rank = len(b.dims(input))
    axis = axis_of(scalar_of(dim), rank)
    count = length(b.dims(input), axis)
    if count > _MOST:
        message = f"cummax and cummin along {count} elements, at most {_MOST} are supported"
        raise UnsupportedError(message)
    perm = [*(a for a in range(rank) if a != axis), axis]
    x = b(Transpose, widen_narrow(b, input), perm=tuple(perm))
    behind = b(Unsqueeze, x, [rank - 1])
    worst = ends_of(dtype_of(x))[0 if op_def is ReduceMax else 1]
    seen = b.constant(np.tril(np.ones((count, count), bool)))
    wide = b(Where, seen, behind, b.like(x, worst))
    values = b(op_def, wide, vector(b, [rank]), keepdims=0)
    hits = b(And, b(Equal, wide, b(Unsqueeze, values, [rank])), seen)
    indices = b(ArgMax, cast(b, hits, DType.INT32), axis=rank, keepdims=0, select_last_index=1)
    back = tuple(int(place) for place in np.argsort(perm))
    return cast(b, b(Transpose, values, perm=back), dtype_of(input)), b(Transpose, indices, perm=back)


emits("torch.cummax", "aten::cummax")(partial(running_extreme, ReduceMax))
emits("torch.cummin", "aten::cummin")(partial(running_extreme, ReduceMin))


def _ranked(b: Builder, x: Value, axis: int, count: int | None = None) -> tuple[Value, ...]:
    """Return the smallest `count` entries along an axis in order (by default all), and their indices."""
    wanted = b(Shape, x, start=axis, end=axis + 1) if count is None else vector(b, [count])
    return b.results(TopK, 2, x, wanted, axis=axis, largest=0)


@emits("torch.kthvalue", "aten::kthvalue")
def kthvalue(b: Builder, input: Value, k: Any, dim: Any = -1, keepdim: Any = False) -> tuple[Value, ...]:
    axis, count = axis_of(scalar_of(dim), len(b.dims(input))), int(scalar_of(k))
    found = _ranked(b, input, axis, count)
    return tuple(_select_rank(b, each, axis, count - 1, keepdim) for each in found)


def _select_rank(b: Builder, x: Value, axis: int, place: int, keepdim: Any) -> Value:
    axes = vector(b, [axis])
    one = b(Slice, x, [place], [place + 1], axes)
    return one if scalar_of(keepdim) else b(Squeeze, one, axes)


def _numbers_only(b: Builder, input: Value, dim: Any, keepdim: Any) -> tuple[Value, Value]:
    """Return the sum of elements that are not NaN, and their number."""
    axes = vector(b, axes_of(dim, len(b.dims(input))))
    missing = b(IsNaN, input)
    kept = b(Where, missing, 0, input)
    counted = b(Where, missing, b.like(input, 0), b.like(input, 1))
    keeps = None if scalar_of(keepdim) else 0
    return b(ReduceSum, kept, axes, keepdims=keeps), b(ReduceSum, counted, axes, keepdims=keeps)


PNNX.having(numbers_only=_numbers_only).lower("""
torch.msort, aten::msort(input) -> values, _ = TopK(input, Shape(input, start=0, end=1), axis=0, largest=0); values
torch.nansum, aten::nansum(input, dim=None, keepdim: any = False, dtype: ignored = None)
    -> total, _ = numbers_only(input, dim, keepdim); total
torch.nanmean, aten::nanmean(input, dim=None, keepdim: any = False, dtype: ignored = None)
    -> Div(*numbers_only(input, dim, keepdim))
# The sums of neighbours, halved.
torch.trapz, aten::trapz, torch.trapezoid, aten::trapezoid(y, dx=1.0, dim=-1)
    -> place = axis(dim, y);
       total = ReduceSum(Add(Slice(y, [1], [9223372036854775807], [place]), Slice(y, [0], [-1], [place])), [place],
                         keepdims=0);
       Mul(total, dx / 2)
""")


@emits("torch.cov", "aten::cov")
def cov(b: Builder, input: Value, correction: Any = 1, fweights: Any = None, aweights: Any = None) -> Value:
    """Covariance matrix of variables in rows and observations in columns; axes of size 1 are removed."""
    x = floating(b, input)
    x = x if len(b.dims(x)) == 2 else b(Reshape, x, [1, -1])
    fewer, given = b.like(x, scalar_of(correction)), [cast(b, w, dtype_of(x)) for w in (fweights, aweights) if w]
    if given:
        weights = given[0] if len(given) == 1 else b(Mul, *given)
        total = b(ReduceSum, weights, keepdims=0)
        own = b(ReduceSum, b(Mul, weights, given[-1]), keepdims=0) if aweights else total
        fewer = b(Mul, fewer, b(Div, own, total))
        average = b(Div, b(ReduceSum, b(Mul, x, weights), [1]), total)
    else:
        weights, total = None, cast(b, b(Reshape, b(Shape, x, start=1), []), dtype_of(x))
        average = b(ReduceMean, x, [1])
    centered = b(Sub, x, average)
    product = b(MatMul, centered, b(Transpose, centered if weights is None else b(Mul, centered, weights), perm=(1, 0)))
    found = b(Div, product, b(Max, b(Sub, total, fewer), 0))
    return b(Squeeze, found) if b.dims(x)[0] == 1 else found


@emits("torch.corrcoef", "aten::corrcoef")
def corrcoef(b: Builder, input: Value) -> Value:
    """Correlation coefficients of variables in rows, clipped to -1 … 1."""
    found = cov(b, input)
    if not b.dims(found):
        return b(Div, found, found)
    eye = b(Cast, b(EyeLike, found), to=DType.BOOL)
    deviations = b(Sqrt, b(ReduceSum, b(Where, eye, found, 0), [1]))
    scaled = b(Div, b(Div, found, deviations), b(Transpose, deviations, perm=(1, 0)))
    return b(Clip, scaled, -1, 1)


@emits("torch.renorm", "aten::renorm")
def renorm(b: Builder, input: Value, p: Any, dim: Any, maxnorm: Any) -> Value:
    """Scale each slice along an axis whose norm exceeds `maxnorm` to that norm.

    Source: PyTorch's renorm, the factor is maxnorm / (norm + 1e-7).
    """
    rank = len(b.dims(input))
    axis = axis_of(scalar_of(dim), rank)
    size = norm(b, input, scalar_of(p), [a for a in range(rank) if a != axis], keepdim=True)
    most = b.like(input, float(scalar_of(maxnorm)))
    factor = b(Div, most, b(Add, size, 1e-7))
    return b(Mul, input, b(Where, b(Less, most, size), factor, 1))


@emits("torch.histc", "aten::histc")
def histc(b: Builder, input: Value, bins: Any = 100, min: Any = 0, max: Any = 0) -> Value:
    """Histogram with `bins` equal bins from `min` to `max`; the last bin includes `max`."""
    count, low, high = int(scalar_of(bins)), float(scalar_of(min)), float(scalar_of(max))
    if low == high:
        message = "histc with a range taken from the data (min equal to max)"
        raise UnsupportedError(message)
    flat = b(Reshape, input, [-1])
    inside = b(And, b(GreaterOrEqual, flat, b.like(flat, low)), b(LessOrEqual, flat, b.like(flat, high)))
    scaled = b(Div, b(Mul, b(Sub, flat, b.like(flat, low)), b.like(flat, count)), b.like(flat, high - low))
    place = b(Min, cast(b, scaled, DType.INT64), count - 1)
    hits = b(Equal, b(Unsqueeze, place, [1]), b.constant(np.arange(bounded(count), dtype=np.int64)))
    kept = b(And, hits, b(Unsqueeze, inside, [1]))
    return b(ReduceSum, cast(b, kept, dtype_of(input)), [0], keepdims=0)


def _sorted_place(b: Builder, boundaries: Value, x: Value, right: Any) -> Value:
    """Count the boundaries below each entry, or with `right` also those equal to it."""
    if len(b.dims(boundaries)) != 1:
        message = "boundaries of rank 2 or more"
        raise UnsupportedError(message)
    last = b(Unsqueeze, x, [len(b.dims(x))])
    before = b(LessOrEqual if scalar_of(right) else Less, boundaries, last)
    return b(ReduceSum, cast(b, before, DType.INT64), [-1], keepdims=0)


PNNX.having(place=_sorted_place).lower("""
torch.bucketize, aten::bucketize(input, boundaries, out_int32=False, right: any = False)
    -> out_int32: cast(place(boundaries, input, right), int32)
    -> place(boundaries, input, right)
torch.searchsorted,
    aten::searchsorted(sorted_sequence, input, out_int32=False, right: any = False, side=None, sorter=None)
    -> sorter is not None: unsupported("a sequence that is sorted by places")
    -> found = place(sorted_sequence, input, right if side is None else side == "right"); out_int32: cast(found, int32)
    -> found
""")


@emits("torch.mode", "aten::mode")
def mode(b: Builder, input: Value, dim: Any = -1, keepdim: Any = False) -> tuple[Value, ...]:
    """Mode: the smallest of the most frequent entries along an axis, and its last index."""
    rank = len(b.dims(input))
    axis = axis_of(scalar_of(dim), rank)
    count = length(b.dims(input), axis)
    if count > _MOST:
        message = f"mode along {count} elements, at most {_MOST} are supported"
        raise UnsupportedError(message)
    values, indices = _ranked(b, input, axis)
    # The indices of equal elements are ascending, so the last of a run is the last index.
    row, column = (b(Unsqueeze, values, [place]) for place in (axis + 1, axis))
    often = b(ReduceSum, cast(b, b(Equal, row, column), DType.INT64), [axis + 1], keepdims=0)
    best = b(ArgMax, often, axis=axis)
    end = b(Add, best, b(Sub, b(ReduceMax, often, [axis]), 1))
    found = (b(GatherElements, values, best, axis=axis), b(GatherElements, indices, end, axis=axis))
    return found if scalar_of(keepdim) else tuple(b(Squeeze, each, [axis]) for each in found)


@emits("torch.trace", "aten::trace")
def trace(b: Builder, input: Value) -> Value:
    rows, columns = (length(b.dims(input), axis) for axis in (0, 1))
    bounded(rows * columns)
    eye = np.eye(rows, columns)
    return b(ReduceSum, b(Mul, input, b.like(input, eye)), keepdims=0)


@emits("torch.bincount", "aten::bincount")
def bincount(b: Builder, input: Value, weights: Any = None, minlength: Any = 0) -> Value:
    """Count the occurrences of each integer from 0 to the maximum, or sum their weights."""
    one = b.constant(np.int64(1))
    largest = b(Add, b(ReduceMax, cast(b, input, DType.INT64), keepdims=0), one)
    count = b(Max, largest, int(scalar_of(minlength)))
    numbers = b(Range, 0, count, one)
    hits = b(Equal, b(Unsqueeze, numbers, [1]), cast(b, input, DType.INT64))
    if weights is None:
        return b(ReduceSum, cast(b, hits, DType.INT64), [1], keepdims=0)
    shares = weights if dtype_of(weights) is DType.FLOAT32 else cast(b, weights, DType.FLOAT64)
    return b(ReduceSum, b(Where, hits, shares, 0), [1], keepdims=0)
