"""Shapes and pieces in TensorFlow."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import (
    RULES,
    by_tflite,
    from_channels_first,
    operator,
    to_channels_first,
)
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Mod, Mul, Sub
from graphport.ops.definitions.indexing import Gather, ScatterND, Slice
from graphport.ops.definitions.reduction.indices import TopK
from graphport.ops.definitions.reshape import (
    Concat,
    Expand,
    Identity,
    Reshape,
    Shape,
    Size,
    Split,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from graphport.ops.definitions.reshape.blocks import DepthToSpace, SpaceToDepth
from graphport.ops.lowering.extents import counted, extent, joined
from graphport.ops.lowering.operands import (
    as_int64,
    as_vector,
    cast,
    dtype_of,
    integers,
    needed,
    needed_integer,
    reshaped,
    vector,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_NO_BATCH_AND_CHANNELS = str.maketrans("", "", "NC")
_REST = (1 << 63) - 1

RULES.lower("""
Identity, StopGradient, Snapshot, EnsureShape(x) -> Identity(x)
ExpandDims(x, axis) -> Unsqueeze(x, vector(axis))
BroadcastTo(x, shape) -> Expand(x, vector(shape))
Reshape(x, shape) -> tflite("RESHAPE", x, shape)
Transpose(x, perm) -> tflite("TRANSPOSE", x, perm)
Tile(x, repeats) -> Tile(x, int64(repeats))
ReverseV2(x, axes) -> tflite("REVERSE_V2", x, axes)
Slice(x, begin, size) -> tflite("SLICE", x, begin, size)
BroadcastArgs(x, y) -> tflite("BROADCAST_ARGS", x, y)
StridedSlice(x, begin, end, strides, *, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0)
    -> tflite("STRIDED_SLICE", x, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask,
              ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask, shrink_axis_mask=shrink_axis_mask)
