"""Import rules of reshaping, slicing and joining of TFLite."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.binding import (
    Operator,
    has_equal_qparams,
    import_rule,
    nearest,
    to_channels_first,
    to_channels_last,
)
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.comparison import Equal, Less, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Identity, Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.definitions.reshape.blocks import DepthToSpace, SpaceToDepth
from graphport.ops.definitions.reshape.pieces import Concat, Split
from graphport.ops.lowering.operands import (
    as_int64,
    as_vector,
    cast,
    dtype_of,
    integers,
    needed,
    needed_integer,
    reshaped,
    scalar,
    sizes,
    transposed,
    vector,
)
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

_SLICE_END = (1 << 63) - 1
_SLICE_BEGIN = -_SLICE_END
_TILED = frozenset((DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL, DType.UINT8, DType.INT8, DType.STRING))


@import_rule("RESHAPE", moves=True)
def reshape(op: Operator) -> Value:
    """RESHAPE: the shape is operand 1, else the option."""
    b, x = op.b, op[0]
    if op.has(1):
        new_shape = integers(op.raw(1))
        if new_shape is None:
            shape = as_vector(b, op.raw(1))
            fact = shape.fact
            elements = fact.elements if isinstance(fact, TensorFact) else None
            is_plain = elements is not None and not any(isinstance(n, int) and n == 0 for n in elements)
            return b(Reshape, x, shape, allowzero=None if is_plain else 1)
    else:
        new_shape = tuple(op.option("new_shape", ()))
    if 0 in new_shape and -1 not in new_shape:
        return b(Reshape, x, new_shape, allowzero=1)
    return b(Reshape, x, new_shape)


RULES.having(places=lambda b, axes: vector(b, needed(axes, "the axis"))).lower(
    """
EXPAND_DIMS(x, axis) -> Unsqueeze(x, places(axis))
BROADCAST_TO(x, shape) -> Expand(x, vector(shape))
# Without these axes of extent 1, or without all of them.
SQUEEZE(x, *, squeeze_dims=())
    -> squeeze_dims: Squeeze(x, squeeze_dims)
    -> Squeeze(x)
