"""The same elements in another shape or order."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, ceil_div, decide_equal, product
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact, Unknown
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import axis_index, axis_indices, broadcast, same_dim
from graphport.ops.types import ALL_4, ALL_13, INT64, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_13)]
V = Annotated[Any, Types("V", ALL_13, "any")]
Int64 = Annotated[Tensor, Types("tensor(int64)", INT64)]
Old = Annotated[Tensor, Types("T", ALL_4)]
T1 = Annotated[Tensor, Types("T1", INT64)]


@op(
    shape=lambda input: input,
    since=1,
    outputs=("output",),
    nnef="copy(input)",
    pnnx="nn.Identity(input)",
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
)
def Identity(input: V) -> V:
    """`input` itself.  Shapes: any; sequences and optionals, too.  Source: ONNX Identity-25."""
    return input


def _shape_shape(data: TensorFact, *, start: int = 0, end: int | None = None) -> TensorFact:
    dims = data.dims[_clamped(start, data.rank) : _clamped(data.rank if end is None else end, data.rank)]
    return TensorFact(DType.INT64, (len(dims),)).with_elements(dims)


def _clamped(position: int, rank: int) -> int:
    return min(max(position + rank if position < 0 else position, 0), rank)


@op(shape=_shape_shape, since=1, outputs=("shape",), exactness="exact", role="index")
def Shape(data: T, *, start: int = 0, end: int | None = None) -> T1:
    """The dims of `data` from axis `start` up to `end`, clamped to its rank.  Shapes: data [*s] → [len].

    Source: ONNX Shape-25.
    """
    return np.array(data.shape[start:end], np.int64)


def _size_shape(data: TensorFact) -> TensorFact:
    return TensorFact(DType.INT64, (), (product(data.dims),))


@op(shape=_size_shape, since=1, outputs=("size",), exactness="exact", role="index")
def Size(data: T) -> T1:
    """The number of elements of `data`.  Shapes: data [*s] → [].  Source: ONNX Size-25."""
    return np.array(data.size, np.int64)


def _reshape_shape(data: TensorFact, shape: TensorFact, *, allowzero: int = 0) -> TensorFact:
    return TensorFact(data.dtype, reshaped(data.shape, shape.known, copies_zero=not allowzero))


def reshaped(source: tuple[Dim, ...] | None, target: tuple[Dim, ...], *, copies_zero: bool) -> tuple[Dim, ...]:
    """The shape that `target` asks for: -1 is what remains, 0 (if `copies_zero`) the dim of `source` at its place.

    Raises:
        ShapeError: two -1, a 0 behind the last dim of `source`, or counts that differ.
        Unknown: -1 or a copied 0 where `source` has unknown rank.
    """
    if sum(dim == -1 for dim in target) > 1:
        message = f"the target shape {list(target)} leaves more than one dim open"
        raise ShapeError(message, "only one entry may be -1")
    if any(decide_equal(dim, 0) is False and isinstance(dim, int) and dim < -1 for dim in target):
        message = f"the target shape {list(target)} has a negative dim"
        raise ShapeError(message)
    if source is None:
        if any(dim == -1 or (copies_zero and dim == 0) or isinstance(dim, Symbolic) for dim in target):
            raise Unknown
        return target
    dims = [_copied(source, i, dim) if copies_zero and dim == 0 else dim for i, dim in enumerate(target)]
    if -1 not in dims:
        if decide_equal(product(source), product(dims)) is False:
            message = f"{product(source)} elements do not fill the shape {dims}"
            raise ShapeError(message, "the product of the dims must not change")
        return tuple(dims)
    place = dims.index(-1)
    rest = [dim for i, dim in enumerate(dims) if i != place]
    dims[place] = _remaining(source, rest, target)
    return tuple(dims)


def _copied(source: tuple[Dim, ...], index: int, dim: Dim) -> Dim:
    if index >= len(source):
        message = f"entry {index} of the target shape is {dim}: the operand has no such axis to copy"
        raise ShapeError(message, f"its rank is {len(source)}")
    return source[index]


def _remaining(source: tuple[Dim, ...], rest: list[Dim], target: tuple[Dim, ...]) -> Dim:
    volume, known = product(source), product(rest)
    if isinstance(known, int) and known == 0:
        message = f"-1 in the target shape {list(target)} has no meaning beside a dim that is 0"
        raise ShapeError(message)
    if isinstance(volume, int) and isinstance(known, int) and volume % known:
        message = f"{volume} elements are not a multiple of {known}, which the target shape {list(target)} fixes"
        raise ShapeError(message)
    return volume // known


@op(
    shape=_reshape_shape,
    since=5,
    outputs=("reshaped",),
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("shape",),
)
def Reshape(data: T, shape: Int64, *, allowzero: int = 0) -> T:
    """The elements of `data`, in row-major order, in the shape `shape`.

    An entry -1 stands for what remains; an entry 0 copies the dim of `data` at its place, unless `allowzero`.

    Shapes: data [*s], shape [r] → rank r.

    Raises:
        ShapeError: the counts differ, or more than one -1.

    Source: ONNX Reshape-25.
    """
    target = reshaped(data.shape, tuple(int(dim) for dim in shape.reshape(-1)), copies_zero=not allowzero)
    return data.reshape([int(dim) for dim in target])


def _flatten_shape(input: TensorFact, *, axis: int = 1) -> TensorFact:
    if not -input.rank <= axis <= input.rank:
        message = f"axis {axis} is outside of a tensor of rank {input.rank}"
        raise ShapeError(message)
    split = axis + input.rank if axis < 0 else axis
    return input.with_shape((product(input.dims[:split]), product(input.dims[split:])))


@op(shape=_flatten_shape, since=1, outputs=("output",), moves_data=True, exactness="exact", role="passive")
def Flatten(input: T, *, axis: int = 1) -> T:
    """A matrix: axes before `axis` by axes from it on.  Shapes: input [*s] → [prod s[:axis], prod s[axis:]].

    Source: ONNX Flatten-25.
    """
    split = axis + input.ndim if axis < 0 else axis
    return input.reshape(prod(input.shape[:split]), prod(input.shape[split:]))


def _squeeze_shape(data: TensorFact, axes: TensorFact | None = None) -> TensorFact:
    if axes is None:
        if any(isinstance(dim, Symbolic) and decide_equal(dim, 1) is None for dim in data.dims):
            raise Unknown
        return data.with_shape([dim for dim in data.dims if dim != 1])
    chosen = axis_indices(axes.numbers, data.rank)
    for axis in chosen:
        if decide_equal(data.dims[axis], 1) is False:
            message = f"axis {axis} has {data.dims[axis]} entries, only an axis of 1 can be left out"
            raise ShapeError(message)
    return data.with_shape([dim for axis, dim in enumerate(data.dims) if axis not in chosen])


@op(
    shape=_squeeze_shape,
    since=13,
    outputs=("squeezed",),
    nnef="squeeze(data, axes=const(axes))",
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("axes",),
)
def Squeeze(data: T, axes: Int64 | None = None) -> T:
    """`data` without its `axes`, which have one entry; without `axes`, without all such.

    Shapes: data [*s], axes [k] → rank - k.

    Raises:
        ShapeError: an axis has more than one entry.

    Source: ONNX Squeeze-25.
    """
    return np.squeeze(data) if axes is None else np.squeeze(data, tuple(int(axis) for axis in axes.reshape(-1)))


def _unsqueeze_shape(data: TensorFact, axes: TensorFact) -> TensorFact:
    chosen = axis_indices(axes.numbers, data.rank + len(axes.known))
    dims = list(data.dims)
    for axis in sorted(chosen):
        dims.insert(axis, 1)
    return data.with_shape(dims)


@op(
    shape=_unsqueeze_shape,
    since=13,
    outputs=("expanded",),
    nnef="unsqueeze(data, axes=const(axes))",
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("axes",),
)
def Unsqueeze(data: T, axes: Int64) -> T:
    """`data` with new axes of one entry; `axes` are their places in the result.

    Shapes: data [*s], axes [k] → rank + k.

    Source: ONNX Unsqueeze-25.
    """
    return np.expand_dims(data, tuple(int(axis) for axis in axes.reshape(-1)))


def _transpose_shape(data: TensorFact, *, perm: tuple[int, ...] | None = None) -> TensorFact:
    order = tuple(reversed(range(data.rank))) if perm is None else perm
    if sorted(order) != list(range(data.rank)):
        message = f"perm {order} is no order of {data.rank} axes"
        raise ShapeError(message)
    return data.with_shape([data.dims[axis] for axis in order])


@op(shape=_transpose_shape, since=1, outputs=("transposed",), moves_data=True, exactness="exact", role="passive")
def Transpose(data: T, *, perm: tuple[int, ...] | None = None) -> T:
    """`data` with axis `perm[i]` as axis i; without `perm`, in reverse order.

    Shapes: data [*s] → [s[perm[0]], s[perm[1]], …].

    Source: ONNX Transpose-25.
    """
    return np.transpose(data, perm)


def _concat_shape(*inputs: TensorFact, axis: int) -> TensorFact:
    rank = inputs[0].rank
    place = axis_index(axis, rank)
    dims = list(inputs[0].dims)
    for number, fact in enumerate(inputs[1:], 1):
        if fact.rank != rank:
            message = f"operand {number} has rank {fact.rank}, the first one {rank}"
            raise ShapeError(message)
        for i, dim in enumerate(fact.dims):
            dims[i] = dims[i] + dim if i == place else same_dim(dims[i], dim, f"axis {i} of operand {number}")
    return inputs[0].with_shape(dims)


@op(
    shape=_concat_shape,
    since=4,
    outputs=("concat_result",),
    nnef="concat([*inputs], axis=axis)",
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
)
def Concat(*inputs: Old, axis: int) -> Old:
    """The operands one behind another along `axis`; all other dims agree.  Shapes: [*s] each → [*s], summed at `axis`.

    Source: ONNX Concat-13.
    """
    return np.concatenate(inputs, axis)


def _split_shape(
    input: TensorFact, split: TensorFact | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> list[TensorFact]:
    place = axis_index(axis, input.rank)
    dim = input.dims[place]
    if split is not None:
        lengths = list(split.known)
        if decide_equal(sum(lengths), dim) is False:
            message = f"the parts {lengths} do not fill the {dim} entries of axis {place}"
            raise ShapeError(message)
    elif num_outputs is None:
        message = "neither split nor num_outputs says where to cut"
        raise ShapeError(message, "give one of them")
    else:
        part = ceil_div(dim, num_outputs)
        lengths = [part] * (num_outputs - 1) + [dim - part * (num_outputs - 1)]
    return [input.with_shape([*input.dims[:place], length, *input.dims[place + 1 :]]) for length in lengths]


@op(
    shape=_split_shape,
    since=18,
    outputs=("*outputs",),
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("split",),
)
def Split(input: Old, split: Int64 | None = None, *, axis: int = 0, num_outputs: int | None = None) -> tuple[Old, ...]:
    """`input` cut along `axis`: into parts of the lengths `split`, or into `num_outputs` equal parts, the last shorter.

    Shapes: input [*s], split [k] → k times [*s] with split[i] at `axis`.

    Raises:
        ShapeError: the parts do not fill the axis.

    Source: ONNX Split-18.
    """
    if split is None:
        part = -(-input.shape[axis] // (num_outputs or 1))
        return tuple(
            input.take(range(i * part, min((i + 1) * part, input.shape[axis])), axis) for i in range(num_outputs or 1)
        )
    return tuple(np.split(input, np.cumsum(split)[:-1], axis))


def _expand_shape(input: TensorFact, shape: TensorFact) -> TensorFact:
    if shape.elements is not None:
        return input.with_shape(broadcast(input.dims, shape.known))
    length = shape.dims[0]
    if isinstance(length, Symbolic):
        raise Unknown
    return input.with_shape([OPEN] * max(length, input.rank))


@op(
    shape=_expand_shape,
    since=8,
    outputs=("output",),
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("shape",),
)
def Expand(input: Old, shape: Int64) -> Old:
    """`input` repeated along axes of 1 so that it broadcasts with `shape`; an entry 1 keeps a larger dim.

    Shapes: input [*s], shape [r] → broadcast of both.

    Raises:
        ShapeError: the two do not broadcast.

    Source: ONNX Expand-13.
    """
    target = np.broadcast_shapes(input.shape, tuple(int(dim) for dim in shape))
    return np.broadcast_to(input, target).copy()


def _tile_shape(input: TensorFact, repeats: TensorFact) -> TensorFact:
    if repeats.elements is None:
        return input.with_shape([OPEN] * input.rank)
    if len(repeats.known) != input.rank:
        message = f"{len(repeats.known)} repeats for a tensor of rank {input.rank}"
        raise ShapeError(message, "one for each axis")
    return input.with_shape([dim * times for dim, times in zip(input.dims, repeats.known, strict=True)])


@op(
    shape=_tile_shape,
    since=6,
    outputs=("output",),
    nnef="tile(input, repeats=const(repeats))",
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("repeats",),
)
def Tile(input: Old, repeats: T1) -> Old:
    """`input` laid side by side, `repeats[i]` times along axis i.  Shapes: input [*s], repeats [rank] → [*(s * repeats)].

    Raises:
        ShapeError: not one entry an axis.

    Source: ONNX Tile-13.
    """
    return np.tile(input, [int(times) for times in repeats])


def _blocks(input: TensorFact, blocksize: int) -> tuple[Dim, Dim, Dim, Dim]:
    if input.rank != 4:
        message = f"input has rank {input.rank}, 4 is needed"
        raise ShapeError(message)
    if blocksize < 1:
        message = f"blocksize is {blocksize}"
        raise ShapeError(message, "it is positive")
    n, c, h, w = input.dims
    return n, c, h, w


def _depth_to_space_shape(input: TensorFact, *, blocksize: int, mode: str = "DCR") -> TensorFact:
    if mode not in ("DCR", "CRD"):
        message = f"mode is {mode!r}"
        raise ShapeError(message, "DCR or CRD")
    n, c, h, w = _blocks(input, blocksize)
    if isinstance(c, int) and c % blocksize**2:
        message = f"{c} channels are no multiple of {blocksize} * {blocksize}"
        raise ShapeError(message)
    return input.with_shape([n, c // blocksize**2, h * blocksize, w * blocksize])


@op(shape=_depth_to_space_shape, since=11, outputs=("output",), moves_data=True, exactness="exact", role="passive")
def DepthToSpace(input: Old, *, blocksize: int, mode: str = "DCR") -> Old:
    """Channels spread over blocks of the image: `DCR` takes the block's place from the front of the channels, `CRD` back.

    Shapes: input [N, C, H, W] → [N, C/blocksize², H*blocksize, W*blocksize].

    Raises:
        ShapeError: the channels do not fill the blocks.

    Source: ONNX DepthToSpace-13.
    """
    n, c, h, w = input.shape
    k = blocksize
    if mode == "DCR":
        split = input.reshape(n, k, k, c // k**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        split = input.reshape(n, c // k**2, k, k, h, w).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(n, c // k**2, h * k, w * k)


def _space_to_depth_shape(input: TensorFact, *, blocksize: int) -> TensorFact:
    n, c, h, w = _blocks(input, blocksize)
    if any(isinstance(dim, int) and dim % blocksize for dim in (h, w)):
        message = f"an image of {h} by {w} does not part into blocks of {blocksize}"
        raise ShapeError(message)
    return input.with_shape([n, c * blocksize**2, h // blocksize, w // blocksize])


@op(shape=_space_to_depth_shape, since=1, outputs=("output",), moves_data=True, exactness="exact", role="passive")
def SpaceToDepth(input: Old, *, blocksize: int) -> Old:
    """Blocks of the image gathered into channels.  Shapes: input [N, C, H, W] → [N, C*blocksize², H/blocksize, W/blocksize].

    Raises:
        ShapeError: the image does not part into blocks.

    Source: ONNX SpaceToDepth-13.
    """
    n, c, h, w = input.shape
    k = blocksize
    split = input.reshape(n, c, h // k, k, w // k, k).transpose(0, 3, 5, 1, 2, 4)
    return split.reshape(n, c * k**2, h // k, w // k)
