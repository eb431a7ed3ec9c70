"""Reshape, concatenation and permutation layers of Caffe."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from graphport.core.dims import Dim, decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.caffe.rules.binding import Layer, in_caffe, layer, reshaped_in_caffe
from graphport.formats.caffe.rules.rule_table import RULES, stated_axis
from graphport.ops import pattern
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.reshape import Flatten, Identity, Reshape, Shape, Transpose
from graphport.ops.definitions.reshape.blocks import DepthToSpace, SpaceToDepth
from graphport.ops.definitions.reshape.pieces import Concat, Split, Tile

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


@layer("Split")
def split(at: Layer) -> tuple[Value, ...]:
    """Split: return the bottom as each top."""
    return tuple(at.b(Identity, at.x) for _ in range(at.tops))


@layer("Silence", bottoms=None)
def silence(at: Layer) -> tuple[Value, ...]:
    """Silence: consume bottoms without computing a result."""
    del at
    return ()


@layer("HDF5Output", "hdf5_output_param", bottoms=None)
def hdf5_output(at: Layer, *, file_name: str = "") -> tuple[Value, ...]:
    """Ignore bottoms that Caffe writes to an HDF5 file."""
    del at, file_name
    return ()


@layer("Reshape", "reshape_param")
def reshape(at: Layer, *, shape: Shaped = (), axis: int = 0, num_axes: int = -1) -> Value:
    """Replace the axes from `axis` on; 0 copies a dim, -1 is inferred."""
    dims = at.dims()
    rank = len(dims)
    # A negative axis counts from the end, -1 being after the last axis.
    start = axis if axis >= 0 else rank + axis + 1
    stop = rank if num_axes == -1 else start + num_axes
    if not 0 <= start <= stop <= rank:
        message = f"axes {start} to {stop} of a blob of rank {rank}"
        raise ShapeError(message, f"expected 0 <= start <= stop <= {rank}")
    if shape.count(-1) > 1 or any(extent < -1 for extent in shape):
        message = f"invalid shape {list(shape)}"
        raise ShapeError(message, "use positive dims, 0 to copy a dim, and at most one -1")
    if any(extent == 0 and start + index >= rank for index, extent in enumerate(shape)):
        message = f"the shape {list(shape)} copies a dim that the blob does not have"
        raise ShapeError(message)
    # A copied dim and all before it keep their index, so 0 also copies in ONNX.
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
    """Flatten the axes from `axis` to `end_axis`."""
    dims = at.dims()
    start, end = at.axis(axis), at.axis(end_axis)
    if start > end:
        message = f"axis is {start}, end_axis is {end}"
        raise ShapeError(message, "expected axis <= end_axis")
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
    """Permute axes; unnamed ones follow in order."""
    rank = len(at.dims())
    if len(set(order)) < len(order) or any(axis >= rank for axis in order):
        message = f"order {list(order)} is not a permutation of {rank} axes"
        raise ShapeError(message, "write each axis once")
    return at.b(Transpose, at.x, perm=(*order, *(axis for axis in range(rank) if axis not in order)))


@layer("Concat", "concat_param", bottoms=None)
def concat(at: Layer, *, axis: int | None = None, concat_dim: int | None = None) -> Value:
    """Concatenate, by default channels; `concat_dim` is the older name of `axis`."""
    if not at.bottoms:
        message = "the layer has no bottoms"
        raise ShapeError(message)
    return at.b(Concat, *at.bottoms, axis=at.axis(_axis(axis, concat_dim)))


def _axis(axis: int | None, older: int | None) -> int:
    if axis is not None and older is not None:
        message = "the axis is set twice, by its current and by its deprecated name"
        raise ShapeError(message)
    return older if older is not None else 1 if axis is None else axis


@layer("Slice", "slice_param")
def slices(
    at: Layer, *, axis: int | None = None, slice_dim: int | None = None, slice_point: Shaped = ()
) -> tuple[Value, ...]:
    """Split at the slice points, or into equal parts."""
    place = at.axis(_axis(axis, slice_dim))
    extent, count = at.dims()[place], at.tops
    if not slice_point:
        if isinstance(extent, int) and extent % count:
            message = f"{extent} elements cannot be split into {count} equal parts"
            raise ShapeError(message, "use slice_point")
        return _slice_parts(at, place, [extent // count] * count)
    if len(slice_point) != count - 1:
        message = f"{len(slice_point)} slice_point values for {count} tops"
        raise ShapeError(message, "use one value less than tops")
    points: list[Dim] = [0, *slice_point, extent]
    lengths = [b - a for a, b in pairwise(points)]
    if any(isinstance(n, int) and n <= 0 for n in lengths):
        message = f"slice_point is {list(slice_point)}, the axis has size {extent}"
        raise ShapeError(message, "use increasing values")
    return _slice_parts(at, place, lengths)


def _slice_parts(at: Layer, axis: int, lengths: list[Dim]) -> tuple[Value, ...]:
    if len(lengths) == 1:
        return (at.b(Identity, at.x),)
    whole = [n for n in lengths if isinstance(n, int)]
    if len(whole) == len(lengths):
        return at.b.results(Split, len(lengths), at.x, at.integers(*whole), axis=axis)
    if not whole:
        return at.b.results(Split, len(lengths), at.x, axis=axis, num_outputs=len(lengths))
    message = "slice_point on an axis of unknown size"
    raise UnsupportedError(message)


@layer("Tile", "tile_param")
def tile(at: Layer, *, tiles: int, axis: int = 1) -> Value:
    """Repeat along one axis."""
    place = at.axis(axis)
    if tiles < 1:
        message = f"tiles is {tiles}"
        raise ShapeError(message, "use a positive value")
    return at.b(Tile, at.x, at.integers(*(tiles if i == place else 1 for i in range(len(at.dims())))))


@layer("Reorg", "reorg_param")
def reorg(at: Layer, *, stride: int = 2, reverse: bool = False) -> Value:
    """Darknet's Reorg: space to depth on the reinterpreted tensor; with `reverse`, depth to space."""
    dims = [dim for dim in at.dims() if isinstance(dim, int)]
    if len(dims) != 4 or len(at.dims()) != 4:
        message = f"the feature maps have dims {list(at.dims())}, expected rank 4 and static dims"
        raise UnsupportedError(message)
    n, c, h, w = dims
    if stride < 1 or c % stride**2 or (not reverse and (h % stride or w % stride)):
        message = f"{c} feature maps of {h} by {w} with blocks of {stride} by {stride}"
        raise ShapeError(message, "use dims that are divisible by the block size")
    if reverse:
        return at.b(DepthToSpace, at.x, blocksize=stride, mode="DCR")
    split = at.b(Reshape, at.x, at.integers(n, c // stride**2, h, stride, w, stride))
    moved = at.b(Transpose, split, perm=(0, 3, 5, 1, 2, 4))
    return at.b(Reshape, moved, at.integers(n, c * stride**2, h // stride, w // stride))


@layer("ShuffleChannel", "shuffle_channel_param")
def shuffle_channel(at: Layer, *, group: int = 1) -> Value:
    """Channel shuffle: reshape channels to [group, n], transpose, flatten."""
    dims = at.dims()
    channels = dims[1]
    if not isinstance(channels, int):
        message = "the number of channels is unknown"
        raise UnsupportedError(message)
    if group < 1 or channels % group:
        message = f"{channels} channels cannot be split into {group} equal groups"
        raise ShapeError(message)
    grouped = at.b(Reshape, at.x, at.integers(0, group, channels // group, -1))
    dealt = at.b(Transpose, grouped, perm=(0, 2, 1, 3))
    if all(isinstance(dim, int) for dim in dims[2:]):
        return at.b(Reshape, dealt, at.integers(0, channels, *(dim for dim in dims[2:] if isinstance(dim, int))))
    if len(dims) == 3 and decide_equal(dims[0], 0) is not True:
        return at.b(Reshape, dealt, at.integers(0, channels, -1))
    return at.b(Reshape, dealt, at.b(Shape, at.x))


# Back


RULES.export_rules("""
Identity -> Split(input)
# A flattening from the second axis on; otherwise a blob of two extents.
Flatten
    -> axis == 1 or axis == 1 - rank(input): Flatten(input)
    -> reshaped(input)
Squeeze, Unsqueeze(axes: ignored) -> reshaped(data)
Concat -> Concat(*inputs, axis=stated_axis(axis, *inputs))
""")


@Reshape.export_rule("caffe")
def export_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> tuple[Value, ...] | None:
    """Export Reshape to a static shape with at most one dynamic dim."""
    wanted = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    if wanted is None:
        return None
    if not allowzero and all(isinstance(n, int) for n in wanted):
        return in_caffe(b, "Reshape", data, shape=wanted)
    if 0 in wanted or -1 in wanted:
        return None
    return reshaped_in_caffe(b, data, TensorFact(DType.FLOAT32, wanted))


@Transpose.export_rule("caffe")
def export_transpose(b: Builder, x: Value, *, perm: Shaped | None = None) -> tuple[Value, ...]:
    return in_caffe(b, "Permute", x, order=tuple(reversed(range(len(b.dims(x))))) if perm is None else perm)


@DepthToSpace.export_rule("caffe")
def export_depth_to_space(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> tuple[Value, ...]:
    """Export DepthToSpace as Reshape, Permute, Reshape, because most forks lack Reorg or its `reverse`."""
    n, c, h, w = b.dims(input, 4)
    blocks, maps = (blocksize, blocksize), c // blocksize**2
    split = (n, *blocks, maps, h, w) if mode == "DCR" else (n, maps, *blocks, h, w)
    perm = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return _moved(b, input, split, perm)


@SpaceToDepth.export_rule("caffe")
def export_space_to_depth(b: Builder, input: Value, *, blocksize: int) -> tuple[Value, ...]:
    n, c, h, w = b.dims(input, 4)
    split = (n, c, h // blocksize, blocksize, w // blocksize, blocksize)
    return _moved(b, input, split, (0, 3, 5, 1, 2, 4))


def _moved(b: Builder, x: Value, dims: tuple[Dim, ...], perm: Shaped) -> tuple[Value, ...]:
    """Reshape `x` to `dims`, permute the axes by `perm`, and reshape to the result's shape."""
    (split,) = reshaped_in_caffe(b, x, TensorFact(DType.FLOAT32, dims))
    fact = TensorFact(DType.FLOAT32, tuple(dims[axis] for axis in perm))
    (moved,) = in_caffe(b, "Permute", split, facts=[fact], order=perm)
    return reshaped_in_caffe(b, moved)


@Split.export_rule("caffe")
def export_split(
    b: Builder, x: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...] | None:
    """Export Split to parts of static lengths."""
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
    """Slice `x` to consecutive parts of `lengths` along `axis`."""
    dims = b.dims(x)
    if len(lengths) == 1:
        return in_caffe(b, "Split", x)
    points = tuple(accumulate(lengths[:-1]))
    facts = [TensorFact(DType.FLOAT32, (*dims[:axis], n, *dims[axis + 1 :])) for n in lengths]
    return in_caffe(b, "Slice", x, facts=facts, axis=stated_axis(b, axis, x), slice_point=points)


@Tile.export_rule("caffe")
def export_tile(b: Builder, x: Value, repeats: Value) -> tuple[Value, ...] | None:
    """Export Tile, one layer per axis."""
    numbers = pattern.constant_numbers(repeats)
    if numbers is None or min(numbers, default=0) < 1:
        return None
    dims = b.dims(x)
    y = (x,)
    for axis, count in enumerate(numbers):
        if count != 1:
            dims = (*dims[:axis], dims[axis] * count, *dims[axis + 1 :])
            y = in_caffe(b, "Tile", y[0], facts=[TensorFact(DType.FLOAT32, dims)], axis=axis, tiles=count)
    return y if y[0] is not x else in_caffe(b, "Split", x)
