"""Reductions of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import RULES, operator
from graphport.ops import registry
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Exp, Floor, Log, Max, Min, Sub
from graphport.ops.definitions.comparison import And, Equal, IsNaN, Less, LessOrEqual, Where
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reduction.einsum import Einsum
from graphport.ops.definitions.reduction.indices import ArgMax, ArgMin, TopK
from graphport.ops.definitions.reduction.running import CumSum
from graphport.ops.definitions.reshape import Expand, Identity, Reshape, Shape, Squeeze, Unsqueeze
from graphport.ops.lowering.extents import counted, extent, joined
from graphport.ops.lowering.operands import (
    as_int64,
    as_scalar,
    as_vector,
    cast,
    distinct_axes,
    dtype_of,
    ends_of,
    needed_integer,
    reshaped,
    scalar,
    vector,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_NARROW = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})


def _reduced(b: Builder, operator_name: str, x: Value, axes: Value, keep_dims: bool) -> Value:
    chosen, own = distinct_axes(b, x, axes), dtype_of(x)
    if chosen is None:
        return b(Identity, x)
    # ONNX reduces no short integers.
    wide = cast(b, x, DType.INT32) if own in _NARROW else x
    return cast(
        b, b(registry.op_defs()[operator_name], wide, chosen, keepdims=int(keep_dims), noop_with_empty_axes=1), own
    )


def _logical(b: Builder, operator_name: str, x: Value, axes: Value, keep_dims: bool) -> Value:
    return cast(b, _reduced(b, operator_name, cast(b, x, DType.INT32), axes, keep_dims), DType.BOOL)


def _mean(b: Builder, x: Value, axes: Value, keep_dims: bool) -> Value:
    """The mean; of integers the sum divided by the count, rounded towards zero."""
    if dtype_of(x).is_floating:
        return _reduced(b, "ReduceMean", x, axes, keep_dims)
    total = _reduced(b, "ReduceSum", x, axes, keep_dims)
    ones = b(Expand, b.like(x, 1), b(Shape, x))
    return b(Div, total, _reduced(b, "ReduceSum", ones, axes, keep_dims))


def _extreme(b: Builder, operator_name: str, x: Value, axes: Value, keep_dims: bool) -> Value:
    return _reduced(b, operator_name, x, axes, keep_dims)


RULES.having(reduced=_reduced, mean=_mean, logical=_logical, extreme=_extreme).lower("""
Sum(x, axes, *, keep_dims=False) -> reduced("ReduceSum", x, axes, keep_dims)
Prod(x, axes, *, keep_dims=False) -> reduced("ReduceProd", x, axes, keep_dims)
Max(x, axes, *, keep_dims=False) -> extreme("ReduceMax", x, axes, keep_dims)
Min(x, axes, *, keep_dims=False) -> extreme("ReduceMin", x, axes, keep_dims)
Mean(x, axes, *, keep_dims=False) -> mean(x, axes, keep_dims)
All(x, axes, *, keep_dims=False) -> logical("ReduceMin", x, axes, keep_dims)
Any(x, axes, *, keep_dims=False) -> logical("ReduceMax", x, axes, keep_dims)
EuclideanNorm(x, axes, *, keep_dims=False) -> reduced("ReduceL2", x, axes, keep_dims)
""")


def _register_arg(name: str, *, is_max: bool) -> None:
    @operator(name)
    def rule(b: Builder, x: Value, axis: Value | None = None, *, output_type: DType = DType.INT64) -> Value:
        """The first index of the extreme element along an axis; NaN is none."""
        place = 0 if axis is None else needed_integer(axis, "the axis")
        own = dtype_of(x)
        if own is DType.BOOL or own in _NARROW:
            x = cast(b, x, DType.INT32)
        elif own.is_floating:
            low, high = ends_of(own)
            x = b(Where, b(IsNaN, x), b.like(x, low if is_max else high), x)
        return cast(b, b(ArgMax if is_max else ArgMin, x, axis=place, keepdims=0), output_type)

    del rule


_register_arg("ArgMax", is_max=True)
_register_arg("ArgMin", is_max=False)


@operator("TopKV2", "TopK")
def top_k(
    b: Builder,
    x: Value,
    count: Value | None = None,
    *,
    k: int = 0,
    index_type: DType = DType.INT32,
    sorted: bool = True,
) -> list[Value]:
    """The largest elements along the last axis and their indices, the lower index first in ties."""
    del sorted
    values, indices = b.results(TopK, 2, x, vector(b, [k]) if count is None else as_vector(b, count))
    return [values, cast(b, indices, index_type)]


@operator("NthElement")
def nth_element(b: Builder, x: Value, n: Value, *, reverse: bool = False) -> Value:
    """The element of the last axis that is at position `n` in ascending (`reverse`: descending) order."""
    count = b(Add, as_vector(b, n), [1])
    values, _ = b.results(TopK, 2, x, count, largest=int(reverse))
    return b(Gather, values, -1, axis=-1)


@operator("HistogramFixedWidth")
def histogram(b: Builder, x: Value, ends: Value, count: Value, *, dtype: DType = DType.INT32) -> Value:
    """The number of elements in each bin of equal width; elements outside count in the first or last bin."""
    low, high = (b(Gather, ends, n, axis=0) for n in (0, 1))
    bins = as_scalar(b, as_int64(b, count))
    width = b(Div, b(Sub, high, low), cast(b, bins, dtype_of(x)))
    place = b(Floor, b(Div, b(Sub, reshaped(b, x, (-1, 1)), low), width))
    last = cast(b, b(Sub, bins, 1), dtype_of(x))
    at = as_int64(b, b(Min, b(Max, place, 0), last))
    is_here = b(Equal, at, counted(b, reshaped(b, bins, (1,))))
    return b(ReduceSum, cast(b, is_here, dtype), [0], keepdims=0)


@operator("InTopKV2", "InTopK")
def in_top_k(b: Builder, predictions: Value, targets: Value, count: Value | None = None, *, k: int = 0) -> Value:
    """Whether fewer than k predictions of a row are larger than that of the target."""
    number = scalar(b, k, DType.INT64) if count is None else as_scalar(b, as_int64(b, count))
    from graphport.ops.definitions.indexing.gathering import GatherElements

    at = b(Unsqueeze, as_int64(b, targets), [1])
    own = b(GatherElements, predictions, at, axis=1)
    larger = b(ReduceSum, cast(b, b(Less, own, predictions), DType.INT64), [1], keepdims=0)
    finite = b(Less, b(Abs, own), np.inf)
    is_finite = b(Equal, b(ReduceMax, cast(b, finite, DType.INT32), [1], keepdims=0), 1)
    return b(And, b(Less, larger, number), is_finite)


@operator("Einsum")
def einsum(b: Builder, *x: Value, equation: str) -> Value:
    """The sum of products that an equation describes."""
    return b(Einsum, *x, equation=equation)


@operator("Cumsum")
def cumsum(b: Builder, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """Sums of all elements up to each."""
    place = as_scalar(b, as_vector(b, axis))
    return b(CumSum, x, place, exclusive=int(exclusive) or None, reverse=int(reverse) or None)


@operator("Cumprod")
def cumprod(b: Builder, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """Products of all elements up to each."""
    from graphport.ops.definitions.reduction.running import CumProd

    place = as_scalar(b, as_vector(b, axis))
    return b(CumProd, x, place, exclusive=int(exclusive) or None, reverse=int(reverse) or None)


@operator("CumulativeLogsumexp")
def cumulative_logsumexp(b: Builder, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """The logarithms of running sums of exponentials.

    Each is computed relative to the largest element that it contains: elements of a matrix of pairs.
    """
    rank = len(b.dims(x))
    place = needed_integer(axis, "the axis") % max(rank, 1)
    steps = counted(b, extent(b, x, place))
    row, column = (b(Unsqueeze, steps, [side]) for side in (1, 0))
    earlier = b(Less if exclusive else LessOrEqual, *((row, column) if reverse else (column, row)))
    # A new axis after the summed one: the elements that each result contains.
    shape = [1] * (rank + 1)
    shape[place] = shape[place + 1] = -1
    size = extent(b, x, place)
    whole = joined(b, *(size if n == -1 else 1 for n in shape))
    pairs = b(Where, b(Reshape, earlier, whole), b(Unsqueeze, x, [place]), -np.inf)
    at = vector(b, [place + 1])
    largest = b(ReduceMax, pairs, at)
    is_finite = b(Less, b(Abs, largest), np.inf)
    base = b(Where, is_finite, largest, 0)
    total = b(ReduceSum, b(Exp, b(Sub, pairs, base)), at)
    return b(Squeeze, b(Add, b(Log, total), base), at)
