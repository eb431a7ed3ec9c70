"""Reshaping in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, lower
from graphport.ops.pattern import constant_numbers
from graphport.ops.reshape import Flatten, Reshape, Split, Squeeze, Transpose, reshaped

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("nnef", "reshape")
def reshape(b: Builder, input: Value, *, shape: tuple[int, ...], axis_start: int = 0, axis_count: int = -1) -> Value:
    """`shape` replaces `axis_count` axes from `axis_start` on; 0 keeps an extent, -1 takes what remains."""
    dims = b.dims(input)
    stop = len(dims) if axis_count == -1 else axis_start + axis_count
    if not 0 <= axis_start <= stop <= len(dims):
        message = f"axis_start {axis_start} and axis_count {axis_count} reach beyond rank {len(dims)}"
        raise ShapeError(message)
    # Spelled out: canonical 0 and -1 count over the whole tensor, NNEF's over the part that is replaced.
    middle = reshaped(dims[axis_start:stop], shape, copies_zero=True)
    target = (*dims[:axis_start], *middle, *dims[stop:])
    free = [axis for axis, dim in enumerate(target) if isinstance(dim, Symbolic)]
    copied = {axis for axis in free if axis < len(dims) and dims[axis] == target[axis]}
    if len(free) - len(copied) > 1:
        copied = set()
    numbers = [0 if axis in copied else -1 if axis in free else dim for axis, dim in enumerate(target)]
    return b(Reshape, input, b.constant(np.array(numbers, np.int64)))


@lower("nnef", "transpose")
def transpose(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """`axes` order the first axes; the rest stay."""
    rank = len(b.dims(input))
    return b(Transpose, input, perm=(*axes, *range(len(axes), rank)))


@Transpose.lift("nnef")
def lift_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> tuple[Value, ...]:
    order = tuple(reversed(range(len(b.dims(data))))) if perm is None else perm
    return b.word("transpose", data, axes=order)


@Reshape.lift("nnef")
def lift_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> tuple[Value, ...] | None:
    target = constant_numbers(shape)
    if target is None or (allowzero and 0 in target):
        return None
    return b.word("reshape", data, shape=target, axis_start=0, axis_count=-1)


@Flatten.lift("nnef")
def lift_flatten(b: Builder, input: Value, *, axis: int = 1) -> tuple[Value, ...] | None:
    fact = input.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return None
    if axis == 1 and fact.rank >= 1:
        return b.word("reshape", input, shape=(0, -1), axis_start=0, axis_count=-1)
    if not fact.is_static:
        return None
    split = axis + fact.rank if axis < 0 else axis
    rows = int(np.prod([dim for dim in fact.dims[:split] if isinstance(dim, int)]))
    return b.word("reshape", input, shape=(rows, -1), axis_start=0, axis_count=-1)


@Squeeze.lift("nnef")
def lift_squeeze(b: Builder, data: Value, axes: Value | None = None) -> tuple[Value, ...] | None:
    dims = b.dims(data)
    chosen = tuple(axis for axis, dim in enumerate(dims) if dim == 1) if axes is None else constant_numbers(axes)
    if chosen is None:
        return None
    return b.word("squeeze", data, axes=tuple(sorted(axis % len(dims) for axis in chosen)))


@lower("nnef", "split")
def split(b: Builder, value: Value, *, axis: int, ratios: tuple[int, ...]) -> tuple[Value, ...]:
    """Parts in the proportion of `ratios`, which must divide the extent."""
    dims = b.dims(value)
    if not 0 <= axis < len(dims):
        message = f"axis {axis} is outside of a tensor of rank {len(dims)}"
        raise ShapeError(message)
    extent, total = dims[axis], sum(ratios)
    if any(ratio < 1 for ratio in ratios) or (isinstance(extent, int) and extent % total):
        message = f"the ratios {list(ratios)} do not divide an extent of {extent}"
        raise ShapeError(message)
    if isinstance(extent, int):
        lengths = b.constant(np.array([ratio * (extent // total) for ratio in ratios], np.int64))
        return b.results(Split, len(ratios), value, lengths, axis=axis)
    if len(set(ratios)) > 1:
        message = f"the ratios {list(ratios)} of an extent that is not known"
        raise ShapeError(message, "bind the extent")
    return b.results(Split, len(ratios), value, None, axis=axis, num_outputs=len(ratios))


@Split.lift("nnef")
def lift_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...] | None:
    dims = b.dims(input)
    place = axis % len(dims)
    lengths = None if split is None else constant_numbers(split)
    if split is None and num_outputs is not None:
        extent = dims[place]
        lengths = (1,) * num_outputs if not isinstance(extent, int) or extent % num_outputs == 0 else None
    if not lengths or any(length < 1 for length in lengths):
        return None
    divisor = int(np.gcd.reduce(lengths))
    ratios = tuple(length // divisor for length in lengths)
    return b.word("split", input, facts=[input.fact] * len(ratios), axis=place, ratios=ratios)