""",
    moves=True,
)


@import_rule("TRANSPOSE", moves=True)
def transpose(op: Operator) -> Value:
    """TRANSPOSE."""
    order = integers(op.raw(1))
    return _transposed_at_run_time(op) if order is None else op.b(Transpose, op[0], perm=order)


def _transposed_at_run_time(op: Operator) -> Value:
    """Transpose by a dynamic permutation: gather elements by computed indices."""
    b, x = op.b, op[0]
    dims, order = sizes(b.dims(x), "the tensor of a transposition with computed permutation"), as_int64(b, op.raw(1))
    reserve(*dims)
    lengths = b(Gather, vector(b, dims), order, axis=0)
    strides = b(Gather, [prod(dims[axis + 1 :]) for axis in range(len(dims))], order, axis=0)
    zero, one = scalar(b, 0, DType.INT64), scalar(b, 1, DType.INT64)
    indices: Value = zero
    for axis in range(len(dims)):
        length, stride = (b(Gather, each, axis, axis=0) for each in (lengths, strides))
        along = b(Mul, b(Range, zero, length, one), stride)
        indices = b(Add, indices, reshaped(b, along, (-1, *[1] * (len(dims) - axis - 1))))
    return b(Gather, reshaped(b, x, (-1,)), indices, axis=0)


@import_rule("CONCATENATION", moves=(), layout="axis")
def concatenation(op: Operator) -> Value:
    """CONCATENATION; int16 kernels ignore scales."""
    op.is_raw = dtype_of(op.raw(0)) is DType.INT16 or has_equal_qparams(op, range(op.count))
    return op.b(Concat, *op.all(), axis=int(op.option("axis")))


@import_rule("PACK", moves=())
def pack(op: Operator) -> Value:
    """PACK: stack operands along a new axis."""
    axis = int(op.option("axis"))
    return op.b(Concat, *[op.b(Unsqueeze, x, [axis]) for x in op.all()], axis=axis)


@import_rule("UNPACK", moves=True)
def unpack(op: Operator) -> list[Value]:
    """UNPACK: the slices along an axis, without that axis."""
    b, axis, x = op.b, int(op.option("axis")), op[0]
    count = int(op.option("num")) or b.count
    n = b.dims(x)[axis] if -len(b.dims(x)) <= axis < len(b.dims(x)) else None
    if n is None or (isinstance(n, int) and n != count):
        message = f"{count} parts along axis {axis} of {list(map(str, b.dims(x)))}"
        raise ShapeError(message)
    if not count:
        return []
    parts = b.results(Split, count, x, axis=axis, num_outputs=count) if count > 1 else (x,)
    return [b(Squeeze, part, [axis]) for part in parts]


@import_rule("SPLIT", moves=(1,), layout="parts by 0")
def split(op: Operator) -> tuple[Value, ...]:
    """SPLIT into equal sizes along an axis. Operands: axis, x."""
    axis = needed_integer(op.raw(0), "the axis")
    count = int(op.option("num_splits")) or op.b.count
    if count < 1:
        message = f"num_splits is {count}, expected 1 or more"
        raise ShapeError(message)
    x = op[1]
    if -len(op.b.dims(x)) <= axis < len(op.b.dims(x)):
        n = op.b.dims(x)[axis]
        if isinstance(n, int) and n % count:
            message = f"size {n} of axis {axis} cannot be split into {count} equal parts"
            raise ShapeError(message)
    return op.b.results(Split, count, x, axis=axis, num_outputs=count)


@import_rule("SPLIT_V", moves=True, layout="parts by 2")
def split_v(op: Operator) -> tuple[Value, ...]:
    """SPLIT_V by sizes along an axis; one size may be -1 (the remainder)."""
    axis = needed_integer(op.raw(2), "the axis")
    lengths, x = list(needed(op.raw(1), "the sizes")), op[0]
    if lengths.count(-1) == 1:
        dims = op.b.dims(x)
        (n,) = sizes([dims[axis_index(axis, len(dims))]], "the split size")
        lengths[lengths.index(-1)] = n - sum(lengths) - 1
    return op.b.results(Split, len(lengths), x, vector(op.b, lengths), axis=axis)


RULES.having(tiled=lambda b, x: cast(b, x, nearest(dtype_of(x), _TILED))).lower(
    "TILE(x, repeats) -> cast(Tile(tiled(x), int64(repeats)), dtype(x))", moves=True, layout="rows"
)


@import_rule("REVERSE_V2", moves=True)
def reverse_v2(op: Operator) -> Value:
    """REVERSE_V2: reverse along axes."""
    b, axes = op.b, needed(op.raw(1), "the axes")
    columns = [[-1] * len(axes), [_SLICE_BEGIN] * len(axes), axes, [-1] * len(axes)]
    return b(Slice, op[0], *[vector(b, column) for column in columns])


@import_rule("SLICE", moves=True, layout="rows")
def slice_(op: Operator) -> Value:
    """SLICE by begin and size; size -1 extends to the end."""
    b, rank = op.b, len(op.dims(0))
    begins, lengths = integers(op.raw(1)), integers(op.raw(2))
    if begins is not None and lengths is not None:
        if len(begins) != rank or len(lengths) != rank:
            message = f"begin {list(begins)} and size {list(lengths)} for an operand of rank {rank}"
            raise ShapeError(message, "expected one element per axis")
        for begin, size, n in zip(begins, lengths, op.dims(0), strict=True):
            if isinstance(n, int) and (begin < 0 or begin > n or (size >= 0 and begin + size > n) or size < -1):
                message = f"{size} elements from index {begin} exceed the size {n}"
                raise ShapeError(message)
        ends = [_SLICE_END if size < 0 else begin + size for begin, size in zip(begins, lengths, strict=True)]
        return _sliced(b, op[0], begins, ends, [1] * rank)
    begin, size = as_vector(b, op.raw(1)), as_vector(b, op.raw(2))
    end = b(Add, begin, size)
    if lengths is None or min(lengths, default=0) < 0:
        end = b(Where, b(Less, size, [0]), [_SLICE_END], end)
    return b(Slice, op[0], begin, end, range(rank))


def _sliced(b: Builder, x: Value, begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> Value:
    rows = [
        (axis, begin, end, step)
        for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True))
        if (begin, end, step) != (0, _SLICE_END, 1)
    ]
    if not rows:
        rows = [(0, 0, _SLICE_END, 1)]
    if not b.dims(x):
        return reshaped(b, x, ())
    axes, starts, stops, strides = zip(*rows, strict=True)
    return b(Slice, x, starts, stops, axes, strides)


@import_rule("STRIDED_SLICE", moves=True, layout="strides")
def strided_slice(op: Operator) -> Value:
    """STRIDED_SLICE; bit masks mark full ranges, new axes and dropped axes."""
    b, x, rank = op.b, op[0], len(op.dims(0))
    steps = needed(op.raw(3), "the strides")
    begin, end = as_vector(b, op.raw(1)), as_vector(b, op.raw(2))
    if op.option("offset", default=False):
        end = b(Add, begin, end)
    masks = {name: int(op.option(f"{name}_mask")) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    rows, added = _placed(len(steps), rank, masks)
    if any(steps[entry] == 0 for _, entry in rows):
        message = "a step is 0"
        raise ShapeError(message)
    if rows:
        bounds = integers(begin), integers(end)
        if any(known is not None and len(known) != len(steps) for known in bounds):
            message = "begin, end and strides have different lengths"
            raise ShapeError(message)
        if bounds[0] is not None and bounds[1] is not None:
            x = _cut(b, x, rows, (bounds[0], bounds[1], steps), masks)
        else:
            x = _cut_by(b, x, rows, (begin, end), steps, masks)
    shrunk = [axis for axis, entry in rows if masks["shrink_axis"] >> entry & 1]
    if shrunk:
        x = b(Squeeze, x, shrunk)
    return b(Unsqueeze, x, added) if added else x if rows else b(Identity, x)


def _placed(count: int, rank: int, masks: dict[str, int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the axis that each slice element applies to, and the result's new axes.

    Raises:
        ShapeError: more slice elements than axes.
    """
    own = sum(not (masks["new_axis"] | masks["ellipsis"]) >> entry & 1 for entry in range(count))
    if own > rank:
        message = f"slice bounds have {own} elements, the operand has rank {rank}"
        raise ShapeError(message, "expected at most one element per axis")
    rows: list[tuple[int, int]] = []
    added: list[int] = []
    axis = place = 0
    left = rank - own
    for entry in range(count):
        if masks["ellipsis"] >> entry & 1:
            # A second ellipsis has no effect.
            axis, place, left = axis + left, place + left, 0
        elif masks["new_axis"] >> entry & 1:
            added.append(place)
            place += 1
        else:
            rows.append((axis, entry))
            axis += 1
            place += not masks["shrink_axis"] >> entry & 1
    return rows, added


