"""Median of PyTorch: the lower middle element if the count is even."""

from __future__ import annotations

import math
from typing import Any

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axis_of, emits, scalar_of
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Div, Sub
from graphport.ops.definitions.comparison import Equal, IsNaN, Not, Where
from graphport.ops.definitions.indexing import GatherElements, Slice
from graphport.ops.definitions.reduction import ArgMax, ReduceMax, ReduceSum, TopK
from graphport.ops.definitions.reshape import Reshape, Shape, Squeeze
from graphport.ops.lowering.operands import dtype_of, vector

Answer = Value | tuple[Value, ...]


@emits("torch.median", "aten::median")
def median(b: Builder, input: Value, dim: Any = None, keepdim: Any = False, *, passes_over: bool = False) -> Answer:
    """Median; the first NaN if there is one, or the median of all other elements with `passes_over`."""
    x = input if dim is not None else b(Reshape, input, [-1])
    axis = axis_of(scalar_of(dim) if dim is not None else 0, len(b.dims(x)))
    is_nan = b(IsNaN, x) if dtype_of(x).is_floating else None
    if is_nan is None:
        found = _middle(b, x, axis)
    else:
        behind = b(Where, is_nan, math.inf, x)
        found = (_middle_of_numbers if passes_over else _middle_or_nan)(b, behind, is_nan, axis)
    if dim is None or not scalar_of(keepdim):
        found = [b(Squeeze, each, [axis]) for each in found]
    return tuple(found) if dim is not None and b.count > 1 else found[0]


def _middle(b: Builder, x: Value, axis: int) -> list[Value]:
    """Return median and index for each row along `axis`."""
    count = b.dims(x)[axis]
    if isinstance(count, Symbolic):
        place = b(Div, b(Sub, b(Shape, x, start=axis, end=axis + 1), [1]), [2])
        end = b(Add, place, [1])
    else:
        middle = (int(count) - 1) // 2
        place, end = vector(b, [middle]), vector(b, [middle + 1])
    return [b(Slice, each, place, end, [axis]) for each in b.results(TopK, 2, x, end, axis=axis, largest=0)]


def _middle_or_nan(b: Builder, x: Value, is_nan: Value, axis: int) -> list[Value]:
    values, indices = _middle(b, x, axis)
    marks = cast(b, is_nan, DType.INT32)
    has_nan = cast(b, b(ReduceMax, marks, [axis]), DType.BOOL)
    return [b(Where, has_nan, b.like(x, math.nan), values), b(Where, has_nan, b(ArgMax, marks, axis=axis), indices)]


def _middle_of_numbers(b: Builder, x: Value, is_nan: Value, axis: int) -> list[Value]:
    count = b(ReduceSum, cast(b, b(Not, is_nan), DType.INT64), [axis])
    place = b(Div, b(Sub, count, 1), 2)
    ordered = b.results(TopK, 2, x, b(Shape, x, start=axis, end=axis + 1), axis=axis, largest=0)
    value, index = (b(GatherElements, each, place, axis=axis) for each in ordered)
    return [b(Where, b(Equal, count, 0), b.like(x, math.nan), value), index]
