"""Reductions in TFLite."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError
from graphport.ops.dialects.operands import as_index, as_scalar, as_vector, cast, dtype_of, integers, needed, vector
from graphport.ops.dialects.tflite.binding import Operator, word
from graphport.ops.dialects.tflite.reduction_product import product
from graphport.ops.dialects.tflite.tables import halvings, integers_of, quotient_of, rounded_twice
from graphport.ops.pages.reduction.indices import ArgMax, ArgMin, TopK
from graphport.ops.pages.reduction.reduce import ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum
from graphport.ops.pages.reduction.running import CumSum
from graphport.ops.pages.reshape import Identity

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.declare import Page

_NARROW = frozenset((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.BOOL))


def _axes(op: Operator) -> Value | None:
    """The axes, each once; `None` where there are none."""
    told = integers(op.raw(1))
    if told is None:
        return as_vector(op.b, op.raw(1))
    rank = len(op.dims(0))
    if any(not -rank <= axis < rank for axis in told):
        message = f"axes {list(told)} of {rank}"
        raise ShapeError(message)
    return vector(op.b, list(dict.fromkeys(axis % rank for axis in told))) if told else None


def _reduced(op: Operator, page: Page, x: Value) -> Value:
    b, axes = op.b, _axes(op)
    if axes is None:
        return b(Identity, x)
    stated = {"keepdims": int(op.option("keep_dims", default=False)), "noop_with_empty_axes": 1}
    own = dtype_of(x)
    if own in _NARROW:
        return cast(b, b(page, cast(b, x, DType.INT32), axes, **stated), own)
    return b(page, x, axes, **stated)


def _reduction(name: str, page: Page, *, moves: bool = False) -> None:
    @word(name, moves=moves, layout="axes")
    def rule(op: Operator) -> Value:
        return _reduced(op, page, op[0])

    del rule


_reduction("SUM", ReduceSum)
_reduction("REDUCE_MAX", ReduceMax, moves=True)
_reduction("REDUCE_MIN", ReduceMin, moves=True)
_reduction("REDUCE_ANY", ReduceMax)
_reduction("REDUCE_ALL", ReduceMin)


@word("REDUCE_PROD", layout="axes")
def reduce_prod(op: Operator) -> Value:
    """The product over axes; of integers as kernels round it, after each factor."""
    return product(op) or _reduced(op, ReduceProd, op[0])


@word("MEAN", layout="axes")
def mean(op: Operator) -> Value:
    """The mean over axes; of int16 as kernels round it, twice.

    LiteRT computes those of bytes by XNNPACK, which rounds once, unless it is kept from it.
    """
    told = integers(op.raw(1))
    dims = op.dims(0)
    lengths = [dims[axis] for axis in dict.fromkeys(axis % len(dims) for axis in told or ()) if -1 < axis < len(dims)]
    count = prod(n for n in lengths if isinstance(n, int)) if all(isinstance(n, int) for n in lengths) else 0
    shift = halvings(quotient_of(op), count) if count else 0
    entry = op.quantization(0)
    whole = integers_of(op) if told and shift >= 1 and entry is not None and entry[0] is DType.INT16 else None
    if whole is not None:
        twice = rounded_twice(op, _reduced(op, ReduceMean, whole), quotient_of(op), shift)
        if twice is not None:
            return twice
    return _reduced(op, ReduceMean, op[0])


def _place(name: str, page: Page) -> None:
    @word(name, is_raw=True)
    def rule(op: Operator) -> Value:
        (axis,) = needed(op.raw(1), "the axis")
        x = op.raw(0)
        if dtype_of(x) in _NARROW:
            x = cast(op.b, x, DType.INT32)
        return cast(op.b, op.b(page, x, axis=axis, keepdims=0), op.types[0] or DType.INT64)

    del rule


_place("ARG_MAX", ArgMax)
_place("ARG_MIN", ArgMin)


@word("TOPK_V2", moves=True)
def topk_v2(op: Operator) -> tuple[Value, Value]:
    """The k largest along the last axis, the largest first, and where they stand."""
    b, x = op.b, op[0]
    own = dtype_of(x)
    wide = cast(b, x, DType.INT32) if own in _NARROW else x
    values, indices = b.results(TopK, 2, wide, as_vector(b, op.raw(1)))
    return cast(b, values, own), cast(b, indices, op.types[1] or DType.INT32)


@word("CUMSUM")
def cumsum(op: Operator) -> Value:
    """Sums of all elements up to each, with or without it, from the front or from behind."""
    axis = as_index(op.b, as_scalar(op.b, op.raw(1)))
    flags = {name: int(op.option(name, default=False)) or None for name in ("exclusive", "reverse")}
    return op.b(CumSum, op[0], axis, **flags)
