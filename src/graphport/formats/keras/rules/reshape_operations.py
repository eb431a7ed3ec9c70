"""Operations of Keras 3 and TensorFlow that move elements."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.formats.keras.rules.binding import checked_axis
from graphport.formats.keras.rules.operation import axes_of, floating, named_dtype, operation, promoted, tensor
from graphport.formats.keras.rules.resize import resized
from graphport.formats.keras.rules.tensors import (
    FIRST,
    reshape_to,
    squeezed,
    to_channels_first,
    to_data_format,
    unsqueezed,
)
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.comparison import Less, Where
from graphport.ops.definitions.indexing import Gather, GatherElements, OneHot, Slice, Trilu
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import (
    Concat,
    DepthToSpace,
    Expand,
    Identity,
    Reshape,
    Shape,
    SpaceToDepth,
    Split,
    Squeeze,
    Tile,
)
from graphport.ops.lowering.operands import cast, dtype_of, integers, transposed, vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_LARGEST, _SMALLEST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@operation("GetItem")
def get_item(b: Builder, x: Value, *, key: Any = ()) -> Value:
    """Slices, indices, new axes and an ellipsis."""
    keys = list(key) if is_sequence(key) and not _is_slice(key) else [key]
    if "tensor" in [each for each in keys if isinstance(each, str)]:
        message = "a computed index"
        raise UnsupportedError(message)
    taken = sum(each is not None and each != "..." for each in keys)
    filler = [("slice", None, None, None)] * (len(b.dims(x)) - taken)
    if "..." in keys:
        place = keys.index("...")
        keys[place : place + 1] = filler
    axis, dropped, added, cuts = 0, list[int](), list[int](), list[tuple[int, int, int, int]]()
    for place, each in enumerate(keys):
        if each is None:
            added.append(place)
            continue
        if _is_slice(each):
            start, stop, step = each[1:]
            step = 1 if step is None else step
            if (start, stop, step) != (None, None, 1):
                first = start if start is not None else 0 if step > 0 else _LARGEST
                last = stop if stop is not None else _LARGEST if step > 0 else _SMALLEST
                cuts.append((axis, first, last, step))
        elif isinstance(each, int):
            cuts.append((axis, each, each + 1 if each != -1 else _LARGEST, 1))
            dropped.append(axis)
        else:
            message = f"the index {each!r}"
            raise UnsupportedError(message)
        axis += 1
    if cuts:
        axes, starts, stops, steps = zip(*cuts, strict=True)
        x = b(Slice, x, *(vector(b, each) for each in (starts, stops, axes, steps)))
    x = squeezed(b, x, dropped)
    before = [place - sum(isinstance(each, int) for each in keys[:place]) for place in added]
    x = unsqueezed(b, x, before)
    return x if cuts or dropped or added else b(Identity, x)


def _is_slice(key: Any) -> bool:
    return is_sequence(key) and len(key) == 4 and key[0] == "slice"


@operation("Reshape")
def reshape(b: Builder, x: Value, newshape: Any) -> Value:
    """Reshape; the shape may be computed at run time."""
    if is_sequence(newshape):
        if not all(isinstance(n, int) for n in newshape):
            message = "a shape of integers and tensors"
            raise UnsupportedError(message)
        return b(Reshape, x, list(newshape))
    return b(Reshape, x, cast(b, newshape, DType.INT64))


@operation("Transpose")
def transpose(b: Builder, x: Value, *, axes: Any = None) -> Value:
    """Permute the axes; reverse the axes by default."""
    rank = len(b.dims(x))
    order = tuple(reversed(range(rank))) if axes is None else tuple(checked_axis(each, rank) for each in axes)
    return transposed(b, x, order) if order != tuple(range(rank)) else b(Identity, x)


@operation("Swapaxes")
def swapaxes(b: Builder, x: Value, *, axis1: int = 0, axis2: int = 1) -> Value:
    """Two axes exchanged."""
    one, other = axes_of(b, x, [axis1, axis2])
    order = list(range(len(b.dims(x))))
    order[one], order[other] = other, one
    return transposed(b, x, order)


@operation("Moveaxis")
def moveaxis(b: Builder, x: Value, *, source: Any = 0, destination: Any = 0) -> Value:
    """Axes moved to other indices."""
    sources, targets = axes_of(b, x, source), axes_of(b, x, destination)
    order = [axis for axis in range(len(b.dims(x))) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return transposed(b, x, order)


@operation("ExpandDims")
def expand_dims(b: Builder, x: Value, *, axis: Any = 0) -> Value:
    """Insert axes of size 1."""
    given = [axis] if isinstance(axis, int) else list(axis)
    rank = len(b.dims(x)) + len(given)
    return unsqueezed(b, x, [checked_axis(each, rank) for each in given])


@operation("Squeeze")
def squeeze(b: Builder, x: Value, *, axis: Any = None) -> Value:
    """Remove axes of size 1."""
    if axis is None:
        return b(Squeeze, x)
    return squeezed(b, x, axes_of(b, x, axis))


@operation("Ravel")
def ravel(b: Builder, x: Value) -> Value:
    """All elements in one axis."""
    return b(Reshape, x, [-1])


@operation("Concatenate")
def concatenate(b: Builder, *xs: Any, axis: int = 0) -> Value:
    """Concatenate tensors along an axis."""
    return b(Concat, *promoted(b, *xs), axis=axis)


@operation("Hstack")
def hstack(b: Builder, *xs: Any) -> Value:
    """Concatenate tensors along axis 1; vectors along axis 0."""
    found = promoted(b, *xs)
    return b(Concat, *found, axis=1 if len(b.dims(found[0])) > 1 else 0)


@operation("Vstack")
def vstack(b: Builder, *xs: Any) -> Value:
    """Concatenate tensors along axis 0, after vectors get an axis."""
    raised = [each if len(b.dims(each)) > 1 else unsqueezed(b, each, [0]) for each in promoted(b, *xs)]
    return b(Concat, *raised, axis=0)


@operation("Stack")
def stack(b: Builder, *x: Any, axis: int = 0) -> Value:
    """Stack tensors along a new axis."""
    found = promoted(b, *x)
    place = checked_axis(axis, len(b.dims(found[0])) + 1)
    return b(Concat, *(unsqueezed(b, each, [place]) for each in found), axis=place)


def _split_count(options: Mapping[str, Any]) -> int:
    given = options.get("indices_or_sections")
    return given if isinstance(given, int) else len(given or ()) + 1


@operation("Split", count=_split_count)
def split(b: Builder, x: Value, *, indices_or_sections: Any = 1, axis: int = 0) -> Sequence[Value]:
    """Parts of an axis: a number of equal ones, or the ends of all but the last."""
    place = axes_of(b, x, axis)[0]
    if isinstance(indices_or_sections, int):
        return b.results(Split, indices_or_sections, x, axis=place, num_outputs=indices_or_sections)
    ends = [0, *indices_or_sections, _LARGEST]
    return [b(Slice, x, [start], [stop], [place]) for start, stop in pairwise(ends)]


def _sized_parts(options: Mapping[str, Any]) -> int:
    given = options.get("sizes")
    return given if isinstance(given, int) else len(given or ())


@operation("SplitSizes", count=_sized_parts)
def split_sizes(b: Builder, x: Value, *, sizes: Any = 1, axis: int = 0) -> Sequence[Value]:
    """Parts of an axis by their number or their sizes, as `tf.split`."""
    if isinstance(sizes, int):
        return b.results(Split, sizes, x, axis=axis, num_outputs=sizes)
    if -1 in sizes:
        total = b.dims(x)[axis]
        if not isinstance(total, int):
            message = "a computed size"
            raise UnsupportedError(message)
        sizes = [total - sum(n for n in sizes if n != -1) if n == -1 else n for n in sizes]
    return b.results(Split, len(sizes), x, list(sizes), axis=axis)


def _unstacked(options: Mapping[str, Any]) -> int:
    count = options.get("num")
    return count if isinstance(count, int) else 1


@operation("Unstack", count=_unstacked)
def unstack(b: Builder, x: Value, *, num: Any = None, axis: int = 0) -> Sequence[Value]:
    """Slices along an axis: the first `num` slices, at most the size of the axis."""
    place = axes_of(b, x, axis)[0]
    return [b(Gather, x, index, axis=place) for index in range(num or 1)]


@operation("Tile")
def tile(b: Builder, x: Value, *, repeats: Any = 1) -> Value:
    """Repeat the tensor `repeats[i]` times along axis i."""
    given = [repeats] if isinstance(repeats, int) else list(repeats)
    rank = len(b.dims(x))
    if len(given) > rank:
        x = unsqueezed(b, x, list(range(len(given) - rank)))
    return b(Tile, x, [*[1] * (rank - len(given)), *given])


@operation("Repeat")
def repeat(b: Builder, x: Value, *, repeats: Any = 1, axis: Any = None) -> Value:
    """Repeat each element `repeats` times along an axis."""
    if not isinstance(repeats, int):
        message = "elements with different repeat counts"
        raise UnsupportedError(message)
    if axis is None:
        x, axis = b(Reshape, x, [-1]), 0
    place, rank = axes_of(b, x, axis)[0], len(b.dims(x))
    wide = unsqueezed(b, x, [place + 1])
    wide = b(Tile, wide, [*[1] * (place + 1), repeats, *[1] * (rank - place - 1)])
    size = b.dims(x)[place]
    parts = [(x, each) for each in range(rank)]
    merged: list[Any] = [*parts[:place], size * repeats if isinstance(size, int) else -1, *parts[place + 1 :]]
    return reshape_to(b, wide, merged)


@operation("BroadcastTo")
def broadcast_to(b: Builder, x: Value, shape: Any) -> Value:
    """A tensor expanded to a shape."""
    return b(Expand, x, vector(b, list(shape)) if is_sequence(shape) else cast(b, shape, DType.INT64))


@operation("Flip")
def flip(b: Builder, x: Value, *, axis: Any = None) -> Value:
    """Elements in reversed order along axes."""
    axes = axes_of(b, x, axis)
    count = len(axes)
    return b(
        Slice,
        x,
        [-1] * count,
        [_SMALLEST] * count,
        axes,
        [-1] * count,
    )


@operation("Roll")
def roll(b: Builder, x: Value, *, shift: Any = 0, axis: Any = None) -> Value:
    """Elements moved along axes; those beyond the end come in at the start."""
    if axis is None:
        message = "a roll over all axes"
        raise UnsupportedError(message)
    shifts = [shift] if isinstance(shift, int) else list(shift)
    for each, place in zip(shifts, axes_of(b, x, axis), strict=True):
        if not each:
            continue
        size = b.dims(x)[place]
        at = -each % size if isinstance(size, int) else -each
        parts = (
            b(Slice, x, [at], [_LARGEST], [place]),
            b(Slice, x, [0], [at], [place]),
        )
        x = b(Concat, *parts, axis=place)
    return x


@operation("Take")
def take_elements(b: Builder, x: Value, indices: Any, *, axis: Any = None) -> Value:
    """Elements of an axis by index; negative ones count from the end."""
    if axis is None:
        x, axis = b(Reshape, x, [-1]), 0
    return b(Gather, x, tensor(b, indices, DType.INT64), axis=axis)


@operation("GatherTF")
def gather(b: Builder, x: Value, indices: Any, *, axis: Any = 0, batch_dims: int = 0) -> Value:
    """Elements of an axis by index, as `tf.gather`."""
    if batch_dims:
        message = f"batch_dims is {batch_dims}, expected 0"
        raise UnsupportedError(message)
    return b(Gather, x, tensor(b, indices, DType.INT64), axis=axis or 0)


@operation("TakeAlongAxis")
def take_along_axis(b: Builder, x: Value, indices: Any, *, axis: Any = None) -> Value:
    """An element for each index along an axis."""
    if axis is None:
        message = "indices over all axes"
        raise UnsupportedError(message)
    return b(GatherElements, x, tensor(b, indices, DType.INT64), axis=axis)


@operation("Pad")
def pad(b: Builder, x: Value, constant_values: Any = None, *, pad_width: Any = 0, mode: str = "constant") -> Value:
    """Pad a tensor."""
    rank, mode = len(b.dims(x)), mode.lower()
    found = {"constant": "constant", "reflect": "reflect", "symmetric": "", "edge": "edge", "wrap": "wrap"}.get(mode)
    if not found:
        message = f"the padding mode {mode!r}"
        raise UnsupportedError(message)
    if isinstance(pad_width, int):
        pad_width = [(pad_width, pad_width)] * rank
    elif all(isinstance(n, int) for n in pad_width):
        pad_width = [tuple(pad_width) * (2 if len(pad_width) == 1 else 1)] * rank
    elif len(pad_width) == 1:
        pad_width = list(pad_width) * rank
    begins, ends = ([int(each[side]) for each in pad_width] for side in (0, 1))
    number = None if constant_values is None else tensor(b, constant_values, dtype_of(x))
    return b(Pad, x, [*begins, *ends], number, mode=None if found == "constant" else found)


@operation("OneHot")
def one_hot(
    b: Builder, x: Value, *, num_classes: int = 1, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Value:
    """Rows with a 1 at the index; rows of 0 for indices outside."""
    del sparse
    kind = DType.FLOAT32 if dtype is None else named_dtype(dtype)
    # ONNX counts negative indices from the end, Keras has rows of 0 for them.
    x = cast(b, x, DType.INT64)
    x = b(Where, b(Less, x, 0), num_classes, x)
    values = b.constant(np.array([0, 1]).astype(kind.numpy), kind)
    return b(OneHot, x, [num_classes], values, axis=axis)


@operation("Tril")
def tril(b: Builder, x: Value, *, k: int = 0) -> Value:
    """The lower triangle."""
    return b(Trilu, x, k, upper=0)


@operation("Triu")
def triu(b: Builder, x: Value, *, k: int = 0) -> Value:
    """The upper triangle."""
    return b(Trilu, x, k, upper=1)


@operation("ZerosLike", "EmptyLike")
def zeros_like(b: Builder, x: Value, *, dtype: Any = None) -> Value:
    """Zeros in the shape of a tensor."""
    return _filled_like(b, x, 0, dtype)


@operation("OnesLike")
def ones_like(b: Builder, x: Value, *, dtype: Any = None) -> Value:
    """Ones in the shape of a tensor."""
    return _filled_like(b, x, 1, dtype)


@operation("FullLike")
def full_like(b: Builder, x: Value, fill_value: Any = 0, *, dtype: Any = None) -> Value:
    """A number in the shape of a tensor."""
    return _filled_like(b, x, fill_value, dtype)


def _filled_like(b: Builder, x: Value, number: Any, dtype: Any) -> Value:
    kind = dtype_of(x) if dtype is None else named_dtype(dtype)
    return b(Expand, tensor(b, number, kind), b(Shape, x))


@operation("Shape")
def shape(b: Builder, x: Value, *, out_type: Any = None) -> Value:
    """The shape of a tensor, as int32."""
    return cast(b, b(Shape, x), DType.INT32 if out_type is None else named_dtype(out_type))


@operation("DepthToSpace")
def depth_to_space(b: Builder, x: Value, *, block_size: int = 1, data_format: Any = "channels_last") -> Value:
    """Move channels to blocks of pixels."""
    layout = FIRST if data_format in (FIRST, "NCHW") else None
    return to_data_format(b, b(DepthToSpace, to_channels_first(b, x, layout), blocksize=block_size), layout)


@operation("SpaceToDepth")
def space_to_depth(b: Builder, x: Value, *, block_size: int = 1, data_format: Any = "channels_last") -> Value:
    """Move blocks of pixels to channels."""
    layout = FIRST if data_format in (FIRST, "NCHW") else None
    return to_data_format(b, b(SpaceToDepth, to_channels_first(b, x, layout), blocksize=block_size), layout)


@operation("Resize")
def resize(
    b: Builder,
    images: Value,
    *,
    size: Any = (1, 1),
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: Any = None,
) -> Value:
    """Resize images."""
    del fill_mode, fill_value
    if crop_to_aspect_ratio or pad_to_aspect_ratio or len(b.dims(images)) != 4:
        message = "images of rank 3, or an aspect ratio option"
        raise UnsupportedError(message)
    x = to_channels_first(b, floating(b, images), data_format)
    return to_data_format(b, resized(b, x, list(size), str(interpolation), antialias=antialias), data_format)


@operation("Slice")
def slice_of(b: Builder, inputs: Value, start_indices: Any, *, shape: Any = ()) -> Value:
    """Slice of shape `shape` that starts at `start_indices`."""
    starts = list(start_indices) if is_sequence(start_indices) else integers(start_indices)
    if starts is None:
        message = "a window at a computed index"
        raise UnsupportedError(message)
    stops = [_LARGEST if n == -1 else start + n for start, n in zip(starts, shape, strict=True)]
    return b(Slice, inputs, list(starts), stops)
