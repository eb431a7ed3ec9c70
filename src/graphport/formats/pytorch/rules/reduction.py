"""Reductions, sorted search and distances in exported programs, also along open dims."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axes_of, axis_of, scalar_of
from graphport.formats.pytorch.rules.functions.reduction_median import median
from graphport.formats.pytorch.rules.functions.reduction_norms import norm
from graphport.formats.pytorch.rules.functions.reduction_reduced import reduced, widen_narrow
from graphport.formats.pytorch.rules.functions.reduction_statistics import running_extreme
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.formats.pytorch.rules.promotion import cast, promoted
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import OpDef
from graphport.ops.definitions.arithmetic import Div, Max, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, GreaterOrEqual, LessOrEqual, Not, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Gather, GatherElements, NonZero, Trilu
from graphport.ops.definitions.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Split, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, ends_of, vector

Answer = Any


def _count(b: Builder, x: Value, axes: Any) -> Value:
    """Return the number of elements along axes in the element type of `x`."""
    dims = b.dims(x)
    chosen = [dims[axis] for axis in axes]
    if not any(isinstance(dim, Symbolic) for dim in chosen):
        return b.like(x, math.prod(int(dim) for dim in chosen if isinstance(dim, int)))
    lengths = b(Gather, b(Shape, x), list(axes))
    return cast(b, b(ReduceProd, lengths, keepdims=0), dtype_of(x))


def _variance(b: Builder, x: Value, dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> Value:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = axes_of(dim, len(b.dims(x)))
    wide = cast(b, x, DType.FLOAT32) if dtype_of(x) in (DType.FLOAT16, DType.BFLOAT16) else x
    gap = b(Sub, wide, b(ReduceMean, wide, axes))
    squares = b(Mul, gap, gap)
    fewer = (
        scalar_of(correction)
        if correction is not None
        else 0
        if unbiased is not None and not scalar_of(unbiased)
        else 1
    )
    if not fewer:
        return cast(b, reduced(b, ReduceMean, squares, axes, keepdim=keepdim), dtype_of(x))
    total = reduced(b, ReduceSum, squares, axes, keepdim=keepdim)
    count = b(Sub, _count(b, wide, axes), b.like(wide, fewer))
    return cast(b, b(Div, total, b(Max, count, 0)), dtype_of(x))


def _mean(b: Builder, x: Value, dim: Any, keepdim: Any) -> Value:
    return reduced(b, ReduceMean, x, None if isinstance(dim, bool) else dim, keepdim=keepdim)


RULES.having(variance=_variance, mean=_mean).lower("""
aten.var(self, dim=None, unbiased=None, keepdim: any = False, correction=None)
    -> variance(self, dim, unbiased, keepdim, correction)
aten.std(self, dim=None, unbiased=None, keepdim: any = False, correction=None)
    -> Sqrt(variance(self, dim, unbiased, keepdim, correction))
aten.var_mean(self, dim=None, unbiased=None, keepdim: any = False, correction=None)
    -> (variance(self, dim, unbiased, keepdim, correction), mean(self, dim, keepdim))
aten.std_mean(self, dim=None, unbiased=None, keepdim: any = False, correction=None)
    -> (Sqrt(variance(self, dim, unbiased, keepdim, correction)), mean(self, dim, keepdim))
