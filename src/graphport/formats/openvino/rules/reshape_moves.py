"""Data movement operators of OpenVINO, except `Reshape`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import emitted_reshape, emitted_slice, renamed
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Sub
from graphport.ops.definitions.comparison import Less, Where
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.definitions.reshape import (
    Concat,
    Expand,
    Flatten,
    Identity,
    Reshape,
    Shape,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.extents import cut, extent
from graphport.ops.lowering.operands import (
    as_int64,
    as_vector,
    index,
    integers,
    needed,
    needed_integer,
    reshaped,
    sizes,
    transposed,
    vector,
)
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


RULES.lower("""
opset16.Identity(x) -> Identity(x)
opset1.Concat(*inputs, axis) <-> Concat(*inputs, axis=axis)
opset1.Unsqueeze(x, axes) -> Unsqueeze(x, as_vector(axes))
opset1.ShapeOf, opset3.ShapeOf(x, *, output_type=None) -> cast(Shape(x), output_type if output_type else int64)
""")
RULES.having(is_tensor=lambda _b, x: isinstance(x.fact, TensorFact)).export_rules("""
Identity -> is_tensor(input): renamed(input)
Unsqueeze -> opset1.Unsqueeze(data, axes)
Expand -> opset3.Broadcast(input, shape, mode="bidirectional")
Tile -> opset1.Tile(input, repeats)
Shape
    -> start == 0 and end is None: opset3.ShapeOf(data)
    -> last = 2147483647 if end is None else end;
       opset8.Slice(opset3.ShapeOf(data), vector([start]), vector([last]), vector([1]), vector([0]))
