"""Reshaping in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dims import Symbolic, decide_equal
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.nnef.rules.copies import protect_copies
from graphport.formats.nnef.rules.formula import term
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.reshape import (
    Concat,
    DepthToSpace,
    Expand,
    Flatten,
    Reshape,
    Shape,
    SpaceToDepth,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
    resolve_target_shape,
)
from graphport.ops.pattern import constant_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"


def _axis(axis: int, rank: int) -> int:
    """Normalize an axis; NNEF has no negative axes."""
    if not 0 <= axis < rank:
        message = f"axis {axis} is out of range for rank {rank}"
        raise ShapeError(message)
    return axis


# Shapes


@lower("nnef", "reshape")
def reshape(b: Builder, input: Value, *, shape: tuple[Dim, ...], axis_start: int = 0, axis_count: int = -1) -> Value:
    """Replace `axis_count` axes from `axis_start` by `shape`; 0 copies a dim, -1 is inferred."""
    dims = b.dims(input)
    stop = len(dims) if axis_count == -1 else axis_start + axis_count
    if not 0 <= axis_start <= stop <= len(dims):
        message = f"axis_start {axis_start} and axis_count {axis_count} exceed the rank {len(dims)}"
        raise ShapeError(message)
    # Spelled out: canonical 0 and -1 count over the whole tensor, NNEF's over the part that is replaced.
    middle = resolve_target_shape(dims[axis_start:stop], shape, copies_zero=True)
    target = (*dims[:axis_start], *middle, *dims[stop:])
    numbers = emitted_shape(dims, target)
    if numbers is not None:
        return b(Reshape, input, numbers)
    protect_copies = [b(Shape, input, start=0, end=axis_start), b(Shape, input, start=stop, end=len(dims))]
    return b(
        Reshape,
        input,
        b(Concat, protect_copies[0], _replaced(b, input, middle, axis_start, stop), protect_copies[1], axis=0),
    )


def emitted_shape(source: Sequence[Dim], target: Sequence[Dim]) -> list[int] | None:
    """Return `target` for NNEF: 0 copies an unknown dim of `source`, one other is -1; `None` if there are more."""
    numbers: list[int] = []
    for axis, dim in enumerate(target):
        if isinstance(dim, int):
            numbers.append(dim)
        else:
            numbers.append(0 if axis < len(source) and source[axis] == dim else -1)
    # A static 0 would be read as copy.
    is_plain = all(number or isinstance(dim, Symbolic) for number, dim in zip(numbers, target, strict=True))
    return numbers if numbers.count(-1) < 2 and is_plain else None


def _replaced(b: Builder, input: Value, middle: Sequence[Dim], start: int, stop: int) -> Value:
    """Compute the replaced dims; dynamic ones are copied, one is inferred."""
    dims = b.dims(input)
    numbers = emitted_shape(dims[start:stop], middle)
    if numbers is None:
        message = "more than one unknown extent in the result"
        raise UnsupportedError(message)
    entries = [
        b.integers([number]) if number else b(Shape, input, start=start + place, end=start + place + 1)
        for place, number in enumerate(numbers)
    ]
    return b(Concat, *entries, axis=0) if entries else b.integers([])


@Reshape.export_rule("nnef")
def export_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Exported:
    target = constant_numbers(shape)
    if target is None:
        known = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
        numbers = None if known is None else emitted_shape(b.dims(data), known)
        target = None if numbers is None else tuple(numbers)
    elif allowzero and 0 in target:
        return None
    return None if target is None else _reshape(b, data, target)


def _reshape(b: Builder, data: Value, shape: Sequence[int], start: int = 0, count: int = -1) -> tuple[Value, ...]:
    """Emit a reshape of `count` axes from `start` (-1: all) to `shape`."""
    dims = b.dims(data)
    stop = len(dims) if count == -1 else start + count
    middle = resolve_target_shape(dims[start:stop], tuple(shape), copies_zero=True)
    fact = TensorFact(data.dtype, (*dims[:start], *middle, *dims[stop:]))
    return b.emit("reshape", data, facts=[fact], shape=tuple(shape), axis_start=start, axis_count=count)


@Flatten.export_rule("nnef")
def export_flatten(b: Builder, input: Value, *, axis: int = 1) -> Exported:
    rank = len(b.dims(input))
    split = axis + rank if axis < 0 else axis
    if split in (0, rank):
        return _reshape(b, input, (-1, 1) if split else (1, -1))
    (rows,) = _reshape(b, input, (-1,), 0, split)
    return _reshape(b, rows, (-1,), 1, rank - split)


@lower("nnef", "squeeze")
def squeeze(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """Remove axes of length 1; without axes return the operand, because runtimes would squeeze all."""
    rank = len(b.dims(input))
    if not axes:
        return input
    return b(Squeeze, input, [_axis(axis, rank) for axis in axes])


@Squeeze.export_rule("nnef")
def export_squeeze(b: Builder, data: Value, axes: Value | None = None) -> Exported:
    dims = b.dims(data)
    if axes is None and any(isinstance(dim, Symbolic) and decide_equal(dim, 1) is None for dim in dims):
        return None
    chosen = tuple(axis for axis, dim in enumerate(dims) if dim == 1) if axes is None else constant_numbers(axes)
    if chosen is None:
        return None
    return b.emit("squeeze", data, axes=tuple(sorted(axis % len(dims) for axis in chosen)))


@lower("nnef", "unsqueeze")
def unsqueeze(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """Insert axes of length 1 at these indices of the result."""
    rank = len(b.dims(input)) + len(axes)
    return b(Unsqueeze, input, [_axis(axis, rank) for axis in axes])


@Unsqueeze.export_rule("nnef")
def export_unsqueeze(b: Builder, data: Value, axes: Value) -> Exported:
    chosen = constant_numbers(axes)
    if chosen is None:
        return None
    rank = len(b.dims(data)) + len(chosen)
    return b.emit("unsqueeze", data, axes=tuple(sorted(axis % rank for axis in chosen)))


@lower("nnef", "transpose")
def transpose(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """Permute the first axes; the remaining ones are unchanged."""
    rank = len(b.dims(input))
    return b(Transpose, input, perm=(*axes, *range(len(axes), rank)))


@Transpose.export_rule("nnef")
def export_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> Exported:
    order = tuple(reversed(range(len(b.dims(data))))) if perm is None else perm
    return b.emit("transpose", data, axes=order)


# Pieces


@lower("nnef", "concat")
def concat(b: Builder, *values: Value, axis: int) -> Value:
    """Concatenate along an axis."""
    _axis(axis, len(b.dims(values[0])) if values else 0)
    return b(Concat, *values, axis=axis)


@Concat.export_rule("nnef")
def export_concat(b: Builder, *inputs: Value, axis: int) -> Exported:
    return b.emit("concat", *inputs, axis=axis if axis >= 0 else axis + len(b.dims(inputs[0])))


@lower("nnef", "stack")
def stack(b: Builder, *values: Value, axis: int) -> Value:
    """Concatenate along a new axis."""
    _axis(axis, (len(b.dims(values[0])) if values else 0) + 1)
    place = b.integers([axis])
    return b(Concat, *(b(Unsqueeze, value, place) for value in values), axis=axis)


@lower("nnef", "unstack")
def unstack(b: Builder, value: Value, *, axis: int) -> tuple[Value, ...]:
    """Split along an axis into slices without that axis."""
    dims = b.dims(value)
    extent = dims[_axis(axis, len(dims))]
    count = extent if isinstance(extent, int) else b.count
    place = b.integers([axis])
    if count == 1:
        return (b(Squeeze, value, place),)
    parts = b.results(Split, count, value, [1] * count, axis=axis)
    return tuple(b(Squeeze, part, place) for part in parts)


@lower("nnef", "split")
def split(b: Builder, value: Value, *, axis: int, ratios: tuple[int, ...]) -> tuple[Value, ...]:
    """Split an axis in proportion to `ratios`, whose sum must divide the extent."""
    dims = b.dims(value)
    extent, total = dims[_axis(axis, len(dims))], sum(ratios)
    if not ratios or min(ratios) < 1 or decide_equal(extent % total, 0) is False:
        message = f"the ratios {list(ratios)} do not divide an extent of {extent}"
        raise ShapeError(message)
    if isinstance(extent, int):
        lengths = b.integers([ratio * (extent // total) for ratio in ratios])
        return b.results(Split, len(ratios), value, lengths, axis=axis)
    if len(set(ratios)) > 1:
        message = f"ratios {list(ratios)} of an unknown extent"
        raise UnsupportedError(message)
    return b.results(Split, len(ratios), value, None, axis=axis, num_outputs=len(ratios))


@Split.export_rule("nnef")
def export_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> Exported:
    """Export Split by ratios; a dynamic dim must be known to be divisible."""
    dims = b.dims(input)
    place = axis % len(dims)
    lengths = None if split is None else constant_numbers(split)
    if split is None and num_outputs is not None and decide_equal(dims[place] % num_outputs, 0):
        lengths = (1,) * num_outputs
    if not lengths or min(lengths) < 1:
        return None
    divisor = int(np.gcd.reduce(lengths))
    ratios = tuple(length // divisor for length in lengths)
    return b.emit("split", input, facts=[UNKNOWN] * len(ratios), axis=place, ratios=ratios)


@lower("nnef", "tile")
def tile(b: Builder, input: Value, *, repeats: tuple[Dim, ...]) -> Value:
    """Repeat the tensor `repeats[i]` times along axis i."""
    numbers = [times for times in repeats if isinstance(times, int)]
    if len(numbers) < len(repeats):
        message = "the repeats depend on an unknown extent"
        raise UnsupportedError(message)
    return b(Tile, input, numbers)


@Tile.export_rule("nnef")
def export_tile(b: Builder, input: Value, repeats: Value) -> Exported:
    times = constant_numbers(repeats)
    return None if times is None or min(times, default=1) < 1 else _tiled(b, input, times)


@Expand.export_rule("nnef")
def export_expand(b: Builder, input: Value, shape: Value) -> Exported:
    """Export Expand: insert axes, then tile those of length 1."""
    dims = b.dims(input)
    target = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    if target is None:
        return None
    new = len(target) - len(dims)
    own = (1,) * new + dims
    wanted = (1,) * -new + target
    repeats: list[int] = []
    for dim, want in zip(own, wanted, strict=True):
        if want in (dim, 1):
            repeats.append(1)
        elif dim == 1 and isinstance(want, int) and want > 0:
            repeats.append(want)
        else:
            return None
    x = input
    if new > 0:
        fact = TensorFact(input.dtype, own)
        x = term(b, "unsqueeze", x, fact=fact, axes=tuple(range(new)))
    return _tiled(b, x, tuple(repeats))


def _tiled(b: Builder, x: Value, repeats: tuple[int, ...]) -> tuple[Value, ...]:
    if not repeats:
        # tract cannot tile an empty axis.
        return b.emit("copy", x)
    fact = TensorFact(x.dtype, tuple(dim * times for dim, times in zip(b.dims(x), repeats, strict=True)))
    return protect_copies(b, b.emit("tile", x, facts=[fact], repeats=repeats))


# Blocks


@DepthToSpace.export_rule("nnef")
def export_depth_to_space(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> Exported:
    k = blocksize
    channels = b.dims(input, at_least=2)[1]
    if not isinstance(channels, int):
        return None
    c = channels // k**2
    (x,) = _reshape(b, input, (k, k, c) if mode == "DCR" else (c, k, k), 1, 1)
    (x,) = _transposed(b, x, (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3))
    (x,) = _reshape(b, x, (-1,), 2, 2)
    return _reshape(b, x, (-1,), 3, 2)


@SpaceToDepth.export_rule("nnef")
def export_space_to_depth(b: Builder, input: Value, *, blocksize: int) -> Exported:
    (x,) = _reshape(b, input, (-1, blocksize), 2, 1)
    (x,) = _reshape(b, x, (-1, blocksize), 4, 1)
    (x,) = _transposed(b, x, (0, 3, 5, 1, 2, 4))
    return _reshape(b, x, (-1,), 1, 3)


def _transposed(b: Builder, x: Value, axes: tuple[int, ...]) -> tuple[Value, ...]:
    dims = b.dims(x)
    return b.emit("transpose", x, facts=[TensorFact(x.dtype, tuple(dims[axis] for axis in axes))], axes=axes)