""")


# ── ranks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _running(op_def: OpDef, b: Builder, self: Value, dim: Any) -> Answer:
    """Cumulative extreme; along an open dim by comparing each element with all before it."""
    rank = len(b.dims(self))
    axis = axis_of(scalar_of(dim), rank)
    if not isinstance(b.dims(self)[axis], Symbolic):
        return running_extreme(op_def, b, self, dim)
    perm = [*(a for a in range(rank) if a != axis), axis]
    x = b(Transpose, widen_narrow(b, self), perm=tuple(perm))
    count = b(Reshape, b(Shape, x, start=rank - 1, end=rank), [])
    indices = b(Range, b.constant(0, DType.INT64), count, b.constant(1, DType.INT64))
    seen = b(LessOrEqual, indices, b(Unsqueeze, indices, [1]))
    wide = b(Unsqueeze, x, [rank - 1])
    worst = ends_of(dtype_of(x))[0 if op_def is ReduceMax else 1]
    shown = b(Where, seen, wide, b.like(x, worst))
    values = b(op_def, shown, vector(b, [rank]), keepdims=0)
    is_best = b(And, seen, b(Equal, wide, b(Unsqueeze, values, [rank])))
    last = b(ReduceMax, b(Where, is_best, indices, b.constant(-1, DType.INT64)), [rank], keepdims=0)
    back = tuple(int(place) for place in np.argsort(perm))
    return cast(b, b(Transpose, values, perm=back), dtype_of(self)), b(Transpose, last, perm=back)


aten("aten.cummax")(partial(_running, ReduceMax))
aten("aten.cummin")(partial(_running, ReduceMin))


@aten("aten.nanmedian")
def nanmedian(b: Builder, self: Value, dim: Any = None, keepdim: Any = False) -> Answer:
    return median(b, self, dim, keepdim, passes_over=True)


@aten("aten.searchsorted")
def searchsorted(
    b: Builder,
    sorted_sequence: Value,
    self: Any,
    out_int32: Any = False,
    right: Any = False,
    side: Any = None,
    sorter: Value | None = None,
) -> Value:
    """searchsorted: count the sorted elements below each value."""
    ordered = sorted_sequence
    if sorter is not None:
        ordered = b(GatherElements, sorted_sequence, sorter, axis=-1)
    x = self if isinstance(self, Value) else b.like(ordered, scalar_of(self))
    behind = side == "right" if side is not None else bool(scalar_of(right))
    last = b(Unsqueeze, x, [len(b.dims(x))])
    wide = ordered if len(b.dims(ordered)) == 1 else b(Unsqueeze, ordered, [len(b.dims(ordered)) - 1])
    # NaN is sorted last.
    before = b(Not, b(Greater if behind else GreaterOrEqual, *promoted(b, wide, last)))
    found = b(ReduceSum, cast(b, before, DType.INT64), [-1], keepdims=0)
    return cast(b, found, DType.INT32) if scalar_of(out_int32) else found


@aten("aten.isin")
def isin(b: Builder, elements: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False) -> Value:
    """Whether each element is contained in `test_elements`."""
    del assume_unique
    given, wanted = (
        each if isinstance(each, Value) else b.constant(scalar_of(each)) for each in (elements, test_elements)
    )
    x, y = promoted(b, b(Unsqueeze, given, [-1]), b(Reshape, wanted, [-1]))
    # Also correct for no test elements: the sum over an empty axis is 0.
    found = b(ReduceSum, cast(b, b(Equal, x, y), DType.INT64), [-1], keepdims=0)
    return b(Equal if scalar_of(invert) else Greater, found, b.like(found, 0))


# ── distances ─────────────────────────────────────────────────────────────────────────────────────────────────────────


RULES.having(norm=norm).lower("""
aten._cdist_forward, aten._euclidean_dist, aten.cdist(x1, x2, p: any = 2.0, compute_mode: ignored = None)
    -> norm(Sub(Unsqueeze(x1, [-2]), Unsqueeze(x2, [-3])), p, -1, False)
aten.dist(self, other, p: any = 2) -> norm(Sub(self, other), p, None, False)
aten.bucketize(self, boundaries, out_int32=False, right=False)
    -> aten.searchsorted(boundaries, self, out_int32, right)
""")


@aten("aten._pdist_forward", "aten.pdist")
def pdist(b: Builder, self: Value, p: Any = 2.0) -> Value:
    """Pairwise distances of rows, above the diagonal of the distance matrix."""
    count = b.dims(self, at_least=1)[0]
    if isinstance(count, int):
        reserve(count, count)
        pairs = [vector(b, [int(n) for n in row]) for row in np.triu_indices(count, 1)]
    else:
        rows = b(Shape, self, end=1)
        every = b(Expand, b.constant(1, DType.INT64), b(Concat, rows, rows, axis=0))
        indices = b(NonZero, b(Trilu, every, b.constant(1, DType.INT64)))
        pairs = [b(Squeeze, row, [0]) for row in b.results(Split, 2, indices, [1, 1], axis=0)]
    return norm(b, b(Sub, b(Gather, self, pairs[0]), b(Gather, self, pairs[1])), p, -1, False)


@aten("aten.trace")
def trace(b: Builder, self: Value) -> Value:
    zero, one, scalar = b.constant(0, DType.INT64), b.constant(1, DType.INT64), vector(b, [])
    counts = [b(Reshape, b(Shape, self, start=a, end=a + 1), scalar) for a in (0, 1)]
    rows, columns = (b(Range, zero, count, one) for count in counts)
    eye = b(Equal, b(Unsqueeze, rows, [1]), columns)
    kind = dtype_of(self) if dtype_of(self).is_floating else DType.INT64
    return b(ReduceSum, b(Mul, cast(b, self, kind), cast(b, eye, kind)), keepdims=0)


@aten("aten._trilinear")
def trilinear(
    b: Builder,
    i1: Value,
    i2: Value,
    i3: Value,
    expand1: Any,
    expand2: Any,
    expand3: Any,
    sumdim: Any,
    unroll_dim: Any = 1,
) -> Value:
    del unroll_dim
    wide = [b(Unsqueeze, x, list(axes)) if axes else x for x, axes in ((i1, expand1), (i2, expand2), (i3, expand3))]
    product = b(Mul, b(Mul, wide[0], wide[1]), wide[2])
    return b(ReduceSum, product, list(sumdim), keepdims=0) if sumdim else product
