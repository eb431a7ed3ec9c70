"""Older forms of reshaping: shapes and axes were attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Symbolic, decide_less
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.onnx.rules.older import RULES, from_front, integers, unsupported
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reshape import DepthToSpace, Reshape, Shape, Split, Squeeze, Tile, Unsqueeze
from graphport.ops.pattern import constant_numbers

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _int64(b: Builder, numbers: tuple[int, ...] | None) -> Value | None:
    return None if numbers is None else b.constant(np.array(numbers, np.int64))


# `consumed_inputs` allowed to compute in place; it never changed a result.
RULES.lower("Reshape(data, *, shape=(), consumed_inputs: ignored = None) -> Reshape(data, shape)", until=4)
# The axes were an attribute.
RULES.lower("Squeeze(data, *, axes=None) -> Squeeze(data, axes)", until=12)
RULES.lower("Unsqueeze(data, *, axes) -> Unsqueeze(data, axes)", until=12)


RULES.lower("Concat(*inputs, axis=1) -> Concat(*inputs, axis=axis)", until=3)


@Split.lower("onnx", until=1)
def split_1(
    b: Builder, input: Value, *lengths: Value, axis: int = 0, split: tuple[int, ...] | None = None
) -> tuple[Value, ...]:
    """Split-1: the lengths are an operand or an attribute."""
    return _split(b, input, lengths[0] if lengths else _int64(b, split), axis)


@Split.lower("onnx", until=12)
def split_2(b: Builder, input: Value, *, axis: int = 0, split: tuple[int, ...] | None = None) -> tuple[Value, ...]:
    """Split-2 and -11: the lengths are an attribute."""
    return _split(b, input, _int64(b, split), axis)


@Split.lower("onnx", until=17)
def split_13(b: Builder, input: Value, split: Value | None = None, *, axis: int = 0) -> tuple[Value, ...]:
    """Split-13: without lengths, there are as many equal parts as results."""
    return _split(b, input, split, axis)


def _split(b: Builder, input: Value, split: Value | None, axis: int) -> tuple[Value, ...]:
    if split is not None:
        return b.results(Split, b.count, input, split, axis=axis)
    return b.results(Split, b.count, input, None, axis=axis, num_outputs=b.count)


RULES.lower('DepthToSpace(input, *, blocksize) -> DepthToSpace(input, blocksize=blocksize, mode="DCR")', until=10)


@Tile.lower("onnx", until=5)
def tile_1(b: Builder, input: Value, tiles: Value, axis: Value) -> Value:
    """Repeat the input along one axis."""
    axes, counts = (list(constant_numbers(operand) or ()) for operand in (axis, tiles))
    if len(axes) != 1 or len(counts) != 1:
        message = "tiles and axis must be constants of one element"
        raise UnsupportedError(message)
    if any(not float(number).is_integer() or abs(number) >= 1 << 63 for number in (*axes, *counts)):
        message = f"tiles is {counts[0]} and axis is {axes[0]}, both must be integers"
        raise UnsupportedError(message)
    place, times = int(axes[0]), int(counts[0])
    rank = len(b.dims(input))
    if not -rank <= place < rank:
        message = f"axis {place} of an input of rank {rank}"
        raise UnsupportedError(message)
    repeats = np.ones(rank, np.int64)
    repeats[place] = times
    return b(Tile, input, b.constant(repeats))


@Split.export_rule("onnx", until=17)
def split_into_sizes(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...]:
    """Export Split with explicit sizes or equal parts; up to opset 12 as an attribute."""
    place = from_front(b, (axis,), input)[0]
    facts = [UNKNOWN] * b.count
    if split is not None and b.version is not None and b.version >= 13:
        return b.emit("Split", input, split, facts=facts, axis=place)
    if split is not None:
        return b.emit("Split", input, facts=facts, axis=place, split=integers(split, "split"))
    length, count = b.dims(input)[place], num_outputs or b.count
    unsupported((isinstance(length, Symbolic), f"{length} elements may not be divisible into {count} equal parts"))
    each = -(-int(length) // count) if isinstance(length, int) else 0
    sizes = [each] * (count - 1) + [int(length) - each * (count - 1)] if isinstance(length, int) else []
    if b.version is not None and b.version >= 13:
        return b.emit("Split", input, b.constant(np.array(sizes, np.int64)), facts=facts, axis=place)
    return b.emit("Split", input, facts=facts, axis=place, split=tuple(sizes))


_FLATTENING_SOFTMAX = 12
"""The last opset whose Softmax flattens the axes from `axis` on."""


@Reshape.export_rule("onnx", until=13)
def reshape_that_copies(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Value | None:
    """Export Reshape to opsets where 0 always copies, if the target has no literal 0.

    Up to opset 12, Reshape(Softmax(Flatten(x, axis))) to the shape of `x` is Softmax(x, axis); equally LogSoftmax and
    Hardmax.
    """
    flattening = None if b.version is None or b.version > _FLATTENING_SOFTMAX else _flattening_softmax(b, data)
    if flattening is not None or not allowzero:
        return flattening
    asked = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    unsupported((asked is None, "0 copies a dim (allowzero is not supported), and the target shape is unknown"))
    has_zero = any(dim != -1 and decide_less(dim, 1) is not False for dim in asked or ())
    unsupported((has_zero, "0 copies a dim (allowzero is not supported)"))
    return b.emit("Reshape", data, shape)[0]


@Squeeze.export_rule("onnx", until=12)
def squeeze_with_attribute(b: Builder, data: Value, axes: Value | None = None) -> Value:
    """Export Squeeze to opsets 1 to 12: axes are an attribute."""
    if axes is None:
        return b.emit("Squeeze", data)[0]
    return b.emit("Squeeze", data, axes=from_front(b, integers(axes, "axes"), data))[0]


@Unsqueeze.export_rule("onnx", until=12)
def unsqueeze_with_attribute(b: Builder, data: Value, axes: Value) -> Value:
    """Export Unsqueeze to opsets 1 to 12: axes are an attribute."""
    indices = integers(axes, "axes")
    return b.emit("Unsqueeze", data, axes=from_front(b, indices, data, len(indices)))[0]


@Shape.export_rule("onnx", until=14)
def shape_in_steps(b: Builder, data: Value, *, start: int = 0, end: int | None = None) -> Value | None:
    """Export Shape as a slice of the full shape."""
    if start == 0 and end is None:
        return None
    rank = len(b.dims(data))
    first, last = (min(max(n + rank if n < 0 else n, 0), rank) for n in (start, rank if end is None else end))
    one = b.constant(np.zeros(1, np.int64))
    return b(Slice, b(Shape, data), *(b.constant(np.array([n], np.int64)) for n in (first, max(first, last))), one)


@DepthToSpace.export_rule("onnx", until=10)
def depth_to_space_of_rows(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """Export DepthToSpace to opsets 1 to 10, which have mode DCR only."""
    unsupported((mode != "DCR", "mode CRD is not supported"))
    return b.emit("DepthToSpace", input, blocksize=blocksize)[0]


def _flattening_softmax(b: Builder, data: Value) -> Value | None:
    """Return Softmax(x, axis) for data = Softmax(Flatten(x, axis)) that is reshaped to the shape of `x`."""
    softmax = data.producer
    flatten = None if softmax is None else softmax.operands[0].producer
    if softmax is None or flatten is None or softmax.op_type not in ("Softmax", "LogSoftmax", "Hardmax"):
        return None
    x, axis = flatten.operand(0), flatten.attributes.get("axis", 1)
    if flatten.op_type != "Flatten" or x is None or softmax.attributes.get("axis") != 1 or b.before is None:
        return None
    rank = len(x.shape or ())
    is_same = x.shape is not None and b.before.output.shape == x.shape
    is_only = len(data.uses) == 1 and not data.is_output
    if not is_same or not is_only or not isinstance(axis, int) or not -rank <= axis < rank:
        return None
    return b.emit(softmax.op_type, x, facts=[x.fact], axis=axis % rank)[0]
