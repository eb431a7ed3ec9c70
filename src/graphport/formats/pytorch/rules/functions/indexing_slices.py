"""Slices of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import (
    Scalar,
    axis_of,
    bounded,
    constant_or_value,
    emits,
    integers,
    length,
    scalar_of,
)
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import transposed, vector

Answer = Value | tuple[Value, ...]
END = 2**31 - 1
"""Sentinel of a slice without end, and of an axis without a selected index."""


def sliced(b: Builder, x: Value, axis: int, start: Any, end: Any, step: Any = 1) -> Value:
    """Slice one axis; an `end` of `None` is the end of the axis."""
    bounds = [lengths(b, 0 if start is None else start), lengths(b, 2**63 - 1 if is_unbounded_end(end) else end)]
    if start in (None, 0) and is_unbounded_end(end) and step in (None, 1):
        return x
    return b(Slice, x, *bounds, vector(b, [axis]), lengths(b, 1 if step is None else step))


def is_unbounded_end(end: Any) -> bool:
    """Whether a slice extends to the end of the axis."""
    return end is None or (isinstance(end, int) and end >= END)


@emits("Tensor.slice", "aten::slice", "torch.slice")
def slice_(
    b: Builder,
    input: Value,
    dim: Any = None,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    dims: Any = None,
    starts: Any = None,
    ends: Any = None,
    steps: Any = None,
    selects: Any = None,
    select: Any = None,
) -> Value:
    """Slice one or several axes; a selected index removes its axis."""
    rank = len(b.dims(input))
    if dims is None:
        return sliced(b, input, axis_of(scalar_of(dim) or 0, rank), *map(constant_or_value, (start, end, step)))
    axes = [axis_of(axis, rank) for axis in integers(dims)]
    columns: list[list[Any] | None] = [
        _column(b, each, len(axes)) for each in (starts, start, ends, end, steps, step, selects, select)
    ]
    open_: list[Any] = [None] * len(axes)
    first, last, by, chosen = (columns[i] or columns[i + 1] or open_ for i in (0, 2, 4, 6))
    x = input
    for axis, p, q, s, place in zip(axes, first, last, by, chosen, strict=True):
        if is_none(place):
            x = sliced(b, x, axis, p, q, s)
    selected = [(axis, place) for axis, place in zip(axes, chosen, strict=True) if not is_none(place)]
    for axis, place in sorted(selected, key=lambda item: item[0], reverse=True):
        x = _selected(b, x, axis, place)
    return x


def is_none(place: Any) -> bool:
    return place is None or (isinstance(place, int) and place == END)


def _column(b: Builder, given: Any, count: int) -> list[Any] | None:
    """Return one entry per axis; a tensor is split."""
    if given is None:
        return None
    if isinstance(given, Value):
        known = given.fact.elements if isinstance(given.fact, TensorFact) else None
        numbers = [item for item in known or () if isinstance(item, int)]
        if known is not None and len(numbers) == len(known):
            return numbers
        return [b(Slice, given, [i], [i + 1]) for i in range(count)]
    return list(given) if is_sequence(given) else [given]


@emits("Tensor.select", "torch.select", "aten::select")
def select(b: Builder, input: Value | Scalar, dim: Any, index: Any) -> Value:
    # PNNX writes a tensor of one element as a number.
    x = (
        input
        if isinstance(input, Value)
        else b.constant(np.array([input], np.float32 if isinstance(input, float) else None))
    )
    return _selected(b, x, axis_of(scalar_of(dim), len(b.dims(x))), index)


def _selected(b: Builder, x: Value, axis: int, place: Any) -> Value:
    found = constant_or_value(place)
    index = found if isinstance(found, Value) else b.constant(np.array(found, np.int64))
    if isinstance(found, Value) and b.dims(found):
        index = b(Reshape, found, [])
    return b(Gather, x, index, axis=axis)


@emits("torch.narrow", "aten::narrow")
def narrow(b: Builder, input: Value, dim: Any, start: Any, length: Any) -> Value:
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    begin = int(scalar_of(start))
    return sliced(b, input, axis, begin, begin + int(scalar_of(length)))


@emits("torch.flip", "aten::flip")
def flip(b: Builder, input: Value, dims: Any) -> Value:
    axes = [axis_of(axis, len(b.dims(input))) for axis in integers(dims)]
    count = len(axes)
    if not count:
        return input
    least = np.iinfo(np.int64).min + 1
    return b(Slice, input, [-1] * count, [least] * count, axes, [-1] * count)


PNNX.lower("""
torch.fliplr, aten::fliplr(input) -> torch.flip(input, (1,))
torch.flipud, aten::flipud(input) -> torch.flip(input, (0,))
""")


@emits("torch.roll", "aten::roll")
def roll(b: Builder, input: Value, shifts: Any, dims: Any = None) -> Value:
    if dims is None or (is_sequence(dims) and not dims):
        flat = roll(b, b(Reshape, input, [-1]), shifts, (0,))
        return b(Reshape, flat, b(Shape, input))
    x = input
    for shift, dim in zip(integers(shifts), integers(dims), strict=True):
        axis = axis_of(dim, len(b.dims(x)))
        extent = b.dims(x)[axis]
        by = shift % extent if isinstance(extent, int) and extent else shift
        if by:
            x = b(Concat, sliced(b, x, axis, -by, None), sliced(b, x, axis, 0, -by), axis=axis)
    return x


@emits("torch.rot90", "aten::rot90")
def rot90(b: Builder, input: Value, k: Any = 1, dims: Any = (0, 1)) -> Value:
    rank = len(b.dims(input))
    i, j = (axis_of(axis, rank) for axis in integers(dims))
    order = list(range(rank))
    order[i], order[j] = order[j], order[i]
    match int(scalar_of(k)) % 4:
        case 0:
            return input
        case 1:
            return transposed(b, flip(b, input, (j,)), order)
        case 2:
            return flip(b, input, (i, j))
        case _:
            return flip(b, transposed(b, input, order), (j,))


@emits("aten::unfold", "Tensor.unfold")
def unfold(b: Builder, input: Value, dimension: Any, size: Any, step: Any) -> Value:
    """Sliding windows along an axis, in a new last axis."""
    dims = b.dims(input)
    axis = axis_of(scalar_of(dimension), len(dims))
    width, by = int(scalar_of(size)), int(scalar_of(step))
    bounded(width)
    if not dims:
        return b(Reshape, input, [1]) if width else sliced(b, b(Reshape, input, [1]), 0, 0, 0)
    within = np.arange(width, dtype=np.int64)
    if isinstance(dims[axis], int):
        count = len(range(0, length(dims, axis) - width + 1, by))
        bounded(max(count, 1) * width)
        indices = b.constant(np.arange(count, dtype=np.int64)[:, None] * by + within)
    else:
        end = b(Add, b(Squeeze, b(Shape, input, start=axis, end=axis + 1)), b.constant(1 - width, DType.INT64))
        starts = b(Range, b.constant(0, DType.INT64), end, b.constant(by, DType.INT64))
        indices = b(Add, b(Unsqueeze, starts, [1]), b.constant(within))
    y = b(Gather, input, indices, axis=axis)
    rank = len(dims) + 1
    return transposed(b, y, [*(a for a in range(rank) if a != axis + 1), axis + 1])