""")


@operator("TensorStridedSliceUpdate")
def update_strided_slice(
    b: Builder,
    x: Value,
    begin: Value,
    end: Value,
    strides: Value,
    value: Value,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Value:
    """`x` with other elements where a strided slice reads."""
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    places = b(Reshape, counted(b, reshaped(b, b(Size, x), (1,))), b(Shape, x))
    (places,) = by_tflite(b, "STRIDED_SLICE", places, begin, end, strides, **masks)
    elements = reshaped(b, b(Expand, value, b(Shape, places)), (-1,))
    flat = b(ScatterND, reshaped(b, x, (-1,)), reshaped(b, places, (-1, 1)), elements)
    return b(Reshape, flat, b(Shape, x))


@operator("InvertPermutation")
def invert_permutation(b: Builder, x: Value) -> Value:
    """The permutation that undoes `x`: the positions of 0, 1, 2, …."""
    numbers = integers(x)
    if numbers is not None:
        order = np.argsort(np.array(numbers, np.int64), kind="stable")
        return cast(b, vector(b, order.tolist()), dtype_of(x))
    count = b(Size, x)
    _, places = b.results(TopK, 2, as_int64(b, x), reshaped(b, count, (1,)), largest=0)
    return cast(b, places, dtype_of(x))


@operator("Reverse")
def reverse(b: Builder, x: Value, dims: Value) -> Value:
    """Reverse the axes whose element of `dims` is true."""
    axes = [axis for axis, is_reversed in enumerate(needed(dims, "the reversed axes")) if is_reversed]
    if not axes:
        return b(Identity, x)
    count = len(axes)
    starts, ends, steps = ([number] * count for number in (-1, np.iinfo(np.int64).min, -1))
    return b(Slice, x, starts, ends, axes, steps)


@operator("UnravelIndex")
def unravel_index(b: Builder, indices: Value, dims: Value) -> Value:
    """The coordinates [axes, *indices] of flat indices of a tensor of the shape `dims`."""
    shape = needed(dims, "the dims")
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    column = (-1, *(1,) * len(b.dims(indices)))
    steps, ends = (reshaped(b, b.like(indices, each), column) for each in (strides, list(shape)))
    return b(Mod, b(Div, b(Unsqueeze, indices, [0]), steps), ends)


@operator("Squeeze")
def squeeze(b: Builder, x: Value, *, squeeze_dims: tuple[int, ...] = ()) -> Value:
    """Remove axes of size 1: the listed axes, or all."""
    if squeeze_dims:
        return b(Squeeze, x, squeeze_dims)
    dims = b.dims(x)
    if not all(isinstance(n, int) for n in dims):
        message = "unknown axes of size 1"
        raise UnsupportedError(message)
    axes = [axis for axis, n in enumerate(dims) if n == 1]
    return b(Squeeze, x, axes) if axes else b(Identity, x)


@operator("Shape")
def shape(b: Builder, x: Value, *, out_type: DType = DType.INT32) -> Value:
    """The dims of `x`."""
    return cast(b, b(Shape, x), out_type)


@operator("Size")
def size(b: Builder, x: Value, *, out_type: DType = DType.INT32) -> Value:
    """The number of elements of `x`."""
    return cast(b, b(Size, x), out_type)


@operator("ShapeN")
def shape_n(b: Builder, *x: Value, out_type: DType = DType.INT32) -> list[Value]:
    """The dims of each operand."""
    return [cast(b, b(Shape, each), out_type) for each in x]


@operator("Rank")
def rank(b: Builder, x: Value) -> Value:
    """The number of axes."""
    return b.constant(np.array(len(b.dims(x)), np.int32))


@operator("Pack")
def pack(b: Builder, *x: Value, axis: int = 0) -> Value:
    """Stack tensors along a new axis."""
    parts = [b(Unsqueeze, each, [axis]) for each in x]
    return parts[0] if len(parts) == 1 else b(Concat, *parts, axis=axis)


@operator("Unpack")
def unpack(b: Builder, x: Value, *, num: int, axis: int = 0) -> list[Value]:
    """The slices along an axis."""
    return by_tflite(b, "UNPACK", x, count=num, num=num, axis=axis)


@operator("ConcatV2")
def concat(b: Builder, *x: Value) -> Value:
    """Concatenate tensors; the last operand is the axis."""
    (axis,) = needed(x[-1], "the axis")
    return _concatenated(b, x[:-1], axis)


@operator("Concat")
def concat_v1(b: Builder, axis: Value, *x: Value) -> Value:
    """Concatenate tensors; the first operand is the axis."""
    return _concatenated(b, x, needed_integer(axis, "the axis"))


@operator("ParallelConcat")
def parallel_concat(b: Builder, *x: Value) -> Value:
    """Concatenate tensors along the first axis."""
    return _concatenated(b, x, 0)


def _concatenated(b: Builder, x: tuple[Value, ...], axis: int) -> Value:
    return b(Identity, x[0]) if len(x) == 1 else b(Concat, *x, axis=axis)


@operator("ConcatOffset")
def concat_offset(b: Builder, axis: Value, *shapes: Value) -> list[Value]:
    """Return the offset of each operand in the result of a concatenation."""
    (place,) = needed(axis, "the axis")
    (count,) = b.dims(shapes[0], 1)
    if not isinstance(count, int):
        message = "unknown rank of the split tensors"
        raise UnsupportedError(message)
    pick = b.constant((np.arange(count) == place % max(count, 1)).astype(dtype_of(shapes[0]).numpy))
    found = [b(Mul, shapes[0], 0)]
    for each in shapes[:-1]:
        found.append(b(Add, found[-1], b(Mul, each, pick)))
    return found


@operator("Split")
def split(b: Builder, axis: Value, x: Value, *, num_split: int) -> list[Value]:
    """Split an axis into `num_split` equal parts."""
    (place,) = needed(axis, "the axis")
    if num_split == 1:
        return [b(Identity, x)]
    return list(b.results(Split, num_split, x, axis=place, num_outputs=num_split))


@operator("SplitV")
def split_v(b: Builder, x: Value, lengths: Value, axis: Value, *, num_split: int) -> list[Value]:
    """Split along an axis into pieces of the sizes; one size may be -1, the remainder."""
    (place,) = needed(axis, "the axis")
    numbers = integers(lengths)
    if num_split == 1:
        return [b(Identity, x)]
    parts = as_vector(b, lengths)
    if numbers is not None and -1 in numbers:
        n = b.dims(x)[place]
        rest = sum(numbers) + 1
        whole = [n - rest if each == -1 and isinstance(n, int) else each for each in numbers]
        last = b(Sub, extent(b, x, place), [rest])
        pieces = [last if each == -1 else each for each in whole]
        parts = joined(b, *pieces) if -1 in whole else vector(b, whole)
    return list(b.results(Split, num_split, x, parts, axis=place))


@operator("SpaceToDepth")
def space_to_depth(b: Builder, x: Value, *, block_size: int, data_format: str = "NHWC") -> Value:
    """Move blocks of pixels to channels."""
    y = b(SpaceToDepth, to_channels_first(b, x, data_format), blocksize=block_size)
    return from_channels_first(b, y, data_format)


@operator("DepthToSpace")
def depth_to_space(b: Builder, x: Value, *, block_size: int, data_format: str = "NHWC") -> Value:
    """Move channels to blocks of pixels."""
    y = b(DepthToSpace, to_channels_first(b, x, data_format), blocksize=block_size, mode="DCR")
    return from_channels_first(b, y, data_format)


@operator("SpaceToBatchND")
def space_to_batch_nd(b: Builder, x: Value, blocks: Value, pads: Value) -> Value:
    """Move blocks of spatial elements to the batch axis."""
    sizes, widths = needed(blocks, "the blocks"), integers(pads)
    count, axes = len(sizes), len(b.dims(x))
    if widths is None or any(widths):
        from graphport.ops.definitions.padding import Pad

        columns = b(Transpose, as_int64(b, pads), perm=(1, 0))
        begins, ends = (b(Gather, columns, side, axis=0) for side in (0, 1))
        x = b(Pad, x, b(Concat, begins, ends, axis=0), None, range(1, count + 1))
    space = [b(Div, extent(b, x, axis + 1), [size]) for axis, size in enumerate(sizes)]
    parts = [each for pair in zip(space, sizes, strict=True) for each in pair]
    channels = [extent(b, x, axis) for axis in range(count + 1, axes)]
    y = b(Reshape, x, joined(b, extent(b, x, 0), *parts, *channels))
    end = 2 * count + 1
    y = b(Transpose, y, perm=(*range(2, end, 2), 0, *range(1, end, 2), *range(end, end + len(channels))))
    whole = int(np.prod(sizes))
    return b(Reshape, y, joined(b, b(Mul, extent(b, x, 0), [whole]), *space, *channels))


@operator("BatchToSpaceND")
def batch_to_space_nd(b: Builder, x: Value, blocks: Value, crops: Value) -> Value:
    """Move elements of the batch axis to blocks of spatial elements, then crop."""
    sizes, widths = needed(blocks, "the blocks"), integers(crops)
    count, axes = len(sizes), len(b.dims(x))
    whole = int(np.prod(sizes))
    batch = b(Div, extent(b, x, 0), [whole])
    space = [extent(b, x, axis + 1) for axis in range(count)]
    channels = [extent(b, x, axis) for axis in range(count + 1, axes)]
    y = b(Reshape, x, joined(b, *sizes, batch, *space, *channels))
    pairs = [place for axis in range(count) for place in (count + 1 + axis, axis)]
    y = b(Transpose, y, perm=(count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(channels))))
    larger = [b(Mul, n, [size]) for n, size in zip(space, sizes, strict=True)]
    y = b(Reshape, y, joined(b, batch, *larger, *channels))
    if widths is not None and not any(widths):
        return y
    columns = b(Transpose, as_int64(b, crops), perm=(1, 0))
    begins, ends = (b(Gather, columns, side, axis=0) for side in (0, 1))
    return b(Slice, y, begins, b(Sub, joined(b, *larger), ends), range(1, count + 1))


@operator("SpaceToBatch")
def space_to_batch(b: Builder, x: Value, pads: Value, *, block_size: int) -> Value:
    """`SpaceToBatchND` of images with square blocks."""
    return space_to_batch_nd(b, x, vector(b, [block_size] * 2), pads)


@operator("BatchToSpace")
def batch_to_space(b: Builder, x: Value, crops: Value, *, block_size: int) -> Value:
    """`BatchToSpaceND` of images with square blocks."""
    return batch_to_space_nd(b, x, vector(b, [block_size] * 2), crops)


@operator("Roll")
def roll(b: Builder, x: Value, shifts: Value, axes: Value) -> Value:
    """Roll elements along axes, with wrap-around."""
    offsets, places = integers(shifts), needed(axes, "the axes")
    numbers = as_vector(b, shifts)
    for index, axis in enumerate(places):
        if offsets is not None and offsets[index] == 0:
            continue
        n = extent(b, x, axis)
        shift = b(Slice, numbers, [index], [index + 1])
        start = b(Mod, b(Sub, n, shift), n)
        at = vector(b, [axis])
        head = b(Slice, x, [0], start, at)
        tail = b(Slice, x, start, [_REST], at)
        x = b(Concat, tail, head, axis=axis)
    return x


@operator("DataFormatVecPermute")
def permute_data_format(b: Builder, x: Value, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Value:
    """Permute the entries of a vector, or the rows of a matrix, from one data format to another.

    `x` has an entry for each axis, or for each spatial axis.
    """
    if sorted(src_format) != sorted(dst_format):
        message = f"formats {src_format!r} and {dst_format!r} have different axes"
        raise ShapeError(message)
    if b.dims(x, at_least=1)[0] == len(src_format) - 2:
        src_format, dst_format = (form.translate(_NO_BATCH_AND_CHANNELS) for form in (src_format, dst_format))
    return b(Gather, x, [src_format.index(axis) for axis in dst_format], axis=0)
