"""Layers of Caffe that move entries and compute nothing."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from graphport.core.dims import Dim, decide_equal, product
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import pattern
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.dialects.caffe.binding import Layer, in_caffe, layer, reshaped_in_caffe
from graphport.ops.dialects.caffe.rows import ROWS
from graphport.ops.pages.reshape import Flatten, Identity, Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.pages.reshape.blocks import DepthToSpace, SpaceToDepth
from graphport.ops.pages.reshape.pieces import Concat, Split, Tile

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


@layer("Split")
def split(at: Layer) -> tuple[Value, ...]:
    """The same blob under several names."""
    return tuple(at.b(Identity, at.x) for _ in range(at.tops))


@layer("Silence", bottoms=None)
def silence(at: Layer) -> tuple[Value, ...]:
    """Bottoms that nobody else reads."""
    del at
    return ()


@layer("HDF5Output", "hdf5_output_param", bottoms=None)
def hdf5_output(at: Layer, *, file_name: str = "") -> tuple[Value, ...]:
    """Bottoms that Caffe writes to a file of its own."""
    del at, file_name
    return ()


@layer("Reshape", "reshape_param")
def reshape(at: Layer, *, shape: Shaped = (), axis: int = 0, num_axes: int = -1) -> Value:
    """The axes from `axis` on replaced; 0 keeps an extent, -1 follows from the others."""
    dims = at.dims()
    rank = len(dims)
    # Counted from the end, -1 stands behind the last axis.
    start = axis if axis >= 0 else rank + axis + 1
    stop = rank if num_axes == -1 else start + num_axes
    if not 0 <= start <= stop <= rank:
        message = f"axes {start} to {stop} of a blob with {rank}"
        raise ShapeError(message)
    if shape.count(-1) > 1 or any(extent < -1 for extent in shape):
        message = f"the shape {list(shape)}"
        raise ShapeError(message, "extents, 0 to keep one, and at most one -1")
    if any(extent == 0 and start + index >= rank for index, extent in enumerate(shape)):
        message = f"the shape {list(shape)} keeps an extent that the blob does not have"
        raise ShapeError(message)
    # A kept extent and those in front of it are where they were: 0 says them in ONNX, too.
    wanted: list[Dim] = [*[0] * start, *shape, *dims[stop:]]
    whole = [extent for extent in wanted if isinstance(extent, int)]
    if len(whole) == len(wanted):
        return at.b(Reshape, at.x, at.integers(*whole))
    if stop == rank - 1 and -1 not in shape:
        return at.b(Reshape, at.x, at.integers(*[0] * start, *shape, -1))
    tail = at.b(Shape, at.x, start=stop)
    return at.b(Reshape, at.x, at.b(Concat, at.integers(*[0] * start, *shape), tail, axis=0))


@layer("Flatten", "flatten_param")
def flatten(at: Layer, *, axis: int = 1, end_axis: int = -1) -> Value:
    """The axes from `axis` to `end_axis` as one."""
    dims = at.dims()
    start, end = at.axis(axis), at.axis(end_axis)
    if start > end:
        message = f"axes {start} to {end}"
        raise ShapeError(message)
    if start == 1 and end == len(dims) - 1:
        return at.b(Flatten, at.x)
    behind = dims[end + 1 :]
    whole = [dim for dim in behind if isinstance(dim, int)]
    front = at.integers(*[0] * start, -1)
    if len(whole) == len(behind):
        return at.b(Reshape, at.x, at.integers(*[0] * start, -1, *whole))
    return at.b(Reshape, at.x, at.b(Concat, front, at.b(Shape, at.x, start=end + 1), axis=0))


@layer("Permute", "permute_param")
def permute(at: Layer, *, order: Shaped = ()) -> Value:
    """Axes in another order; those that are not named stay behind in theirs."""
    rank = len(at.dims())
    if len(set(order)) < len(order) or any(axis >= rank for axis in order):
        message = f"the order {list(order)} of {rank} axes"
        raise ShapeError(message, "each axis once")
    return at.b(Transpose, at.x, perm=(*order, *(axis for axis in range(rank) if axis not in order)))


@layer("Concat", "concat_param", bottoms=None)
def concat(at: Layer, *, axis: int | None = None, concat_dim: int | None = None) -> Value:
    """One behind the other, by default channels; `concat_dim` is the older name of `axis`."""
    if not at.bottoms:
        message = "there are no bottoms"
        raise ShapeError(message)
    return at.b(Concat, *at.bottoms, axis=at.axis(_axis(axis, concat_dim)))


def _axis(axis: int | None, older: int | None) -> int:
    if axis is not None and older is not None:
        message = "the axis is said twice, by its older name, too"
        raise ShapeError(message)
    return older if older is not None else 1 if axis is None else axis


@layer("Slice", "slice_param")
def slices(
    at: Layer, *, axis: int | None = None, slice_dim: int | None = None, slice_point: Shaped = ()
) -> tuple[Value, ...]:
    """Pieces between the points, or equal ones."""
    place = at.axis(_axis(axis, slice_dim))
    extent, count = at.dims()[place], at.tops
    if not slice_point:
        if isinstance(extent, int) and extent % count:
            message = f"{extent} entries are not {count} equal pieces"
            raise ShapeError(message, "say slice_point")
        return _pieces(at, place, [extent // count] * count)
    if len(slice_point) != count - 1:
        message = f"{len(slice_point)} points for {count} tops"
        raise ShapeError(message, "one less")
    points: list[Dim] = [0, *slice_point, extent]
    lengths = [b - a for a, b in pairwise(points)]
    if any(isinstance(n, int) and n <= 0 for n in lengths):
        message = f"the points {list(slice_point)} of {extent} entries"
        raise ShapeError(message, "each larger than the one before")
    return _pieces(at, place, lengths)


def _pieces(at: Layer, axis: int, lengths: list[Dim]) -> tuple[Value, ...]:
    if len(lengths) == 1:
        return (at.b(Identity, at.x),)
    whole = [n for n in lengths if isinstance(n, int)]
    if len(whole) == len(lengths):
        return at.b.results(Split, len(lengths), at.x, at.integers(*whole), axis=axis)
    if not whole:
        return at.b.results(Split, len(lengths), at.x, axis=axis, num_outputs=len(lengths))
    message = "points on an axis whose extent is not known"
    raise UnsupportedError(message)


@layer("Tile", "tile_param")
def tile(at: Layer, *, tiles: int, axis: int = 1) -> Value:
    """Repeated along one axis."""
    place = at.axis(axis)
    if tiles < 1:
        message = f"tiles is {tiles}"
        raise ShapeError(message, "a positive number")
    return at.b(Tile, at.x, at.integers(*(tiles if i == place else 1 for i in range(len(at.dims())))))


@layer("Reorg", "reorg_param")
def reorg(at: Layer, *, stride: int = 2, reverse: bool = False) -> Value:
    """Darknet's rearrangement: the maps are read as a space that blocks are gathered from; in reverse, as blocks."""
    dims = [dim for dim in at.dims() if isinstance(dim, int)]
    if len(dims) != 4 or len(at.dims()) != 4:
        message = f"the extents {list(at.dims())} of maps"
        raise UnsupportedError(message)
    n, c, h, w = dims
    if stride < 1 or c % stride**2 or (not reverse and (h % stride or w % stride)):
        message = f"{c} maps of {h} by {w} and blocks of {stride} by {stride}"
        raise ShapeError(message, "whole blocks, and as many maps for each of their places")
    if reverse:
        return at.b(DepthToSpace, at.x, blocksize=stride, mode="DCR")
    apart = at.b(Reshape, at.x, at.integers(n, c // stride**2, h, stride, w, stride))
    moved = at.b(Transpose, apart, perm=(0, 3, 5, 1, 2, 4))
    return at.b(Reshape, moved, at.integers(n, c * stride**2, h // stride, w // stride))


@layer("ShuffleChannel", "shuffle_channel_param")
def shuffle_channel(at: Layer, *, group: int = 1) -> Value:
    """Channels dealt out to groups and collected across them."""
    dims = at.dims()
    channels = dims[1]
    if not isinstance(channels, int):
        message = "the number of channels is not known"
        raise UnsupportedError(message)
    if group < 1 or channels % group:
        message = f"{channels} channels are not {group} equal groups"
        raise ShapeError(message)
    grouped = at.b(Reshape, at.x, at.integers(0, group, channels // group, -1))
    dealt = at.b(Transpose, grouped, perm=(0, 2, 1, 3))
    if all(isinstance(dim, int) for dim in dims[2:]):
        return at.b(Reshape, dealt, at.integers(0, channels, *(dim for dim in dims[2:] if isinstance(dim, int))))
    if len(dims) == 3 and decide_equal(dims[0], 0) is not True:
        return at.b(Reshape, dealt, at.integers(0, channels, -1))
    return at.b(Reshape, dealt, at.b(Shape, at.x))


# Back


ROWS.lift("Identity -> Split(input)")


@Flatten.lift("caffe")
def lift_flatten(b: Builder, x: Value, *, axis: int = 1) -> tuple[Value, ...]:
    """A flattening from the second axis on; otherwise a blob of two extents."""
    dims = b.dims(x)
    place = axis + len(dims) if axis < 0 else axis
    fact = TensorFact(DType.FLOAT32, (product(dims[:place]), product(dims[place:])))
    return in_caffe(b, "Flatten", [fact], x) if place == 1 else reshaped_in_caffe(b, x, fact)


@Reshape.lift("caffe")
def lift_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> tuple[Value, ...] | None:
    """A shape that is known, but for one extent."""
    wanted = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    if wanted is None:
        return None
    if not allowzero and all(isinstance(n, int) for n in wanted):
        stated = tuple(n for n in wanted if isinstance(n, int))
        fact = _reshaped_fact(b.dims(data), stated)
        return in_caffe(b, "Reshape", [fact], data, shape=stated)
    if 0 in wanted or -1 in wanted:
        return None
    return reshaped_in_caffe(b, data, TensorFact(DType.FLOAT32, wanted))


def _reshaped_fact(dims: tuple[Dim, ...], wanted: Shaped) -> TensorFact:
    kept = [dims[i] if n == 0 and i < len(dims) else n for i, n in enumerate(wanted)]
    if -1 not in wanted:
        return TensorFact(DType.FLOAT32, tuple(kept))
    place = wanted.index(-1)
    others = product(n for i, n in enumerate(kept) if i != place)
    kept[place] = product(dims) // others if others != 0 else 0
    return TensorFact(DType.FLOAT32, tuple(kept))


@Squeeze.lift("caffe")
def lift_squeeze(b: Builder, x: Value, axes: Value | None = None) -> tuple[Value, ...] | None:
    dims = b.dims(x)
    if axes is None:
        dropped = {axis for axis, n in enumerate(dims) if n == 1}
    else:
        numbers = pattern.constant_numbers(axes)
        if numbers is None:
            return None
        dropped = {axis % len(dims) for axis in numbers}
    return reshaped_in_caffe(b, x, TensorFact(DType.FLOAT32, _without(dims, dropped)))


def _without(dims: tuple[Dim, ...], dropped: set[int]) -> tuple[Dim, ...]:
    return tuple(n for axis, n in enumerate(dims) if axis not in dropped)


@Unsqueeze.lift("caffe")
def lift_unsqueeze(b: Builder, x: Value, axes: Value) -> tuple[Value, ...] | None:
    numbers = pattern.constant_numbers(axes)
    if numbers is None:
        return None
    rank = len(b.dims(x)) + len(numbers)
    places = {axis % rank for axis in numbers}
    rest = iter(b.dims(x))
    shape = tuple(1 if axis in places else next(rest) for axis in range(rank))
    return reshaped_in_caffe(b, x, TensorFact(DType.FLOAT32, shape))


@Transpose.lift("caffe")
def lift_transpose(b: Builder, x: Value, *, perm: Shaped | None = None) -> tuple[Value, ...]:
    dims = b.dims(x)
    order = tuple(reversed(range(len(dims)))) if perm is None else perm
    fact = TensorFact(DType.FLOAT32, tuple(dims[axis] for axis in order))
    return in_caffe(b, "Permute", [fact], x, order=order)


@DepthToSpace.lift("caffe")
def lift_depth_to_space(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> tuple[Value, ...]:
    """Three moves: forks have no Reorg, or one that knows no `reverse`."""
    n, c, h, w = b.dims(input)
    places, maps = (blocksize, blocksize), c // blocksize**2
    apart = (n, *places, maps, h, w) if mode == "DCR" else (n, maps, *places, h, w)
    perm = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return _moved(b, input, apart, perm, (n, maps, h * blocksize, w * blocksize))


@SpaceToDepth.lift("caffe")
def lift_space_to_depth(b: Builder, input: Value, *, blocksize: int) -> tuple[Value, ...]:
    n, c, h, w = b.dims(input)
    rows, columns = h // blocksize, w // blocksize
    apart = (n, c, rows, blocksize, columns, blocksize)
    return _moved(b, input, apart, (0, 3, 5, 1, 2, 4), (n, c * blocksize**2, rows, columns))


def _moved(b: Builder, x: Value, dims: tuple[Dim, ...], perm: Shaped, wanted: tuple[Dim, ...]) -> tuple[Value, ...]:
    """`x` with the extents `dims`, its axes in the order `perm`, in the shape that is wanted."""
    (split,) = reshaped_in_caffe(b, x, TensorFact(DType.FLOAT32, dims))
    fact = TensorFact(DType.FLOAT32, tuple(dims[axis] for axis in perm))
    (moved,) = in_caffe(b, "Permute", [fact], split, order=perm)
    return reshaped_in_caffe(b, moved, TensorFact(DType.FLOAT32, wanted))


@Concat.lift("caffe")
def lift_concat(b: Builder, *inputs: Value, axis: int) -> tuple[Value, ...]:
    dims = [b.dims(value) for value in inputs]
    place = axis % len(dims[0])
    total = sum((each[place] for each in dims[1:]), dims[0][place])
    fact = TensorFact(DType.FLOAT32, (*dims[0][:place], total, *dims[0][place + 1 :]))
    return in_caffe(b, "Concat", [fact], *inputs, axis=place if place != 1 else None)


@Split.lift("caffe")
def lift_split(
    b: Builder, x: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...] | None:
    """Pieces whose lengths are known."""
    dims = b.dims(x)
    place = axis % len(dims)
    lengths = None if split is None else pattern.constant_numbers(split)
    extent = dims[place]
    if split is None and isinstance(extent, int):
        count = num_outputs or b.count
        step = -(-extent // count)
        lengths = tuple(min(step, extent - step * index) for index in range(count))
    return None if lengths is None or min(lengths) < 1 else sliced(b, x, place, lengths)


def sliced(b: Builder, x: Value, axis: int, lengths: Shaped) -> tuple[Value, ...]:
    """Pieces of `x` of these lengths."""
    dims = b.dims(x)
    if len(lengths) == 1:
        return in_caffe(b, "Split", [x.fact], x)
    points = tuple(accumulate(lengths[:-1]))
    facts = [TensorFact(DType.FLOAT32, (*dims[:axis], n, *dims[axis + 1 :])) for n in lengths]
    return in_caffe(b, "Slice", facts, x, axis=axis if axis != 1 else None, slice_point=points)


@Tile.lift("caffe")
def lift_tile(b: Builder, x: Value, repeats: Value) -> tuple[Value, ...] | None:
    """An axis after the other."""
    numbers = pattern.constant_numbers(repeats)
    if numbers is None or min(numbers, default=0) < 1:
        return None
    dims = b.dims(x)
    y = (x,)
    for axis, count in enumerate(numbers):
        if count != 1:
            dims = (*dims[:axis], dims[axis] * count, *dims[axis + 1 :])
            y = in_caffe(b, "Tile", [TensorFact(DType.FLOAT32, dims)], y[0], axis=axis, tiles=count)
    return y if y[0] is not x else in_caffe(b, "Split", [x.fact], x)