def _cut(
    b: Builder,
    x: Value,
    rows: Sequence[tuple[int, int]],
    bounds: tuple[Sequence[int], Sequence[int], Sequence[int]],
    masks: dict[str, int],
) -> Value:
    begins, ends, steps = ([0] * len(b.dims(x)), [_SLICE_END] * len(b.dims(x)), [1] * len(b.dims(x)))
    for axis, entry in rows:
        begin, end, step = (numbers[entry] for numbers in bounds)
        if masks["shrink_axis"] >> entry & 1:
            begin = 0 if masks["begin"] >> entry & 1 else begin
            _check_inside(begin, b.dims(x)[axis])
            begins[axis], ends[axis] = begin, _SLICE_END if begin == -1 else begin + 1
            continue
        begins[axis] = (0 if step > 0 else _SLICE_END) if masks["begin"] >> entry & 1 else begin
        ends[axis] = (_SLICE_END if step > 0 else _SLICE_BEGIN) if masks["end"] >> entry & 1 else end
        steps[axis] = step
    return _sliced(b, x, begins, ends, steps)


def _check_inside(begin: int, n: object) -> None:
    if isinstance(n, int) and not -n <= begin < n:
        message = f"index {begin} is outside of size {n}"
        raise ShapeError(message)


def _cut_by(
    b: Builder,
    x: Value,
    rows: Sequence[tuple[int, int]],
    ends_of: tuple[Value, Value],
    steps: Sequence[int],
    masks: dict[str, int],
) -> Value:
    """Emit Slice with run-time bounds; `masks` are the bit masks of STRIDED_SLICE."""
    begin, end = ends_of
    starts: list[Value] = []
    stops: list[Value] = []
    for _, entry in rows:
        start, stop = (b(Slice, each, [entry], [entry + 1]) for each in (begin, end))
        step = steps[entry]
        if masks["shrink_axis"] >> entry & 1:
            stop = b(Add, start, [1])
            stop = b(Where, b(Equal, start, [-1]), [_SLICE_END], stop)
        else:
            if masks["begin"] >> entry & 1:
                start = vector(b, [0 if step > 0 else _SLICE_END])
            if masks["end"] >> entry & 1:
                stop = vector(b, [_SLICE_END if step > 0 else _SLICE_BEGIN])
        starts.append(start)
        stops.append(stop)
    by = [1 if masks["shrink_axis"] >> entry & 1 else steps[entry] for _, entry in rows]
    together = [each[0] if len(each) == 1 else b(Concat, *each, axis=0) for each in (starts, stops)]
    return b(Slice, x, *together, vector(b, [axis for axis, _ in rows]), vector(b, by))


