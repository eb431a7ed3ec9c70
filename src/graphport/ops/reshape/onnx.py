"""Older forms of reshaping: shapes and axes were attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.declare import UnsupportedError
from graphport.ops.pattern import constant_numbers
from graphport.ops.reshape import Concat, DepthToSpace, Reshape, Split, Squeeze, Tile, Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _int64(b: Builder, numbers: tuple[int, ...] | None) -> Value | None:
    return None if numbers is None else b.constant(np.array(numbers, np.int64))


@Reshape.lower("onnx", until=4)
def reshape_1(
    b: Builder, data: Value, *, shape: tuple[int, ...] = (), consumed_inputs: tuple[int, ...] | None = None
) -> Value:
    """`consumed_inputs` allowed to compute in place; it never changed a result."""
    del consumed_inputs
    return b(Reshape, data, _int64(b, shape))


@Concat.lower("onnx", until=3)
def concat_1(b: Builder, *inputs: Value, axis: int = 1) -> Value:
    """The axis had a default."""
    return b(Concat, *inputs, axis=axis)


@Squeeze.lower("onnx", until=12)
def squeeze_1(b: Builder, data: Value, *, axes: tuple[int, ...] | None = None) -> Value:
    """The axes were an attribute."""
    return b(Squeeze, data, _int64(b, axes))


@Unsqueeze.lower("onnx", until=12)
def unsqueeze_1(b: Builder, data: Value, *, axes: tuple[int, ...]) -> Value:
    """The axes were an attribute."""
    return b(Unsqueeze, data, _int64(b, axes))


@Split.lower("onnx", until=1)
def split_1(
    b: Builder, input: Value, *lengths: Value, axis: int = 0, split: tuple[int, ...] | None = None
) -> tuple[Value, ...]:
    """The lengths were an operand or an attribute."""
    return _split(b, input, lengths[0] if lengths else _int64(b, split), axis)


@Split.lower("onnx", until=12)
def split_2(b: Builder, input: Value, *, axis: int = 0, split: tuple[int, ...] | None = None) -> tuple[Value, ...]:
    """The lengths were an attribute."""
    return _split(b, input, _int64(b, split), axis)


@Split.lower("onnx", until=17)
def split_13(b: Builder, input: Value, split: Value | None = None, *, axis: int = 0) -> tuple[Value, ...]:
    """Equal parts were as many as the node has results."""
    return _split(b, input, split, axis)


def _split(b: Builder, input: Value, split: Value | None, axis: int) -> tuple[Value, ...]:
    if split is not None:
        return b.results(Split, b.count, input, split, axis=axis)
    return b.results(Split, b.count, input, None, axis=axis, num_outputs=b.count)


@DepthToSpace.lower("onnx", until=10)
def depth_to_space_1(b: Builder, input: Value, *, blocksize: int) -> Value:
    """There was one order of channels only."""
    return b(DepthToSpace, input, blocksize=blocksize, mode="DCR")


@Tile.lower("onnx", until=5)
def tile_1(b: Builder, input: Value, tiles: Value, axis: Value) -> Value:
    """One axis was repeated."""
    (place,), (times,) = (constant_numbers(operand) or (None,) for operand in (axis, tiles))
    if place is None or times is None:
        message = "tiles and axis must be constants"
        raise UnsupportedError(message)
    repeats = np.ones(len(b.dims(input)), np.int64)
    repeats[place] = times
    return b(Tile, input, b.constant(repeats))
