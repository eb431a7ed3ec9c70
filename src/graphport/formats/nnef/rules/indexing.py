"""Picking elements in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dims import Symbolic
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.indexing.slicing import FAR
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.indexing import SliceView

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"


@lower("nnef", "gather")
def gather(b: Builder, input: Value, indices: Value, *, axis: int) -> Value:
    """Gather entries along an axis."""
    if not 0 <= axis < len(b.dims(input)):
        message = f"axis {axis} is out of range for rank {len(b.dims(input))}"
        raise ShapeError(message)
    return b(Gather, input, indices, axis=axis)


@Gather.export_rule("nnef")
def export_gather(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Exported:
    """Export Gather; NNEF has no negative indices, so constant ones are normalized."""
    dims = b.dims(data)
    place = axis % len(dims)
    numbers = constant_numbers(indices)
    if numbers is not None and min(numbers, default=0) < 0:
        length = dims[place]
        if not isinstance(length, int) or indices.storage is None:
            return None
        given = indices.storage.numpy()
        indices = b.constant(np.where(given < 0, given + length, given))
    return b.emit("gather", data, indices, axis=place)


@lower("nnef", "slice")
def slice_(
    b: Builder,
    input: Value,
    *,
    axes: tuple[int, ...],
    begin: tuple[Dim, ...],
    end: tuple[Dim, ...],
    stride: tuple[int, ...] = (),
) -> Value:
    """Slice; with stride 1, an end of 0 means the end of the axis."""
    dims = b.dims(input)
    strides = stride or (1,) * len(axes)
    if not len(axes) == len(begin) == len(end) == len(strides):
        message = (
            f"axes, begin, end and stride have {len(axes)}, {len(begin)}, {len(end)} and {len(strides)} elements, "
            "expected equal counts"
        )
        raise ShapeError(message, "write one value per axis in each")
    if any(not 0 <= axis < len(dims) for axis in axes):
        message = f"axes {list(axes)} are not all inside a tensor of rank {len(dims)}"
        raise ShapeError(message)
    is_plain = all(step == 1 for step in strides)
    ends = [
        _position(FAR if is_plain and stop == 0 else stop, dims[axis]) for stop, axis in zip(end, axes, strict=True)
    ]
    starts = [_position(start, dims[axis]) for start, axis in zip(begin, axes, strict=True)]
    for axis, start, stop, step in zip(axes, starts, ends, strides, strict=True):
        _check_range(dims[axis], start, stop, step)
    operands = [np.array(numbers, np.int64) for numbers in (starts, ends, axes)]
    return b(Slice, input, *map(b.constant, operands), None if is_plain else b.constant(np.array(strides, np.int64)))


def _position(given: Dim, extent: Dim) -> int:
    """Return an index as an integer; an index equal to a symbolic extent is the end of the axis."""
    if isinstance(given, int):
        return given
    if given == extent:
        return FAR
    message = f"the index {given} depends on an unknown extent"
    raise UnsupportedError(message)


def _check_range(extent: Dim, start: int, end: int, step: int) -> None:
    if step == 0:
        message = "stride is 0"
        raise ShapeError(message)
    if isinstance(extent, Symbolic):
        return
    first, last = (min(max(p + extent if p < 0 else p, -1), extent) for p in (start, end))
    if not (0 <= first <= last if step > 0 else last <= first < extent):
        message = f"empty range from {start} to {end} with stride {step} in {extent} elements"
        raise ShapeError(message, "use a begin above end with a negative stride, and below end with a positive one")


@SliceView.export_rule("nnef")
def export_slice(b: Builder, op: SliceView) -> Exported:
    dims = b.dims(op.data)
    given = [
        None if operand is None else constant_numbers(operand) for operand in (op.starts, op.ends, op.axes, op.steps)
    ]
    first, last, indices, strides = given
    if (
        first is None
        or last is None
        or (op.axes is not None and indices is None)
        or (op.steps is not None and strides is None)
    ):
        return None
    chosen = tuple(range(len(first))) if indices is None else tuple(axis % len(dims) for axis in indices)
    by = strides or (1,) * len(first)
    is_plain = all(step == 1 for step in by)
    ranges = [
        _emitted_range(dims[axis], start, stop, step, is_plain=is_plain)
        for axis, start, stop, step in zip(chosen, first, last, by, strict=True)
    ]
    known = [found for found in ranges if found is not None]
    if len(known) < len(ranges):
        return None
    begin, end = (tuple(found[side] for found in known) for side in (0, 1))
    return b.emit("slice", op.data, axes=chosen, begin=begin, end=end, stride=() if is_plain else by)


def _emitted_range(n: Dim, start: int, end: int, step: int, *, is_plain: bool) -> tuple[int, int] | None:
    """Return begin and end in NNEF's form; `None` for an empty range, which NNEF does not support."""
    if isinstance(n, int):
        first, last = (position + n if position < 0 else position for position in (start, end))
        if step > 0:
            first, last = max(first, 0), min(max(last, 0), n)
            return (first, last) if first < last else None
        first, last = min(max(first, 0), n - 1), max(last, -1)
        return (first, last if last >= 0 else -n - 1) if first > last else None
    if step < 0:
        # A start from the end of a dynamic axis is -1; an end before the first entry is clamped to -FAR.
        return (-1 if start >= FAR else start), max(end, -FAR)
    if end >= FAR:
        return max(start, -FAR), 0 if is_plain else FAR
    return None if end == 0 else (max(start, -FAR), end)