@import_rule("SHAPE", is_raw=True)
def shape(op: Operator) -> Value:
    """SHAPE."""
    return cast(op.b, op.b(Shape, op.raw(0)), op.types[0] or DType.INT32)


@import_rule("RANK", is_raw=True)
def rank(op: Operator) -> Value:
    """RANK."""
    return op.b.constant(np.int32(len(op.dims(0))))


@import_rule("BROADCAST_ARGS", is_raw=True)
def broadcast_args(op: Operator) -> Value:
    """BROADCAST_ARGS: the broadcast of two shapes."""
    b = op.b
    shapes = [as_vector(b, op.raw(index)) for index in (0, 1)]
    lengths = [sizes(b.dims(each, 1), "the rank")[0] for each in shapes]
    most = max(lengths)
    one, two = (
        b(Concat, vector(b, [1] * (most - n)), each, axis=0) if n < most else each
        for each, n in zip(shapes, lengths, strict=True)
    )
    return cast(b, b(Where, b(Equal, one, [1]), two, one), dtype_of(op.raw(0)))


# Blocks


@import_rule("SPACE_TO_DEPTH", moves=True)
def space_to_depth(op: Operator) -> Value:
    """SPACE_TO_DEPTH."""
    (size,) = op.positive("block_size")
    return _in_float32(op, SpaceToDepth, size, None)


@import_rule("DEPTH_TO_SPACE", moves=True)
def depth_to_space(op: Operator) -> Value:
    """DEPTH_TO_SPACE with the channel as the innermost index of a block."""
    (size,) = op.positive("block_size")
    return _in_float32(op, DepthToSpace, size, "DCR")


def _in_float32(op: Operator, op_def: OpDef, size: int, mode: str | None) -> Value:
    b, x = op.b, to_channels_first(op.b, op[0])
    wide = cast(b, x, DType.FLOAT32)
    return to_channels_last(b, cast(b, b(op_def, wide, blocksize=size, mode=mode), dtype_of(x)))


