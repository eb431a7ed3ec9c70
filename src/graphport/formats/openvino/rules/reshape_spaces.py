"""Depth to space, batch to space and their inverses in OpenVINO, for static and dynamic dims."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.formats.openvino.rules.binding import RULES
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.arithmetic import Div, Mul, Sub
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, DepthToSpace, Reshape, Shape, SpaceToDepth
from graphport.ops.lowering.extents import extent, joined
from graphport.ops.lowering.operands import (
    as_int64,
    check_counts,
    dtype_of,
    integers,
    needed,
    reshaped,
    transposed,
    vector,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Length: TypeAlias = "int | Value"


def lengths(b: Builder, x: Value, rank: int | None = None, *, at_least: int = 0) -> list[Length]:
    """Return the dims of `x`, which has `rank` or `at_least` dims: integers, or values computed at run time.

    Raises:
        ShapeError: the rank is wrong.
    """
    dims = b.dims(x, rank, at_least=at_least)
    return [dim if isinstance(dim, int) else extent(b, x, axis) for axis, dim in enumerate(dims)]


def times(b: Builder, length: Length, factor: int) -> Length:
    """Multiply a length, static or computed, by an integer."""
    return length * factor if isinstance(length, int) else b(Mul, length, [factor])


def parted(b: Builder, length: Length, count: int) -> Length:
    """Divide a length by `count`; raises `ShapeError` if `count` is not positive."""
    if count < 1:
        message = f"a block size is {count}, expected at least 1"
        raise ShapeError(message)
    return length // count if isinstance(length, int) else b(Div, length, [count])


def shaped(b: Builder, x: Value, shape: Sequence[Length]) -> Value:
    """Reshape `x` to static and dynamic dims."""
    known = [n for n in shape if isinstance(n, int)]
    return reshaped(b, x, known) if len(known) == len(shape) else b(Reshape, x, joined(b, *shape), allowzero=1)


@lower("openvino", "opset1.DepthToSpace")
def depth_to_space(b: Builder, x: Value, *, block_size: int = 1, mode: str) -> Value:
    """Move channels to blocks of pixels; the block axes are first or last among the channels."""
    dims = b.dims(x)
    is_known = all(isinstance(dim, int) for dim in dims)
    # ONNX Runtime has a kernel only for float images.
    if len(dims) == 4 and (dtype_of(x).is_floating or not is_known):
        return b(DepthToSpace, x, blocksize=block_size, mode="DCR" if mode == "blocks_first" else "CRD")
    n, c, *spatial = lengths(b, x, at_least=3)
    k, r = block_size, len(dims) - 2
    depth = parted(b, c, k**r)
    if mode == "blocks_first":
        parts, first, depth_at = [n, *[k] * r, depth, *spatial], 1, r + 1
    else:
        parts, first, depth_at = [n, depth, *[k] * r, *spatial], 2, 1
    pairs = [axis for i in range(r) for axis in (r + 2 + i, first + i)]
    moved = transposed(b, shaped(b, x, parts), [0, depth_at, *pairs])
    return shaped(b, moved, [n, depth, *(times(b, p, k) for p in spatial)])


@lower("openvino", "opset1.SpaceToDepth")
def space_to_depth(b: Builder, x: Value, *, block_size: int = 1, mode: str) -> Value:
    """Move blocks of pixels to channels; the block axes are first or last among the channels."""
    dims = b.dims(x)
    is_known = all(isinstance(dim, int) for dim in dims)
    if len(dims) == 4 and mode == "blocks_first" and (dtype_of(x).is_floating or not is_known):
        return b(SpaceToDepth, x, blocksize=block_size)
    n, c, *spatial = lengths(b, x, at_least=3)
    k, r = block_size, len(dims) - 2
    split = shaped(b, x, [n, c, *(part for p in spatial for part in (parted(b, p, k), k))])
    blocks, rest = [3 + 2 * i for i in range(r)], [2 + 2 * i for i in range(r)]
    order = [0, *blocks, 1, *rest] if mode == "blocks_first" else [0, 1, *blocks, *rest]
    return shaped(b, transposed(b, split, order), [n, times(b, c, k**r), *(parted(b, p, k) for p in spatial)])


@lower("openvino", "opset2.SpaceToBatch")
def space_to_batch(b: Builder, x: Value, block: Value, pads_begin: Value, pads_end: Value) -> Value:
    """Pad, then split each axis into blocks and move the block axes to the batch."""
    k = needed(block, "the block")
    begins, ends = integers(pads_begin), integers(pads_end)
    check_counts(len(b.dims(x)), block=k, pads_begin=begins, pads_end=ends)
    if begins is None or ends is None:
        x = b(Pad, x, b(Concat, as_int64(b, pads_begin), as_int64(b, pads_end), axis=0))
    elif any((*begins, *ends)):
        x = b(Pad, x, (*begins, *ends))
    n, *spatial = lengths(b, x, at_least=2)
    rank = len(spatial)
    left = [parted(b, p, s) for p, s in zip(spatial, k[1:], strict=True)]
    split = shaped(b, x, [n, *(part for pair in zip(left, k[1:], strict=True) for part in pair)])
    order = [*(2 + 2 * i for i in range(rank)), 0, *(1 + 2 * i for i in range(rank))]
    return shaped(b, transposed(b, split, order), [times(b, n, prod(k)), *left])


@lower("openvino", "opset2.BatchToSpace")
def batch_to_space(b: Builder, x: Value, block: Value, crops_begin: Value, crops_end: Value) -> Value:
    """Move blocks from the batch axis into the spatial axes, then crop."""
    k = needed(block, "the block")
    begins, ends = integers(crops_begin), integers(crops_end)
    check_counts(len(b.dims(x)), block=k, crops_begin=begins, crops_end=ends)
    n, *spatial = lengths(b, x, at_least=2)
    rank, left = len(spatial), parted(b, n, prod(k))
    split = shaped(b, x, [*k[1:], left, *spatial])
    order = [rank, *(axis for i in range(rank) for axis in (rank + 1 + i, i))]
    sides = [times(b, p, s) for p, s in zip(spatial, k[1:], strict=True)]
    whole = shaped(b, transposed(b, split, order), [left, *sides])
    if begins is not None and ends is not None and not any((*begins, *ends)):
        return whole
    stops = b(Sub, b(Shape, whole), as_int64(b, crops_end))
    if ends is not None:
        # Crops at the end are negative indices, so dims need not be static.
        stops = vector(b, [-end if end else np.iinfo(np.int64).max for end in ends])
    return b(Slice, whole, as_int64(b, crops_begin), stops, range(rank + 1))


@lower("openvino", "opset2.ReorgYolo")
def reorg_yolo(b: Builder, x: Value, *, stride: tuple[int, ...]) -> Value:
    """Darknet's reorg layer: space to depth by `stride`, with the data indexed as [N, C/k², H, k, W, k]."""
    n, c, h, w = lengths(b, x, 4)
    check_counts(max(len(stride), 1), stride=stride)
    k = stride[0]
    # Counted as [C/k², H, k, W, k], a place of the source is [k, k, C/k², H, W] of the result.
    split = shaped(b, x, [n, parted(b, c, k**2), h, k, w, k])
    moved = transposed(b, split, [0, 3, 5, 1, 2, 4])
    return shaped(b, moved, [n, times(b, c, k**2), parted(b, h, k), parted(b, w, k)])


RULES.export_rules("""
DepthToSpace
    -> opset1.DepthToSpace(input, block_size=blocksize, mode="blocks_first" if mode == "DCR" else "depth_first")
SpaceToDepth -> opset1.SpaceToDepth(input, block_size=blocksize, mode="blocks_first")
""")
