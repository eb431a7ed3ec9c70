"""Pixel shuffle, channel shuffle and fold of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import bounded, emits, integers, length, scalar_of
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reshape import (
    Col2Im,
    Concat,
    Reshape,
    Shape,
    SpaceToDepth,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from graphport.ops.lowering.operands import vector

PNNX.lower("""
nn.PixelShuffle, F.pixel_shuffle, aten::pixel_shuffle(input, upscale_factor: number)
    -> DepthToSpace(input, blocksize=upscale_factor, mode="CRD")
aten::numel, torch.numel(input) -> Size(input)
""")


@emits("nn.PixelUnshuffle", "F.pixel_unshuffle", "aten::pixel_unshuffle")
def pixel_unshuffle(b: Builder, input: Value, downscale_factor: Any) -> Value:
    """Pixel unshuffle: the channel axis precedes the block axes; ONNX's SpaceToDepth puts it last."""
    r = int(scalar_of(downscale_factor))
    if r == 1:
        return b(SpaceToDepth, input, blocksize=1)
    dims = b.dims(input)
    if len(dims) != 4:
        message = f"pixel_unshuffle of a tensor of rank {len(dims)}, expected rank 4"
        raise UnsupportedError(message)
    if any(isinstance(dim, Symbolic) for dim in dims[1:]):
        order = np.arange(bounded(length(dims, 1) * r * r)).reshape(r * r, -1).T.reshape(-1)
        return b(Gather, b(SpaceToDepth, input, blocksize=r), b.constant(order.astype(np.int64)), axis=1)
    channels, height, width = (length(dims, axis) for axis in (1, 2, 3))
    split = b(Reshape, input, [0, channels, height // r, r, width // r, r])
    return b(
        Reshape,
        b(Transpose, split, perm=(0, 1, 3, 5, 2, 4)),
        [0, channels * r * r, height // r, width // r],
    )


@emits(
    "nn.ChannelShuffle",
    "F.channel_shuffle",
    "aten::channel_shuffle",
    "torch.channel_shuffle",
    "aten::native_channel_shuffle",
)
def channel_shuffle(b: Builder, input: Value, groups: Any) -> Value:
    dims = b.dims(input)
    channels, count = length(dims, 1), int(scalar_of(groups))
    if channels % count:
        message = f"{channels} channels cannot be split into {count} groups"
        raise ShapeError(message)
    rest = list(range(3, len(dims) + 1))
    unsqueezed = b(Unsqueeze, input, [1])
    if any(isinstance(dim, Symbolic) for dim in dims[2:]):
        behind = b(Shape, input, start=2)
        grouped = b(Reshape, input, b(Concat, [0, count, channels // count], behind, axis=0))
        permuted = b(Transpose, grouped, perm=(0, 2, 1, *rest))
        return b(Reshape, permuted, b(Shape, input))
    spatial = [length(dims, axis) for axis in range(2, len(dims))]
    grouped = b(Reshape, unsqueezed, [0, count, channels // count, *spatial])
    permuted = b(Transpose, grouped, perm=(0, 2, 1, *rest))
    return b(Reshape, permuted, [0, channels, *spatial])


def _plane(b: Builder, size: Any) -> Value:
    """Return two sizes, possibly computed at run time; a single one applies to both axes."""
    is_computed = is_sequence(size) and any(isinstance(n, Value) and n.storage is None for n in size)
    return lengths(b, size) if is_computed else vector(b, integers(size, 2))


@emits("nn.Fold", "F.fold", "aten::col2im")
def fold(
    b: Builder,
    input: Value,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Value:
    is_alone = len(b.dims(input)) == 2
    x = b(Unsqueeze, input, [0]) if is_alone else input
    y = b(
        Col2Im,
        x,
        _plane(b, output_size),
        integers(kernel_size, 2),
        dilations=integers(dilation, 2),
        pads=integers(padding, 2) * 2,
        strides=integers(stride, 2),
    )
    return b(Squeeze, y, [0]) if is_alone else y


@emits("SliceIndexes")
def slice_indexes(b: Builder, *operands: Value, indexes: Any) -> Value:
    """Concatenate numbers and operands to one vector."""
    entries: list[Any] = []
    for item in indexes if is_sequence(indexes) else [indexes]:
        if isinstance(item, str) and item.startswith("@") and item[1:].isdigit() and int(item[1:]) < len(operands):
            entries.append(operands[int(item[1:])])
        elif isinstance(item, int):
            entries.append(item)
        else:
            message = f"unsupported index {item}"
            raise UnsupportedError(message)
    return lengths(b, entries)


PNNX.lower("""
aten::size, Tensor.size(input, dim=None)
    -> dim is None: Shape(input)
    -> Squeeze(Shape(input, start=(place := axis(dim, input)), end=place + 1), [0])
""")