Size -> opset1.ReduceProd(opset3.ShapeOf(data), vector([0]), keep_dims=False)
""")


@lower("openvino", "opset1.Transpose")
def transpose(b: Builder, x: Value, order: Value) -> Value:
    """Convert Transpose; an empty order reverses the axes."""
    perm = needed(order, "the permutation")
    return b(Transpose, x, perm=perm or None)


@Transpose.export_rule("openvino")
def export_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> Exported:
    order = tuple(reversed(range(len(b.dims(data))))) if perm is None else perm
    return b.emit("opset1.Transpose", data, vector(b, order))


@lower("openvino", "opset1.Squeeze")
@lower("openvino", "opset15.Squeeze")
def squeeze(b: Builder, x: Value, axes: Value | None = None, *, allow_axis_skip: bool = False) -> Value:
    """Remove axes of length 1; with `allow_axis_skip` other axes are kept."""
    if axes is None:
        return b(Squeeze, x)
    if not allow_axis_skip:
        return b(Squeeze, x, as_vector(b, axes))
    dims = b.dims(x)
    wanted = [axis_index(axis, len(dims)) for axis in needed(axes, "allow_axis_skip of Squeeze")]
    if any(isinstance(dims[axis], Symbolic) for axis in wanted):
        message = "unknown dim: Squeeze may drop its axis or not"
        raise UnsupportedError(message)
    ones = [axis for axis in wanted if dims[axis] == 1]
    return b(Squeeze, x, ones) if ones else b(Identity, x)


@Squeeze.export_rule("openvino")
def export_squeeze(b: Builder, data: Value, axes: Value | None = None) -> Exported:
    if axes is not None:
        return b.emit("opset1.Squeeze", data, axes)
    dims = data.shape
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        return b.emit("opset1.Squeeze", data)
    ones = [axis for axis, n in enumerate(dims) if n == 1]
    return b.emit("opset1.Squeeze", data, vector(b, ones)) if ones else (renamed(b, data),)


@lower("openvino", "opset1.Split")
def split(b: Builder, x: Value, axis: Value, *, num_splits: int) -> tuple[Value, ...]:
    """As many equal parts along an axis."""
    place = needed_integer(axis, "the axis")
    length = b.dims(x)[axis_index(place, len(b.dims(x)))]
    if isinstance(length, int) and (num_splits < 1 or length % num_splits):
        message = f"{length} elements cannot be split into {num_splits} equal parts"
        raise ShapeError(message)
    return b.results(Split, num_splits, x, axis=place, num_outputs=num_splits)


@lower("openvino", "opset1.VariadicSplit")
def variadic_split(b: Builder, x: Value, axis: Value, lengths: Value) -> tuple[Value, ...]:
    """Split an axis into parts of these lengths; one length may be -1 for the remainder."""
    place = needed_integer(axis, "the axis")
    parts = integers(lengths)
    if parts is None:
        whole = extent(b, x, place)
        given = as_int64(b, lengths)
        # The sum of all lengths includes -1, so 1 is subtracted from the remainder.
        left = b(Sub, b(Sub, whole, b(ReduceSum, given, [0])), [1])
        return b.results(Split, b.count, x, b(Where, b(Less, given, [0]), left, given), axis=place)
    if -1 not in parts:
        return b.results(Split, len(parts), x, parts, axis=place)
    whole = b.dims(x)[axis_index(place, len(b.dims(x)))]
    rest = sum(n for n in parts if n != -1)
    if isinstance(whole, int):
        known = [whole - rest if n == -1 else n for n in parts]
        return b.results(Split, len(known), x, known, axis=place)
    return tuple(_split_dynamic_axis(b, x, place, parts))


def _split_dynamic_axis(b: Builder, x: Value, axis: int, lengths: Sequence[int]) -> list[Value]:
    """Split a dynamic axis: parts before the -1 are counted from the begin, the others from the end."""
    found: list[Value] = []
    last = np.iinfo(np.int64).max
    open_one = list(lengths).index(-1)
    for number, length in enumerate(lengths):
        before, behind = sum(lengths[:number]), sum(lengths[number + 1 :])
        start = before if number <= open_one else -(behind + length)
        end = before + length if number < open_one else -behind or last
        found.append(cut(b, x, start, end, axis))
    return found


@Split.export_rule("openvino")
def export_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> Exported:
    dims = b.dims(input)
    place = index(b, axis_index(axis, len(dims)))
    del num_outputs
    facts = [UNKNOWN] * b.count
    if split is not None:
        return b.emit("opset1.VariadicSplit", input, place, split, facts=facts)
    length = dims[axis]
    if not isinstance(length, int) or length % b.count == 0:
        return b.emit("opset1.Split", input, place, facts=facts, num_splits=b.count)
    part = -(-length // b.count)
    parts = [min(part, max(length - part * number, 0)) for number in range(b.count)]
    return b.emit("opset1.VariadicSplit", input, place, vector(b, parts), facts=facts)


@lower("openvino", "opset1.Broadcast")
@lower("openvino", "opset3.Broadcast")
def broadcast(b: Builder, x: Value, target: Value, mapping: Value | None = None, *, mode: str = "numpy") -> Value:
    """Broadcast `x` to a shape; the explicit mode maps its axes."""
    shape = as_vector(b, target)
    if mode == "explicit" and mapping is not None:
        return b(Expand, _mapped(b, x, needed(mapping, "the mapping of axes"), target), shape)
    if mode not in ("numpy", "bidirectional", "explicit"):
        message = f"broadcasting of mode {mode}"
        raise UnsupportedError(message)
    return b(Expand, x, shape)


def _mapped(b: Builder, x: Value, axes: tuple[int, ...], target: Value) -> Value:
    """Permute `x` by the explicit axis mapping, and insert axes of 1 for all other axes of the target."""
    (rank,) = sizes(b.dims(target, 1), "the rank of a broadcast")
    dims = b.dims(x)
    if len(axes) != len(dims) or len(set(axes)) != len(axes):
        # A single element is broadcast to all axes.
        if prod(sizes(dims)) == 1:
            return reshaped(b, x, ())
        message = f"{len(dims)} axes are mapped to {axes}"
        raise ShapeError(message)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    missing = [axis for axis in range(rank) if axis not in axes]
    x = transposed(b, x, order)
    return b(Unsqueeze, x, missing) if missing else x


@lower("openvino", "opset1.Tile")
def tile(b: Builder, x: Value, repeats: Value) -> Value:
    """Convert Tile; the shorter of shape and repeats is extended by leading ones."""
    counts = as_vector(b, repeats)
    rank = len(b.dims(x))
    (given,) = sizes(b.dims(counts, 1), "the number of repeated axes")
    if given < rank:
        counts = b(Concat, vector(b, [1] * (rank - given)), counts, axis=0)
    elif given > rank:
        x = b(Unsqueeze, x, range(given - rank))
    return b(Tile, x, counts)


def _reshape_dims(dims: Sequence[Dim]) -> list[int]:
    """Return dims for a `Reshape`: 0 copies a dynamic dim."""
    return [dim if isinstance(dim, int) else 0 for dim in dims]


@lower("openvino", "opset1.ShuffleChannels")
def shuffle_channels(b: Builder, x: Value, *, axis: int = 1, group: int = 1) -> Value:
    """Shuffle channels: reshape the axis to [group, n / group], transpose, and merge again."""
    dims = b.dims(x)
    axis = axis_index(axis, len(dims))
    length = dims[axis]
    if isinstance(length, int) and (group < 1 or length % group):
        message = f"{length} elements cannot be split into {group} groups"
        raise ShapeError(message)
    before, behind = dims[:axis], dims[axis + 1 :]
    each = length // group if isinstance(length, int) else -1
    grouped = _reshaped_around(b, x, before, [group, each], behind)
    order = [*range(axis), axis + 1, axis, *range(axis + 2, len(dims) + 1)]
    whole = [length if isinstance(length, int) else -1]
    return _reshaped_around(b, b(Transpose, grouped, perm=tuple(order)), before, whole, behind)


def _reshaped_around(
    b: Builder, x: Value, before: Sequence[Dim], middle: Sequence[int], behind: Sequence[Dim]
) -> Value:
    """Reshape the middle axes; dynamic dims before them are copied, one after them is inferred."""
    shape = [*_reshape_dims(before), *middle, *(dim if isinstance(dim, int) else -1 for dim in behind)]
    if shape.count(-1) <= 1:
        return reshaped(b, x, shape)
    parts = [b(Shape, x, end=len(before)), vector(b, middle), b(Shape, x, start=len(b.dims(x)) - len(behind))]
    return b(Reshape, x, b(Concat, *parts, axis=0))


@Flatten.export_rule("openvino")
def export_flatten(b: Builder, input: Value, *, axis: int = 1) -> Exported:
    dims = b.dims(input)
    place = axis + len(dims) if axis < 0 else axis
    left, right = dims[:place], dims[place:]
    if all(isinstance(dim, int) for dim in left):
        rows = prod(sizes(left))
        columns = prod(sizes(right)) if all(isinstance(dim, int) for dim in right) else -1
        return (emitted_reshape(b, input, [rows, columns]),)
    if all(isinstance(dim, int) for dim in right):
        return (emitted_reshape(b, input, [-1, prod(sizes(right))]),)
    whole = emit(b, "opset3.ShapeOf", input)
    rows = emit(b, "opset1.ReduceProd", emitted_slice(b, whole, 0, place, 0), vector(b, [0]), keep_dims=True)
    wanted = emit(b, "opset1.Concat", rows, vector(b, [-1]), axis=0)
    return b.emit("opset1.Reshape", input, wanted, special_zero=False)
