"""Quantiles of PyTorch: positions between the ranked elements of an axis."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axis_of, emits, scalar_of
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Ceil, Floor, Max, Mul, Round, Sub
from graphport.ops.definitions.comparison import Equal, IsNaN, Less, Where
from graphport.ops.definitions.indexing import Gather, GatherElements
from graphport.ops.definitions.reduction import ReduceSum, TopK
from graphport.ops.definitions.reshape import Reshape, Shape, Squeeze, Transpose, Unsqueeze

_ROUNDED = {"lower": Floor, "higher": Ceil, "nearest": Round}


def _quantile(
    b: Builder,
    input: Value,
    q: Any,
    dim: Any = None,
    keepdim: Any = False,
    interpolation: str = "linear",
    *,
    ignores_nan: bool,
) -> Value:
    """Quantiles of an axis or of all elements; those of `q` of rank 1 are on a new first axis.

    A result is NaN if an element is NaN, or with `ignores_nan` if all are.
    """
    if interpolation not in (*_ROUNDED, "linear", "midpoint"):
        message = f"unsupported interpolation {interpolation}"
        raise UnsupportedError(message)
    x = input if dim is not None else b(Reshape, input, [-1])
    rank = len(b.dims(x))
    if not rank:
        x, rank = b(Reshape, x, [1]), 1
    axis = axis_of(scalar_of(dim) if dim is not None else 0, rank)
    shares = q if isinstance(q, Value) else b.like(x, scalar_of(q))
    has_many = len(b.dims(shares)) > 0
    shares = b(Reshape, shares, [-1 if place == axis else 1 for place in range(rank)])
    size = b(Shape, x, start=axis, end=axis + 1)
    whole = b(Reshape, cast(b, size, x.dtype or DType.FLOAT32), [1] * rank)
    is_nan = b(IsNaN, x)
    count = b(ReduceSum, b(Where, is_nan, b.like(x, 0), b.like(x, 1)), [axis])
    is_lacking = b(Equal, count, 0) if ignores_nan else b(Less, count, whole)
    ranked, _ = b.results(TopK, 2, b(Where, is_nan, math.inf, x), size, axis=axis, largest=0)
    last = b(Sub, count, 1) if ignores_nan else b(Sub, whole, 1)
    place = b(Mul, shares, b(Max, last, 0))
    if interpolation in _ROUNDED:
        found = _ranked_at(b, ranked, b(_ROUNDED[interpolation], place), axis, is_whole=not ignores_nan)
    else:
        low = b(Floor, place)
        weight = b.like(x, 0.5) if interpolation == "midpoint" else b(Sub, place, low)
        first, second = (_ranked_at(b, ranked, each, axis, is_whole=not ignores_nan) for each in (low, b(Ceil, place)))
        found = b(Add, first, b(Mul, b(Sub, second, first), weight))
    found = b(Where, is_lacking, b.like(x, math.nan), found)
    return _arrange_quantiles(b, found, axis, has_many=has_many, keeps=_kept_rank(input, dim, keepdim, b))


def _ranked_at(b: Builder, ranked: Value, place: Value, axis: int, *, is_whole: bool) -> Value:
    """Return the ranked elements at positions that are equal for all rows (`is_whole`) or differ."""
    indices = cast(b, place, DType.INT64)
    if is_whole:
        return b(Gather, ranked, b(Reshape, indices, [-1]), axis=axis)
    return b(GatherElements, ranked, indices, axis=axis)


def _kept_rank(input: Value, dim: Any, keepdim: Any, b: Builder) -> int | None:
    """Return the rank of the axes of size 1 to keep: 0 for none, `None` for the reduced axis alone."""
    if not scalar_of(keepdim):
        return 0
    return len(b.dims(input)) if dim is None else None


def _arrange_quantiles(b: Builder, found: Value, axis: int, *, has_many: bool, keeps: int | None) -> Value:
    """Move the axis of quantiles to the front, or remove it; keep reduced axes with size 1."""
    rank = len(b.dims(found))
    if not has_many:
        if keeps is None:
            return found
        return b(Reshape, found, [1] * keeps) if keeps else b(Squeeze, found, [axis])
    if axis:
        found = b(Transpose, found, perm=(axis, *(a for a in range(rank) if a != axis)))
    if keeps is None:
        return b(Unsqueeze, found, [axis + 1])
    return b(Unsqueeze, found, list(range(1, keeps + 1))) if keeps else found


emits("torch.quantile", "aten::quantile")(partial(_quantile, ignores_nan=False))
emits("torch.nanquantile", "aten::nanquantile")(partial(_quantile, ignores_nan=True))