def _check_blocks(op: Operator, blocks: Sequence[int], edges: Sequence[int]) -> None:
    """Check the block sizes [n] and the edges [n, 2] of spatial axes.

    Raises:
        ShapeError: a block is below 1, the edges are not two for each block, or there are more blocks than axes.
    """
    if min(blocks, default=1) < 1 or len(edges) != 2 * len(blocks) or len(blocks) >= len(op.dims(0)):
        message = f"blocks {list(blocks)} with edges {list(edges)} for a tensor of rank {len(op.dims(0))}"
        raise ShapeError(message, "expected a positive block and two edges for each spatial axis")


@import_rule("SPACE_TO_BATCH_ND", moves=True)
def space_to_batch_nd(op: Operator) -> Value:
    """SPACE_TO_BATCH_ND."""
    b, x = op.b, op[0]
    blocks, pads = needed(op.raw(1), "the blocks"), needed(op.raw(2), "the padding")
    _check_blocks(op, blocks, pads)
    count, rank_ = len(blocks), len(op.dims(0))
    if any(pads):
        quantization = op.quantization(0)
        wide = DType.INT32 if dtype_of(x) is DType.INT16 else dtype_of(x)
        zero = (
            scalar(b, quantization[3][0], wide)
            if op.is_raw and quantization is not None and quantization[3][0]
            else None
        )
        behind = [0] * (rank_ - count - 1)
        around = vector(b, [0, *pads[::2], *behind, 0, *pads[1::2], *behind])
        x = cast(b, b(Pad, cast(b, x, wide), around, zero), dtype_of(x))
    batch, *extents = b.dims(x, at_least=1)
    space = sizes(extents[:count], "the image")
    rest = sizes(extents[count:], "the channels")
    if any(n % block for n, block in zip(space, blocks, strict=True)):
        message = f"{list(space)} is not divisible by blocks {list(blocks)}"
        raise ShapeError(message)
    smaller = [n // k for n, k in zip(space, blocks, strict=True)]
    parts = [n for pair in zip(smaller, blocks, strict=True) for n in pair]
    own, many = (batch, batch * prod(blocks)) if isinstance(batch, int) else (-1, -1)
    y = reshaped(b, x, (own, *parts, *rest))
    end = 2 * count + 1
    y = transposed(b, y, (*range(2, end, 2), 0, *range(1, end, 2), *range(end, end + len(rest))))
    return reshaped(b, y, (many, *smaller, *rest))


@import_rule("BATCH_TO_SPACE_ND", moves=True)
def batch_to_space_nd(op: Operator) -> Value:
    """BATCH_TO_SPACE_ND with crops."""
    b, x = op.b, op[0]
    blocks, crops = needed(op.raw(1), "the blocks"), needed(op.raw(2), "the crops")
    _check_blocks(op, blocks, crops)
    count = len(blocks)
    batch, *extents = b.dims(x, at_least=1)
    space = sizes(extents[:count], "the image")
    rest = sizes(extents[count:], "the channels")
    whole = prod(blocks)
    if isinstance(batch, int) and batch % whole:
        message = f"batch {batch} is not divisible by blocks {list(blocks)}"
        raise ShapeError(message)
    own = batch // whole if isinstance(batch, int) else -1
    y = reshaped(b, x, (*blocks, own, *space, *rest))
    pairs = [place for axis in range(count) for place in (count + 1 + axis, axis)]
    y = transposed(b, y, (count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(rest))))
    larger = [n * k for n, k in zip(space, blocks, strict=True)]
    y = reshaped(b, y, (own, *larger, *rest))
    if not any(crops):
        return y
    ends = [n - end for n, end in zip(larger, crops[1::2], strict=True)]
    if any(begin > end for begin, end in zip(crops[::2], ends, strict=True)):
        message = f"the crops {list(crops)} are larger than {larger}"
        raise ShapeError(message)
    return b(Slice, y, crops[::2], ends, range(1, count + 1))
