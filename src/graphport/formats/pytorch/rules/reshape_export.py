"""Export rules of shape and layout operators to ATen; run-time sizes are `SymInt` arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import Dim, Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.formats.pytorch.rules.emitting import (
    DIALECT,
    aten,
    aten_results,
    combined,
    elements_of,
    size_of,
    sizes_of,
    with_fact,
)
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.reshape import (
    Concat,
    DepthToSpace,
    Expand,
    Flatten,
    Identity,
    Reshape,
    Shape,
    Size,
    SpaceToDepth,
    Split,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)
from graphport.ops.lowering.operands import dtype_of, integers
from graphport.ops.views.reshape import Col2ImView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.pytorch.rules.emitting import Size as SizeArgument


@Identity.export_rule(DIALECT)
def export_identity(b: Builder, input: Value) -> Value | None:
    return aten(b, "clone", input) if isinstance(input.fact, TensorFact) else None


@Reshape.export_rule(DIALECT)
def export_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Value:
    """Export Reshape; one unknown size is -1."""
    return aten(b, "reshape", data, _reshape_sizes(b, data, shape, allowzero=allowzero))


def _reshape_sizes(b: Builder, data: Value, shape: Value, *, allowzero: int) -> tuple[SizeArgument, ...]:
    stated = shape.fact.elements if isinstance(shape.fact, TensorFact) else None
    result = b.outcome.shape
    if stated is not None:
        found: list[SizeArgument | None] = []
        for place, dim in enumerate(stated):
            if dim == 0 and isinstance(dim, int) and not allowzero:
                found.append(size_of(b, data, place))
            elif isinstance(dim, int):
                found.append(dim)
            else:
                sizes = sizes_of(b, [dim], data)
                found.append(sizes[0] if sizes else None)
        unknown = [place for place, size in enumerate(found) if size is None]
        if not unknown:
            return tuple(size for size in found if size is not None)
        if len(unknown) == 1 and -1 not in [size for size in found if isinstance(size, int)]:
            return tuple(-1 if size is None else size for size in found)
    if result is not None and (known := sizes_of(b, result, data)) is not None:
        return known
    return _computed_sizes(b, data, shape, allowzero=allowzero)


def _computed_sizes(b: Builder, data: Value, shape: Value, *, allowzero: int) -> tuple[SizeArgument, ...]:
    """Return run-time sizes; 0 copies a size of the operand unless `allowzero`."""
    if not allowzero:
        own = aten(b, "reshape", _shape_vector(b, data), (-1,))
        count, rank = len(needed_dims(b, shape)), len(b.dims(data))
        size = b.dims(shape)[0]
        if isinstance(size, int) and count:
            if size > rank:
                own = aten(b, "constant_pad_nd", own, (0, size - rank), 0)
            elif size < rank:
                own = aten(b, "slice.Tensor", own, 0, 0, size)
            is_zero = aten(b, "eq.Scalar", shape, 0)
            shape = aten(b, "where.self", is_zero, own, shape)
    return elements_of(b, shape, data)


def needed_dims(b: Builder, x: Value) -> tuple[Dim, ...]:
    """Return the shape of a vector of sizes, which must be static.

    Raises:
        UnsupportedError: the length of the vector is unknown.
    """
    dims = b.dims(x)
    if len(dims) != 1 or isinstance(dims[0], Symbolic):
        message = f"the element count of {x.name} is not constant"
        raise UnsupportedError(message)
    return dims


def _shape_vector(b: Builder, x: Value, start: int = 0, stop: int | None = None) -> Value:
    """Return sizes as an int64 vector."""
    rank = len(b.dims(x))
    places = range(rank)[slice(start, stop)]
    parts = [aten(b, "full", (1,), size_of(b, x, place), dtype=DType.INT64) for place in places]
    if not parts:
        return aten(b, "full", (0,), 0, dtype=DType.INT64)
    return parts[0] if len(parts) == 1 else aten(b, "cat", parts)


@Shape.export_rule(DIALECT)
def export_shape(b: Builder, data: Value, *, start: int = 0, end: int | None = None) -> Value:
    return aten(b, "alias", _shape_vector(b, data, start, end))


@Size.export_rule(DIALECT)
def export_size(b: Builder, data: Value) -> Value:
    total: Any = 1
    for axis in range(len(b.dims(data))):
        size = size_of(b, data, axis)
        is_literal = isinstance(total, int) and isinstance(size, int)
        total = total * size if is_literal else combined(b, "mul", total, size)
    return aten(b, "full", (), total, dtype=DType.INT64)


@Flatten.export_rule(DIALECT)
def export_flatten(b: Builder, input: Value, *, axis: int = 1) -> Value:
    rank = len(b.dims(input))
    place = axis + rank if axis < 0 else axis
    known = None if b.outcome.shape is None else sizes_of(b, b.outcome.shape, input)
    if known is None:
        known = (1, -1) if place == 0 else (-1, 1) if place == rank else None
    if known is None:
        first: Any = 1
        for each in range(place):
            size = size_of(b, input, each)
            is_literal = isinstance(first, int) and isinstance(size, int)
            first = first * size if is_literal else combined(b, "mul", first, size)
        known = (first, -1)
    return aten(b, "reshape", input, known)


@Squeeze.export_rule(DIALECT)
def export_squeeze(b: Builder, data: Value, axes: Value | None = None) -> Value:
    if axes is not None:
        return aten(b, "squeeze.dims", data, elements_of(b, axes))
    dims = b.dims(data)
    if any(isinstance(dim, Symbolic) for dim in dims):
        message = "without axes, the rank of the result depends on dynamic dims"
        raise UnsupportedError(message)
    return aten(b, "squeeze.dims", data, tuple(axis for axis, dim in enumerate(dims) if dim == 1))


@Unsqueeze.export_rule(DIALECT)
def export_unsqueeze(b: Builder, data: Value, axes: Value) -> Value:
    """Export Unsqueeze, one axis at a time in ascending order."""
    places = integers(axes)
    if places is None:
        return _unsqueezed_at_run_time(b, data, axes)
    rank = len(b.dims(data)) + len(places)
    x = data
    for place in sorted(place % rank for place in places):
        x = aten(b, "unsqueeze", x, place)
    return x if places else aten(b, "alias", data)


def _unsqueezed_at_run_time(b: Builder, data: Value, axes: Value) -> Value:
    (count,) = needed_dims(b, axes)
    if not isinstance(count, int):
        raise UnsupportedError
    rank = len(b.dims(data)) + count
    front = aten(b, "remainder.Scalar", axes, rank)
    ascending = aten_results(b, "sort", 2, front)[0]
    x, dtype = data, dtype_of(data)
    for number, place in enumerate(elements_of(b, with_fact(ascending, DType.INT64, (count,)))):
        x = with_fact(aten(b, "unsqueeze", x, place), dtype, (OPEN,) * (len(b.dims(data)) + number + 1))
    return x


@Transpose.export_rule(DIALECT)
def export_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    return aten(b, "permute", data, tuple(reversed(range(len(b.dims(data))))) if perm is None else perm)


@Concat.export_rule(DIALECT)
def export_concat(b: Builder, *inputs: Value, axis: int) -> Value:
    return aten(b, "cat", list(inputs), axis)


@Split.export_rule(DIALECT)
def export_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> tuple[Value, ...]:
    place = axis % len(b.dims(input))
    if split is not None:
        lengths: Sequence[Any] = elements_of(b, split, input)
    else:
        count = num_outputs or b.count
        size = b.dims(input)[place]
        if not isinstance(size, int):
            message = "the size of the split axis is not constant"
            raise UnsupportedError(message)
        most = -(-size // count)
        lengths = [min(most, max(size - most * index, 0)) for index in range(count)]
    return aten_results(b, "split_with_sizes", len(lengths), input, tuple(lengths), place)


@Expand.export_rule(DIALECT)
def export_expand(b: Builder, input: Value, shape: Value) -> Value:
    """Export Expand to the shape of the result, the broadcast of both shapes."""
    result = b.outcome.shape
    known = None if result is None else sizes_of(b, result, input)
    if known is not None:
        return aten(b, "expand", input, known)
    sizes = list(elements_of(b, shape, input))
    own = [size_of(b, input, axis) for axis in range(len(b.dims(input)))]
    rank = max(len(sizes), len(own))
    wide = [*[1] * (rank - len(sizes)), *sizes]
    from_own = [*[1] * (rank - len(own)), *own]
    # Sizes are equal, or one of them is 1.
    both = [x if y == 1 else y if x == 1 else _larger(b, x, y) for x, y in zip(wide, from_own, strict=True)]
    return aten(b, "expand", input, both)


def _larger(b: Builder, x: SizeArgument, y: SizeArgument) -> SizeArgument:
    if isinstance(x, int) and isinstance(y, int):
        return max(x, y)
    return combined(b, "max", x, y)


@Tile.export_rule(DIALECT)
def export_tile(b: Builder, input: Value, repeats: Value) -> Value:
    return aten(b, "repeat", input, elements_of(b, repeats, input))


@DepthToSpace.export_rule(DIALECT)
def export_depth_to_space(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    if mode == "CRD":
        return aten(b, "pixel_shuffle", input, blocksize)
    n, c, h, w = (size_of(b, input, axis) for axis in range(4))
    if not isinstance(c, int):
        message = "the channel count is not constant"
        raise UnsupportedError(message)
    depth = c // blocksize**2
    split = aten(b, "reshape", input, (n, blocksize, blocksize, depth, h, w))
    mixed = aten(b, "permute", split, (0, 3, 4, 1, 5, 2))
    return aten(b, "reshape", mixed, (n, depth, _times(b, h, blocksize), _times(b, w, blocksize)))


def _times(b: Builder, size: SizeArgument, factor: int) -> SizeArgument:
    return size * factor if isinstance(size, int) else combined(b, "mul", size, factor)


@SpaceToDepth.export_rule(DIALECT)
def export_space_to_depth(b: Builder, input: Value, *, blocksize: int) -> Value:
    n, c, h, w = (size_of(b, input, axis) for axis in range(4))
    if not isinstance(c, int):
        message = "the channel count is not constant"
        raise UnsupportedError(message)
    height, width = (_block_count(b, size, blocksize) for size in (h, w))
    split = aten(b, "reshape", input, (n, c, height, blocksize, width, blocksize))
    mixed = aten(b, "permute", split, (0, 3, 5, 1, 2, 4))
    return aten(b, "reshape", mixed, (n, c * blocksize**2, height, width))


def _block_count(b: Builder, size: SizeArgument, count: int) -> SizeArgument:
    return size // count if isinstance(size, int) else combined(b, "floordiv", size, count)


@Col2ImView.export_rule(DIALECT)
def export_col2im(b: Builder, op: Col2ImView) -> Value:
    """Export Col2Im: as `aten.col2im` for two axes with symmetric padding, else with a larger image that is cropped."""
    image, block = elements_of(b, op.image_shape), elements_of(b, op.block_shape)
    count = len(image)
    pads = op.pads or (0,) * (2 * count)
    begins, ends = pads[:count], pads[count:]
    if count != 2:
        message = f"PyTorch has no col2im over {count} spatial axes, expected 2"
        raise UnsupportedError(message)
    # Compute the padded image, then crop it.
    whole = tuple(_plus(b, n, p + q) for n, p, q in zip(image, begins, ends, strict=True))
    strides, dilations = op.strides or (1,) * count, op.dilations or (1,) * count
    y = aten(b, "col2im", op.input, whole, block, dilations, (0,) * count, strides)
    if not any(pads):
        return y
    flat: list[int] = []
    for p, q in zip(reversed(begins), reversed(ends), strict=True):
        flat += [-p, -q]
    y = with_fact(y, dtype_of(op.input), (*b.dims(op.input)[:1], OPEN, OPEN, OPEN))
    return aten(b, "constant_pad_nd", y, flat)


def _plus(b: Builder, size: SizeArgument, more: int) -> SizeArgument:
    return size + more if isinstance(size, int) else combined(b, "add", size, more) if more else size
