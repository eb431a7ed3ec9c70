"""Reshaping of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.pytorch import (
    DIALECT,
    axes_of,
    axis_of,
    called,
    dtype_of,
    integers,
    length,
    number,
    says,
    static,
    vector,
)
from graphport.ops.reshape import (
    Col2Im,
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
)
from graphport.ops.reshape import reshaped as target_of
from graphport.ops.shapes import broadcast

Answer = Value | tuple[Value, ...]


def lengths(b: Builder, shape: Any) -> Value:
    """A shape as a tensor: numbers, tensors of rank 0 or 1, or a list of these."""
    if isinstance(shape, Value):
        return shape if b.dims(shape) else b(Unsqueeze, shape, vector(b, [0]))
    items = list(shape) if is_sequence(shape) else [shape]
    if not any(isinstance(item, Value) for item in items):
        return vector(b, [int(item) for item in items])
    return b(Concat, *(lengths(b, item) for item in items), axis=0)


def _zeros(shape: Any) -> bool:
    """Whether a length of 0 is meant, which would be taken for a copy."""
    return is_sequence(shape) and any(item == 0 and not isinstance(item, Value) for item in shape)


@says(
    "Tensor.reshape", "Tensor.view", "torch.reshape", "aten::reshape", "aten::view", "torch.view", "aten::_unsafe_view"
)
def reshape(b: Builder, input: Value, shape: Any = None, size: Any = None) -> Value:
    target = shape if shape is not None else size if size is not None else ()
    return b(Reshape, input, lengths(b, target), allowzero=1 if _zeros(target) else None)


@says("Tensor.reshape_as", "Tensor.view_as", "aten::reshape_as", "aten::view_as")
def reshape_as(b: Builder, input: Value, other: Value) -> Value:
    return b(Reshape, input, b(Shape, other))


@says("nn.Flatten", "torch.flatten", "aten::flatten")
def flatten(b: Builder, input: Value, start_dim: Any = None, end_dim: Any = -1) -> Value:
    rank = len(b.dims(input))
    # A module keeps the batch; its writer always says so.
    start = axis_of(number(start_dim) if start_dim is not None else 0, rank)
    stop = axis_of(number(end_dim), rank)
    if rank == 0:
        return b(Reshape, input, vector(b, [1]))
    if start == stop:
        return input
    if (start, stop) == (1, rank - 1):
        return b(Flatten, input)
    return _merged(b, input, start, stop)


def _merged(b: Builder, x: Value, start: int, stop: int) -> Value:
    dims = b.dims(x)
    behind = dims[stop + 1 :]
    if not any(isinstance(dim, Symbolic) for dim in behind):
        numbers = [0] * start + [-1] + [int(dim) for dim in behind if isinstance(dim, int)]
        if 0 not in numbers[start:]:
            return b(Reshape, x, vector(b, numbers))
    parts = [b(Shape, x, start=0, end=start), vector(b, [-1]), b(Shape, x, start=stop + 1)]
    return b(Reshape, x, b(Concat, *parts, axis=0))


@says("nn.Unflatten", "torch.unflatten", "Tensor.unflatten", "aten::unflatten")
def unflatten(b: Builder, input: Value, dim: Any, sizes: Any = None, unflattened_size: Any = None) -> Value:
    rank = len(b.dims(input))
    axis = axis_of(number(dim), rank)
    parts = sizes if sizes is not None else unflattened_size
    if parts is None:
        message = "the lengths of the parts are missing"
        raise ShapeError(message)
    shape = [b(Shape, input, start=0, end=axis), lengths(b, parts), b(Shape, input, start=axis + 1)]
    return b(Reshape, input, b(Concat, *shape, axis=0))


@says("torch.squeeze", "aten::squeeze", "Tensor.squeeze")
def squeeze(b: Builder, input: Value, dim: Any = None) -> Value:
    """Axes that are not of length 1 stay."""
    dims = b.dims(input)
    axes = axes_of(dim, len(dims)) if dim is not None else tuple(range(len(dims)))
    if any(isinstance(dims[axis], Symbolic) for axis in axes if dims):
        message = "whether a length is 1 is not known"
        raise UnsupportedError(message)
    chosen = [axis for axis in axes if dims and dims[axis] == 1]
    return b(Squeeze, input, vector(b, chosen)) if chosen else input


@says("torch.unsqueeze", "aten::unsqueeze", "Tensor.unsqueeze")
def unsqueeze(b: Builder, input: Value, dim: Any) -> Value:
    return b(Unsqueeze, input, vector(b, [axis_of(number(dim), len(b.dims(input)) + 1)]))


def moved(b: Builder, x: Value, perm: Sequence[int]) -> Value:
    """The axes in another order."""
    return x if list(perm) == list(range(len(perm))) else b(Transpose, x, perm=tuple(perm))


@says("torch.transpose", "aten::transpose", "torch.swapaxes", "torch.swapdims", "aten::swapaxes")
def transpose(b: Builder, input: Value, dim0: Any, dim1: Any) -> Value:
    rank = len(b.dims(input))
    order = list(range(rank))
    i, j = axis_of(number(dim0), rank), axis_of(number(dim1), rank)
    order[i], order[j] = order[j], order[i]
    return moved(b, input, order)


@says("torch.t", "aten::t", "Tensor.t", "aten::numpy_T")
def t(b: Builder, input: Value) -> Value:
    return moved(b, input, range(len(b.dims(input)))[::-1])


@says("Tensor.permute", "torch.permute", "aten::permute")
def permute(b: Builder, input: Value, dims: Any) -> Value:
    rank = len(b.dims(input))
    order = [axis_of(axis, rank) for axis in integers(dims)]
    if sorted(order) != list(range(rank)):
        message = f"{order} is no order of {rank} axes"
        raise ShapeError(message)
    return moved(b, input, order)


@says("torch.movedim", "torch.moveaxis", "aten::movedim")
def movedim(b: Builder, input: Value, source: Any, destination: Any) -> Value:
    rank = len(b.dims(input))
    places = [axis_of(axis, rank) for axis in integers(destination)]
    taken = dict(zip(places, (axis_of(axis, rank) for axis in integers(source)), strict=True))
    rest = iter([axis for axis in range(rank) if axis not in taken.values()])
    return moved(b, input, [taken[place] if place in taken else next(rest) for place in range(rank)])


# ── together and apart ────────────────────────────────────────────────────────────────────────────────────────────────


def _items(tensors: Sequence[Any]) -> list[Value]:
    flat = [item for each in tensors for item in (each if is_sequence(each) else [each])]
    return [item for item in flat if isinstance(item, Value)]


@says("torch.cat", "torch.concat", "torch.concatenate", "aten::cat", "aten::concat")
def cat(b: Builder, *tensors: Value, dim: Any = 0) -> Value:
    # An empty tensor of rank 1 counts for nothing.
    found = [x for x in _items(tensors) if b.dims(x) != (0,)] or _items(tensors)
    return b(Concat, *found, axis=axis_of(number(dim), len(b.dims(found[0]))))


@says("torch.stack", "aten::stack")
def stack(b: Builder, *tensors: Value, dim: Any = 0) -> Value:
    found = _items(tensors)
    axis = axis_of(number(dim), len(b.dims(found[0])) + 1)
    return b(Concat, *(b(Unsqueeze, x, vector(b, [axis])) for x in found), axis=axis)


@says("torch.hstack", "aten::hstack")
def hstack(b: Builder, *tensors: Value) -> Value:
    found = [atleast(b, x, 1) for x in _items(tensors)]
    return b(Concat, *found, axis=0 if len(b.dims(found[0])) == 1 else 1)


@says("torch.vstack", "aten::vstack")
def vstack(b: Builder, *tensors: Value) -> Value:
    return b(Concat, *(atleast(b, x, 2) for x in _items(tensors)), axis=0)


@says("torch.column_stack", "aten::column_stack")
def column_stack(b: Builder, *tensors: Value) -> Value:
    columns = [b(Unsqueeze, x, vector(b, [1])) if len(b.dims(x)) == 1 else x for x in _items(tensors)]
    return b(Concat, *columns, axis=1)


def atleast(b: Builder, x: Value, rank: int) -> Value:
    """With axes of 1 in front until there are `rank`."""
    missing = rank - len(b.dims(x))
    return b(Unsqueeze, x, vector(b, list(range(missing)))) if missing > 0 else x


@says("torch.atleast_1d", "aten::atleast_1d")
def atleast_1d(b: Builder, input: Value) -> Value:
    return atleast(b, input, 1)


@says("torch.atleast_2d", "aten::atleast_2d")
def atleast_2d(b: Builder, input: Value) -> Value:
    return atleast(b, input, 2)


def _split(b: Builder, x: Value, axis: int, parts: Sequence[int]) -> tuple[Value, ...]:
    if len(parts) == 1:
        return (x,)
    return b.results(Split, len(parts), x, vector(b, parts), axis=axis)


@says("torch.chunk", "aten::chunk", "aten::unsafe_chunk")
def chunk(b: Builder, input: Value, chunks: Any, dim: Any = 0) -> tuple[Value, ...]:
    axis = axis_of(number(dim), len(b.dims(input)))
    extent = length(b.dims(input), axis)
    size = max(-(-extent // int(number(chunks))), 1)
    return _split(b, input, axis, _pieces(extent, size))


def _pieces(extent: int, size: int) -> list[int]:
    full, rest = divmod(extent, size)
    return [size] * full + ([rest] if rest or not full else [])


@says("torch.split", "aten::split", "aten::split_with_sizes", "aten::unsafe_split", "Tensor.split")
def split(b: Builder, tensor: Value, split_size_or_sections: Any, dim: Any = 0) -> tuple[Value, ...]:
    axis = axis_of(number(dim), len(b.dims(tensor)))
    sizes = integers(split_size_or_sections)
    if is_sequence(split_size_or_sections) or len(sizes) != 1:
        return _split(b, tensor, axis, sizes)
    (size,) = sizes
    return _split(b, tensor, axis, _pieces(length(b.dims(tensor), axis), size))


@says("torch.tensor_split", "aten::tensor_split")
def tensor_split(
    b: Builder, input: Value, sections: Any = None, dim: Any = 0, indices: Any = None
) -> tuple[Value, ...]:
    axis = axis_of(number(dim), len(b.dims(input)))
    extent = length(b.dims(input), axis)
    places = indices if indices is not None else sections
    if is_sequence(places):
        bounds: list[int] = [0, *(min(max(i + extent if i < 0 else i, 0), extent) for i in integers(places)), extent]
        return _split(b, input, axis, [max(q - p, 0) for p, q in pairwise(bounds)])
    count = int(number(places))
    return _split(b, input, axis, [extent // count + (i < extent % count) for i in range(count)])


@says("torch.unbind", "aten::unbind")
def unbind(b: Builder, input: Value, dim: Any = 0) -> tuple[Value, ...]:
    axis = axis_of(number(dim), len(b.dims(input)))
    parts = _split(b, input, axis, [1] * length(b.dims(input), axis))
    return tuple(b(Squeeze, part, vector(b, [axis])) for part in parts)


# ── more of the same ──────────────────────────────────────────────────────────────────────────────────────────────────


@says("Tensor.expand", "torch.broadcast_to", "aten::expand", "aten::broadcast_to", ignores=("implicit",))
def expand(b: Builder, input: Value, sizes: Any = None, size: Any = None, shape: Any = None) -> Value:
    """-1 keeps a length, which 1 does in the same way."""
    target = next((each for each in (sizes, size, shape) if each is not None), ())
    if isinstance(target, Value):
        return b(Expand, input, target)
    return b(Expand, input, lengths(b, [1 if item == -1 else item for item in target]))


@says("Tensor.expand_as", "aten::expand_as")
def expand_as(b: Builder, input: Value, other: Value) -> Value:
    return b(Expand, input, b(Shape, other))


@says("torch.broadcast_tensors", "aten::broadcast_tensors")
def broadcast_tensors(b: Builder, *tensors: Value) -> tuple[Value, ...]:
    found = _items(tensors)
    dims = broadcast(*(b.dims(x) for x in found))
    target = vector(b, [length(dims, axis) for axis in range(len(dims))])
    return tuple(b(Expand, x, target) for x in found)


@says("Tensor.repeat", "torch.tile", "aten::repeat", "aten::tile", "Tensor.tile")
def repeat(b: Builder, input: Value, sizes: Any = None, dims: Any = None, repeats: Any = None) -> Value:
    times = list(integers(next(each for each in (sizes, dims, repeats) if each is not None)))
    rank = len(b.dims(input))
    x = atleast(b, input, len(times))
    return b(Tile, x, vector(b, [1] * (rank - len(times)) + times))


@says("torch.repeat_interleave", "aten::repeat_interleave")
def repeat_interleave(b: Builder, input: Value, repeats: Any, dim: Any = None, output_size: Any = None) -> Value:
    del output_size
    x = b(Reshape, input, vector(b, [-1])) if dim is None else input
    axis = axis_of(0 if dim is None else number(dim), len(b.dims(x)))
    times = int(number(repeats))
    rank = len(b.dims(x))
    copies = b(
        Tile, b(Unsqueeze, x, vector(b, [axis + 1])), vector(b, [1] * (axis + 1) + [times] + [1] * (rank - axis - 1))
    )
    return _merged(b, copies, axis, axis + 1)


@says("torch.meshgrid", "aten::meshgrid")
def meshgrid(b: Builder, *tensors: Value, indexing: str = "ij") -> tuple[Value, ...]:
    found = [b(Reshape, x, vector(b, [-1])) for x in _items(tensors)]
    order = list(range(len(found)))
    if indexing == "xy" and len(found) > 1:
        order[:2] = [1, 0]
    counts = [length(b.dims(found[i]), 0) for i in order]
    results: list[Value] = []
    for index, x in enumerate(found):
        place = order.index(index)
        shape = [1] * len(found)
        shape[place] = -1
        results.append(b(Expand, b(Reshape, x, vector(b, shape)), vector(b, counts)))
    return tuple(results)


# ── channels and space ────────────────────────────────────────────────────────────────────────────────────────────────


@says("nn.PixelShuffle", "F.pixel_shuffle", "aten::pixel_shuffle")
def pixel_shuffle(b: Builder, input: Value, upscale_factor: Any) -> Value:
    return b(DepthToSpace, input, blocksize=int(number(upscale_factor)), mode="CRD")


@says("nn.PixelUnshuffle", "F.pixel_unshuffle", "aten::pixel_unshuffle")
def pixel_unshuffle(b: Builder, input: Value, downscale_factor: Any) -> Value:
    """Channels come first among those of a pixel; ONNX's SpaceToDepth puts them last."""
    r = int(number(downscale_factor))
    if r == 1:
        return b(SpaceToDepth, input, blocksize=1)
    dims = b.dims(input)
    if len(dims) != 4 or any(isinstance(dim, Symbolic) for dim in dims[1:]):
        message = "a pixel_unshuffle of a picture of unknown size"
        raise UnsupportedError(message)
    channels, height, width = (length(dims, axis) for axis in (1, 2, 3))
    apart = b(Reshape, input, vector(b, [0, channels, height // r, r, width // r, r]))
    return b(
        Reshape,
        b(Transpose, apart, perm=(0, 1, 3, 5, 2, 4)),
        vector(b, [0, channels * r * r, height // r, width // r]),
    )


@says(
    "nn.ChannelShuffle",
    "F.channel_shuffle",
    "aten::channel_shuffle",
    "torch.channel_shuffle",
    "aten::native_channel_shuffle",
)
def channel_shuffle(b: Builder, input: Value, groups: Any) -> Value:
    dims = b.dims(input)
    channels, count = length(dims, 1), int(number(groups))
    if channels % count:
        message = f"{channels} channels are not {count} groups of the same size"
        raise ShapeError(message)
    rest = list(range(3, len(dims) + 1))
    apart = b(Unsqueeze, input, vector(b, [1]))
    if any(isinstance(dim, Symbolic) for dim in dims[2:]):
        behind = b(Shape, input, start=2)
        grouped = b(Reshape, input, b(Concat, vector(b, [0, count, channels // count]), behind, axis=0))
        turned = b(Transpose, grouped, perm=(0, 2, 1, *rest))
        return b(Reshape, turned, b(Shape, input))
    spatial = [length(dims, axis) for axis in range(2, len(dims))]
    grouped = b(Reshape, apart, vector(b, [0, count, channels // count, *spatial]))
    turned = b(Transpose, grouped, perm=(0, 2, 1, *rest))
    return b(Reshape, turned, vector(b, [0, channels, *spatial]))


@says("nn.Fold", "F.fold", "aten::col2im")
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
    x = b(Unsqueeze, input, vector(b, [0])) if is_alone else input
    y = b(
        Col2Im,
        x,
        vector(b, integers(output_size, 2)),
        vector(b, integers(kernel_size, 2)),
        dilations=integers(dilation, 2),
        pads=integers(padding, 2) * 2,
        strides=integers(stride, 2),
    )
    return b(Squeeze, y, vector(b, [0])) if is_alone else y


@says("SliceIndexes")
def slice_indexes(b: Builder, *operands: Value, indexes: Any) -> Value:
    """Numbers and operands as one vector."""
    entries: list[Any] = []
    for item in indexes if is_sequence(indexes) else [indexes]:
        if isinstance(item, str) and item.startswith("@") and item[1:].isdigit() and int(item[1:]) < len(operands):
            entries.append(operands[int(item[1:])])
        elif isinstance(item, int):
            entries.append(item)
        else:
            message = f"the index {item}"
            raise UnsupportedError(message)
    return lengths(b, entries)


@says("aten::size", "Tensor.size")
def size(b: Builder, input: Value, dim: Any = None) -> Value:
    if dim is None:
        return b(Shape, input)
    axis = axis_of(number(dim), len(b.dims(input)))
    return b(Squeeze, b(Shape, input, start=axis, end=axis + 1), vector(b, [0]))


@says("aten::numel", "torch.numel")
def numel(b: Builder, input: Value) -> Value:
    dims = b.dims(input)
    return b.constant(np.array(prod(length(dims, axis) for axis in range(len(dims)))), DType.INT64)


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _shaped(b: Builder, x: Value, target: Sequence[Any]) -> Value | None:
    """The same elements in another shape, of which one length may be open."""
    numbers = tuple(dim if isinstance(dim, int) else -1 for dim in target)
    if numbers.count(-1) > 1:
        return None
    return called(b, "Tensor.reshape", TensorFact(dtype_of(x), tuple(target)), input=x, shape=numbers)


@Reshape.lift(DIALECT)
def lift_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Value | None:
    known = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    return None if known is None else _shaped(b, data, target_of(b.dims(data), known, copies_zero=not allowzero))


@Flatten.lift(DIALECT)
def lift_flatten(b: Builder, input: Value, *, axis: int = 1) -> Value | None:
    rank = len(b.dims(input))
    if axis % max(rank, 1) != 1 or rank < 2:
        return None
    return called(b, "torch.flatten", TensorFact(dtype_of(input), None), input=input, start_dim=1, end_dim=-1)


@Squeeze.lift(DIALECT)
def lift_squeeze(b: Builder, data: Value, axes: Value | None = None) -> Value | None:
    chosen = static(axes)
    if chosen is None:
        return None
    dims = b.dims(data)
    gone = {axis % len(dims) for axis in chosen}
    return _shaped(b, data, [dim for axis, dim in enumerate(dims) if axis not in gone])


@Unsqueeze.lift(DIALECT)
def lift_unsqueeze(b: Builder, data: Value, axes: Value) -> Value | None:
    chosen = static(axes)
    if chosen is None:
        return None
    y, rank = data, len(b.dims(data)) + len(chosen)
    for axis in sorted(axis % rank for axis in chosen):
        dims = list(b.dims(y))
        dims.insert(axis, 1)
        y = called(b, "torch.unsqueeze", TensorFact(dtype_of(data), tuple(dims)), input=y, dim=axis)
    return y


@Transpose.lift(DIALECT)
def lift_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    order = tuple(reversed(range(len(b.dims(data))))) if perm is None else perm
    return called(b, "Tensor.permute", TensorFact(dtype_of(data), None), input=data, dims=order)


@Concat.lift(DIALECT)
def lift_concat(b: Builder, *inputs: Value, axis: int) -> Value:
    return b.word("torch.cat", *inputs, facts=[TensorFact(dtype_of(inputs[0]), None)], dim=axis)[0]


@Split.lift(DIALECT)
def lift_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...] | None:
    parts = static(split)
    if split is None:
        extent = length(b.dims(input), axis)
        size = -(-extent // (num_outputs or b.count))
        parts = tuple(_pieces(extent, size))
    if parts is None or len(parts) != b.count:
        return None
    facts = [TensorFact(dtype_of(input), None)] * b.count
    keys: dict[str, Any] = {"$": ("tensor",)}
    return b.word("torch.split", input, facts=facts, split_size_or_sections=parts, dim=axis, **keys)


@Tile.lift(DIALECT)
def lift_tile(b: Builder, input: Value, repeats: Value) -> Value | None:
    times = static(repeats)
    return (
        None
        if times is None
        else called(b, "Tensor.repeat", TensorFact(dtype_of(input), None), input=input, sizes=times)
    )


@Expand.lift(DIALECT)
def lift_expand(b: Builder, input: Value, shape: Value) -> Value | None:
    wanted = static(shape)
    if wanted is None:
        return None
    target = broadcast(b.dims(input), wanted)
    sizes = tuple(length(target, axis) for axis in range(len(target)))
    return called(b, "Tensor.expand", TensorFact(dtype_of(input), target), input=input, sizes=sizes)


@DepthToSpace.lift(DIALECT)
def lift_depth_to_space(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> Value | None:
    fact = TensorFact(dtype_of(input), None)
    return called(b, "F.pixel_shuffle", fact, input=input, upscale_factor=blocksize) if mode == "CRD" else None


@Shape.lift(DIALECT)
def lift_shape(b: Builder, data: Value, *, start: int = 0, end: int | None = None) -> Value | None:
    """The lengths one by one, or as numbers where all are known."""
    dims = b.dims(data)
    places = range(len(dims))[slice(start, end)]
    known = [dim for place in places if isinstance(dim := dims[place], int)]
    if len(known) == len(places):
        return vector(b, known)
    entries = ",".join(f"size(@0,{place})" for place in places)
    fact = TensorFact(DType.INT64, (len(places),))
    return b.word("Expression", data, facts=[fact], expr=f"[{entries}]")[0]
