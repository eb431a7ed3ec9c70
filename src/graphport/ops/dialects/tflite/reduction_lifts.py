"""Sums, means and extremes over axes, as TFLite says them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError, lift
from graphport.ops.dialects.einsum import einsum_by_matrices, products_under_mask
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.operands import dtype_of
from graphport.ops.dialects.tflite.emitting import array_of, computed_in, in_int32, ints
from graphport.ops.pages import arithmetic
from graphport.ops.pages.reduction import reduce as reductions
from graphport.ops.pages.reduction.einsum import Einsum
from graphport.ops.pages.reduction.running import CumProd

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page

Lifted: TypeAlias = "tuple[Value, ...] | None"
_NUMBERS = frozenset((DType.FLOAT32, DType.INT32, DType.INT64))
_OF_TRUTHS = {"REDUCE_MAX": "REDUCE_ANY", "REDUCE_MIN": "REDUCE_ALL"}


def _axes(b: Builder, data: Value, axes: Value | None, noop_with_empty_axes: int) -> Value:
    """Which axes are taken together: none given are all of them, or none."""
    told = array_of(axes)
    if axes is not None and told is None:
        count = (b.dims(axes) or (1,))[0]
        if not isinstance(count, int):
            message = "how many axes it has must be known"
            raise UnsupportedError(message)
        if count:
            return in_int32(b, axes)
    if told is not None and told.size:
        return ints(b, told.reshape(-1).tolist())
    return ints(b, [] if noop_with_empty_axes else list(range(len(b.dims(data)))))


def _of_nothing(b: Builder, total: Value, *, is_least: bool) -> Value:
    """The extreme of no numbers, which is beyond all of them, where a sum is: kernels take the largest finite one."""
    dtype = dtype_of(total)
    beyond = float("inf") if is_least else float("-inf")
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        beyond = limits.max if is_least else limits.min
    return emit(b, "SELECT_V2", emit(b, "EQUAL", total, total), b.like(total, beyond), total)


def _reduction(page: Page, word: str, *, before: Page | None = None, after: Page | None = None) -> None:
    @lift("tflite", page.name)
    def lifted(
        b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Lifted:
        x = data if before is None else b(before, *[data] * before.signature.least)
        chosen = _axes(b, data, axes, noop_with_empty_axes)
        if dtype_of(x) is DType.BOOL and word in _OF_TRUTHS:
            return (emit(b, _OF_TRUTHS[word], x, chosen, keep_dims=bool(keepdims)),)
        if word in _OF_TRUTHS and 0 in b.dims(data):
            total = computed_in(b, _NUMBERS, "SUM", x, beside=(chosen,), keep_dims=bool(keepdims))
            return (_of_nothing(b, total, is_least=word == "REDUCE_MIN"),)
        y = computed_in(b, _NUMBERS, word, x, beside=(chosen,), keep_dims=bool(keepdims))
        return (y if after is None else b(after, y),)

    del lifted


_reduction(reductions.ReduceSum, "SUM")
_reduction(reductions.ReduceMean, "MEAN")
_reduction(reductions.ReduceProd, "REDUCE_PROD")
_reduction(reductions.ReduceMax, "REDUCE_MAX")
_reduction(reductions.ReduceMin, "REDUCE_MIN")
_reduction(reductions.ReduceL1, "SUM", before=arithmetic.Abs)
_reduction(reductions.ReduceL2, "SUM", before=arithmetic.Mul, after=arithmetic.Sqrt)
_reduction(reductions.ReduceSumSquare, "SUM", before=arithmetic.Mul)
_reduction(reductions.ReduceLogSum, "SUM", after=arithmetic.Log)


@reductions.ReduceLogSumExp.lift("tflite")
def lift_log_sum_exp(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Lifted:
    stated = {"noop_with_empty_axes": noop_with_empty_axes or None}
    most = b(reductions.ReduceMax, data, axes, **stated)
    total = b(reductions.ReduceSum, b(arithmetic.Exp, b(arithmetic.Sub, data, most)), axes, **stated)
    y = b(arithmetic.Add, b(arithmetic.Log, total), most)
    return (y if keepdims else b(reductions.ReduceMax, y, axes, keepdims=0, **stated),)


Einsum.lift("tflite")(einsum_by_matrices)
CumProd.lift("tflite")(products_under_mask)
