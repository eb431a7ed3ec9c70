"""Export rules of shapes, slices, indices and requantization to TFLite."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.formats.tflite.rules.computed_sizes import size_vector
from graphport.formats.tflite.rules.emitting import (
    NUMERIC_TYPES,
    cast_to,
    computed_in,
    extent,
    from_bits,
    in_bits,
    in_int32,
    ints,
    lengths_of,
    shaped,
    transposed_constant,
    wrapped,
)
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions import reshape
from graphport.ops.definitions.convolution import ConvTranspose
from graphport.ops.definitions.reduction import running
from graphport.ops.definitions.reshape import pieces
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.operands import dtype_of, float_element, integers, needed, reshaped, sizes
from graphport.ops.shapes import broadcast
from graphport.ops.views.indexing import SliceView
from graphport.ops.views.padding import PadView
from graphport.ops.views.reshape import Col2ImView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

Exported: TypeAlias = "tuple[Value, ...] | None"


def _count_open_dims(dims: tuple[Dim, ...]) -> int:
    return sum(not isinstance(n, int) for n in dims)


def _as(b: Builder, x: Value, op_def: OpDef, *operands: Value | None, **attributes: int) -> Exported:
    """Infer the result shape of an operator and reshape `x` to it."""
    from graphport.ops.builder import Builder as Facts

    fact = Facts(b.inference, stem=b.stem)(op_def, x, *operands, **attributes).fact
    return (shaped(b, x, fact.dims),) if isinstance(fact, TensorFact) else None


def _with_axes(b: Builder, x: Value, axes: Value) -> Value:
    """Insert axes of length 1 at run-time axes, in ascending order."""
    if not b.dims(axes):
        axes = shaped(b, axes, (1,))
    (count,) = sizes(b.dims(axes, 1), "the number of axes")
    positions = wrapped(b, axes, len(b.dims(x)) + count)
    falling, _ = emits(b, "TOPK_V2", 2, positions, ints(b, count), types=(DType.INT32, DType.INT32))
    for place in reversed(range(count)):
        axis = shaped(b, emit(b, "GATHER", falling, ints(b, [place]), axis=0), ())
        fact = TensorFact(dtype_of(x), (OPEN,) * (len(b.dims(x)) + 1))
        (x,) = b.emit("EXPAND_DIMS", x, axis, facts=[fact])
    return x


@reshape.Reshape.export_rule("tflite")
def export_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Exported:
    numbers = integers(shape)
    if numbers is not None and (0 not in numbers or allowzero):
        return (emit(b, "RESHAPE", data, ints(b, list(numbers))),)
    if numbers is not None and _count_open_dims(b.dims(data)) <= 1:
        return _as(b, data, reshape.Reshape, shape)
    if not allowzero:
        shape = _without_zeros(b, data, in_int32(b, shape))
    return (emit(b, "RESHAPE", data, in_int32(b, shape)),)


def _without_zeros(b: Builder, data: Value, shape: Value) -> Value:
    """Replace each 0 of a target shape by the size of `data` at that index; RESHAPE would take 0 literally."""
    (count,) = sizes(b.dims(shape, 1), "the number of axes")
    lengths = lengths_of(b, data)
    rank = len(b.dims(data))
    if rank > count:
        lengths = emit(b, "SLICE", lengths, ints(b, [0]), ints(b, [count]))
    elif rank < count:
        lengths = emit(b, "PAD", lengths, ints(b, [[0, count - rank]]))
    return emit(b, "SELECT_V2", emit(b, "EQUAL", shape, 0), lengths, shape)


@reshape.Flatten.export_rule("tflite")
def export_flatten(b: Builder, input: Value, *, axis: int = 1) -> Exported:
    return _as(b, input, reshape.Flatten, axis=axis)


@reshape.Squeeze.export_rule("tflite")
def export_squeeze(b: Builder, data: Value, axes: Value | None = None) -> Exported:
    numbers = () if axes is None else integers(axes)
    if numbers is None and axes is not None:
        chosen = emit(b, "ONE_HOT", wrapped(b, axes, len(b.dims(data))), ints(b, len(b.dims(data))), 1, 0, axis=-1)
        kept = emit(b, "WHERE", emit(b, "EQUAL", emit(b, "SUM", chosen, ints(b, [0]), keep_dims=False), 0))
        lengths = lengths_of(b, data)
        left = emit(b, "GATHER", lengths, cast_to(b, shaped(b, kept, (-1,)), DType.INT32), axis=0)
        return (emit(b, "RESHAPE", data, left),)
    return (emit(b, "SQUEEZE", data, squeeze_dims=tuple(numbers or ())),)


@reshape.Unsqueeze.export_rule("tflite")
def export_unsqueeze(b: Builder, data: Value, axes: Value) -> Exported:
    if integers(axes) is None:
        return (_with_axes(b, data, axes),)
    if _count_open_dims(b.dims(data)) <= 1:
        return _as(b, data, reshape.Unsqueeze, axes)
    numbers = needed(axes, "its axes")
    rank = len(b.dims(data)) + len(numbers)
    for axis in sorted(axis % rank for axis in numbers):
        data = emit(b, "EXPAND_DIMS", data, ints(b, axis))
    return (data,)


@reshape.Identity.export_rule("tflite")
def export_identity(b: Builder, input: Value) -> Exported:
    return (
        shaped(b, input, b.dims(input))
        if input.storage is None
        else emit(b, "RESHAPE", input, ints(b, list(sizes(b.dims(input), "the shape")))),
    )


@reshape.Transpose.export_rule("tflite")
def export_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> Exported:
    order = tuple(perm) if perm is not None else tuple(reversed(range(len(b.dims(data)))))
    if not order or order == tuple(range(len(order))):
        return (shaped(b, data, b.dims(data)),) if data.storage is None else None
    return (transposed_constant(b, data, order),)


@reshape.Shape.export_rule("tflite")
def export_shape(b: Builder, data: Value, *, start: int = 0, end: int | None = None) -> Exported:
    rank = len(b.dims(data))
    begin, stop, _ = slice(start, end).indices(rank)
    found = emit(b, "SHAPE", data, out_type=4, types=(DType.INT64,))
    if (begin, stop) == (0, rank):
        return (found,)
    return (emit(b, "SLICE", found, ints(b, [begin]), ints(b, [max(0, stop - begin)])),)


@pieces.Concat.export_rule("tflite")
def export_concat(b: Builder, *inputs: Value, axis: int) -> Exported:
    own = dtype_of(inputs[0])
    joined = emit(b, "CONCATENATION", *(in_bits(b, each, _NOT_JOINED) for each in inputs), axis=axis)
    return (from_bits(b, joined, own),)


_NOT_JOINED = frozenset((DType.FLOAT64, DType.UINT16, DType.UINT64))
_NOT_PADDED = frozenset((DType.FLOAT64, DType.UINT32, DType.UINT64))
"""Types without concatenation or padding kernels."""
_SPLIT = frozenset((DType.FLOAT32, DType.UINT8, DType.INT8, DType.INT16, DType.INT32, DType.INT64))


def _cut(b: Builder, x: Value, axis: int, lengths: Sequence[int]) -> tuple[Value, ...]:
    """Slice consecutive parts along an axis, for types without a split kernel."""
    rank, start = len(b.dims(x)), 0
    found: list[Value] = []
    for length in lengths:
        begin, size = (
            [start if at == axis else 0 for at in range(rank)],
            [length if at == axis else -1 for at in range(rank)],
        )
        found.append(emit(b, "SLICE", x, ints(b, begin), ints(b, size)))
        start += length
    return tuple(found)


@pieces.Split.export_rule("tflite")
def export_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> Exported:
    del num_outputs
    count = b.count
    if split is None:
        (n,) = sizes(b.dims(input)[axis : axis + 1] if axis >= 0 else [b.dims(input)[axis]], "the split tensor")
        part = -(-n // count)
        lengths = [part] * (count - 1) + [n - part * (count - 1)]
    elif integers(split) is None:
        return emits(b, "SPLIT_V", count, input, in_int32(b, split), ints(b, axis), num_splits=count)
    else:
        lengths = list(needed(split, "the sizes"))
    if dtype_of(input) not in _SPLIT:
        return _cut(b, input, axis % len(b.dims(input)), lengths)
    return emits(b, "SPLIT_V", count, input, ints(b, lengths), ints(b, axis), num_splits=count)


@SliceView.export_rule("tflite")
def export_slice(b: Builder, op: SliceView) -> Exported:
    rank = len(b.dims(op.data))
    if any(each is not None and integers(each) is None for each in (op.starts, op.ends, op.axes, op.steps)):
        return (_sliced(b, op.data, (op.starts, op.ends, op.steps), op.axes),)
    begin, end = list(needed(op.starts, "the starts")), list(needed(op.ends, "the ends"))
    along = list(range(len(begin))) if op.axes is None else [a % rank for a in needed(op.axes, "its axes")]
    by = [1] * len(begin) if op.steps is None else list(needed(op.steps, "the strides"))
    rows: list[list[int]] = [[0] * rank, [0] * rank, [1] * rank]
    masks = [(1 << rank) - 1, (1 << rank) - 1]
    for axis, first, last, step in zip(along, begin, end, by, strict=True):
        n = b.dims(op.data)[axis]
        if isinstance(n, int):
            first, last, _ = slice(first, last if last > -n or step > 0 else None, step).indices(n)  # noqa: PLW2901
        rows[0][axis], rows[1][axis], rows[2][axis] = first, last, step
        masks[0] &= ~(1 << axis)
        if last == -1 and step < 0:
            continue
        masks[1] &= ~(1 << axis)
    y = emit(b, "STRIDED_SLICE", op.data, *[ints(b, row) for row in rows], begin_mask=masks[0], end_mask=masks[1])
    return (y,)


_MAX_INT32 = (1 << 31) - 1


def _sliced(b: Builder, data: Value, bounds: tuple[Value, Value, Value | None], axes: Value | None) -> Value:
    """Slice with computed bounds of some axes; constant bounds are scattered among the bounds of all axes."""
    rank = len(b.dims(data))
    lengths = b.dims(bounds[0])
    if len(lengths) != 1:
        message = "its starts are not a vector"
        raise UnsupportedError(message)
    (count,) = sizes(lengths, "the number of axes")
    if axes is None:
        chosen = np.eye(count, rank, dtype=np.int32)
        selection = ints(b, chosen.tolist())
    else:
        selection = emit(b, "ONE_HOT", wrapped(b, axes, rank), ints(b, rank), ints(b, 1), ints(b, 0), axis=-1)
    is_sliced = emit(b, "SUM", selection, ints(b, [0]), keep_dims=False)

    def scatter_bounds(value: Value | None, other: int) -> Value:
        rest = emit(b, "MUL", emit(b, "SUB", ints(b, 1), is_sliced), ints(b, other))
        if value is None:
            return emit(b, "ADD", rest, is_sliced)
        column = shaped(b, _within_int32(b, value), (count, 1))
        return emit(b, "ADD", emit(b, "SUM", emit(b, "MUL", selection, column), ints(b, [0]), keep_dims=False), rest)

    begin, end, step = scatter_bounds(bounds[0], 0), scatter_bounds(bounds[1], _MAX_INT32), scatter_bounds(bounds[2], 1)
    if bounds[2] is not None and min(integers(bounds[2]) or (-1,)) < 0:
        # Kernels do not accept an end before the first element (-1 - n) or a start beyond the last one.
        lengths = size_vector(b, b.dims(data), data)
        end = emit(b, "MAXIMUM", end, emit(b, "SUB", ints(b, -1), lengths))
        begin = emit(b, "MINIMUM", begin, emit(b, "SUB", lengths, ints(b, 0)))
    return emit(b, "STRIDED_SLICE", data, begin, end, step)


def _within_int32(b: Builder, value: Value) -> Value:
    """Convert slice bounds, possibly the minimum or maximum of int64, to int32."""
    if dtype_of(value) is not DType.INT64 or integers(value) is not None:
        return in_int32(b, value)
    low, high = b.like(value, -_MAX_INT32), b.like(value, _MAX_INT32)
    return cast_to(b, emit(b, "MINIMUM", emit(b, "MAXIMUM", value, low), high), DType.INT32)


RULES.having(int32=in_int32, ints=ints).export_rules("""
Size -> REDUCE_PROD(SHAPE(data, out_type=4, types=(int64,)), ints([0]), keep_dims=False)
Tile -> TILE(input, int32(repeats))
""")


@pieces.Expand.export_rule("tflite")
def export_expand(b: Builder, input: Value, shape: Value) -> Exported:
    numbers = integers(shape)
    own = b.dims(input)
    dims = None if numbers is None else broadcast(own, numbers)
    if dims == own:
        return (b(reshape.Identity, input),)
    if dims is None or _count_open_dims(dims):
        lengths = emit(b, "BROADCAST_ARGS", lengths_of(b, input), in_int32(b, shape))
        return (emit(b, "BROADCAST_TO", input, lengths),)
    return (emit(b, "BROADCAST_TO", input, ints(b, list(sizes(dims, "the shape")))),)


def _pairs_later(b: Builder, pads: Value, axes: Sequence[int] | None, rank: int) -> Value:
    """Convert run-time ONNX pads, begins then ends, of `axes` to TFLite's pairs [rank, 2] of all axes."""
    numbers = _within_int32(b, pads)
    if axes is None:
        return emit(b, "TRANSPOSE", shaped(b, numbers, (2, rank)), ints(b, [1, 0]))
    # The 0 of the other axes follows.
    count = len(axes)
    indices = np.full((rank, 2), 2 * count)
    for place, axis in enumerate(axes):
        indices[axis % rank] = place, place + count
    with_zero = emit(b, "CONCATENATION", numbers, ints(b, [0]), axis=0)
    return emit(b, "GATHER", with_zero, ints(b, indices.tolist()), axis=0)


@PadView.export_rule("tflite")
def export_pad(b: Builder, op: PadView) -> Exported:
    own, data, number = dtype_of(op.data), op.data, op.constant_value
    if op.mode != "reflect":
        data = in_bits(b, data, _NOT_PADDED)
        number = None if number is None or float_element(number) == 0 else in_bits(b, number, _NOT_PADDED)
    padded = _padded(b, op, data, number)
    # Unchanged values keep their fact: their shape may be known at run time only.
    return padded if padded is None or data is op.data else (from_bits(b, padded[0], own),)


def _padded(b: Builder, op: PadView, data: Value, number: Value | None) -> Exported:
    rank = len(b.dims(data))
    known = integers(op.pads)
    if known is None and (op.axes is None or integers(op.axes) is not None):
        table = _pairs_later(b, op.pads, integers(op.axes), rank)
        if op.mode == "reflect":
            return (emit(b, "MIRROR_PAD", data, table, mode=0),)
        if op.mode != "constant":
            pads = shaped(b, emit(b, "TRANSPOSE", table, ints(b, [1, 0])), (2 * rank,))
            return (_repeated_later(b, data, pads, op.mode),)
        filler = shaped(b, b.like(data, np.zeros(1)) if number is None else number, ())
        return (emit(b, "PADV2", data, table, filler),)
    numbers = list(needed(op.pads, "its padding"))
    along = list(range(rank)) if op.axes is None else [a % rank for a in needed(op.axes, "its axes")]
    pairs = [(0, 0) for _ in range(rank)]
    for place, axis in enumerate(along):
        pairs[axis] = numbers[place], numbers[place + len(along)]
    if op.mode in ("edge", "wrap"):
        return (_repeated(b, data, pairs, op.mode),)
    if any(n < 0 for pair in pairs for n in pair):
        begins = [max(0, -first) for first, _ in pairs]
        left = [n - begin - max(0, -last) for n, begin, (_, last) in zip(b.dims(data), begins, pairs, strict=True)]
        data = emit(b, "SLICE", data, ints(b, begins), size_vector(b, left, data))
        pairs = [(max(0, first), max(0, last)) for first, last in pairs]
    table = ints(b, [list(pair) for pair in pairs])
    if op.mode == "reflect":
        return (emit(b, "MIRROR_PAD", data, table, mode=0),)
    if number is None:
        return (emit(b, "PAD", data, table),)
    return (emit(b, "PADV2", data, table, shaped(b, number, ())),)


def _repeated(b: Builder, data: Value, pairs: list[tuple[int, int]], mode: str) -> Value:
    """Pad by edge or wrap mode: gather elements by index."""
    for axis, (first, last) in enumerate(pairs):
        if not first and not last:
            continue
        n = b.dims(data)[axis]
        if not isinstance(n, int):
            data = _gather_padding(b, data, axis, (ints(b, -first), ints(b, last)), mode)
            continue
        reserve(first + n + last, what="the padded axis")
        indices = np.arange(-first, n + last)
        indices = indices.clip(0, n - 1) if mode == "edge" else indices % n
        data = emit(b, "GATHER", data, ints(b, indices.tolist()), axis=axis)
    return data


def _repeated_later(b: Builder, data: Value, pads: Value, mode: str) -> Value:
    """Pad by edge or wrap mode with computed pads."""
    rank = len(b.dims(data))
    for axis in range(rank):
        first, last = (shaped(b, emit(b, "GATHER", pads, ints(b, [at]), axis=0), ()) for at in (axis, axis + rank))
        data = _gather_padding(b, data, axis, (emit(b, "NEG", first), last), mode)
    return data


def _gather_padding(b: Builder, data: Value, axis: int, ends: tuple[Value, Value], mode: str) -> Value:
    """Pad an axis by gathering the indices ends[0] … size + ends[1] - 1, clamped (`edge`) or modulo size (`wrap`)."""
    n = extent(b, data, axis)
    size = ints(b, n) if isinstance(n, int) else n
    indices = emit(b, "RANGE", ends[0], emit(b, "ADD", ends[1], size), ints(b, 1))
    if mode == "edge":
        indices = emit(b, "MINIMUM", emit(b, "MAXIMUM", indices, 0), emit(b, "SUB", size, 1))
    else:
        indices = emit(b, "FLOOR_MOD", indices, size)
    return emit(b, "GATHER", data, indices, axis=axis)


@running.CumSum.export_rule("tflite")
def export_cumsum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Exported:
    numbers = integers(axis)
    along = shaped(b, in_int32(b, axis), ()) if numbers is None else ints(b, numbers[0])
    options = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
    return (computed_in(b, NUMERIC_TYPES, "CUMSUM", x, beside=(along,), **options),)


@Col2ImView.export_rule("tflite")
def export_col2im(b: Builder, op: Col2ImView) -> Exported:
    """Export Col2Im as a transposed convolution whose one-hot filters place each row of a block."""
    image, block = (
        [int(n) for n in needed(x, "the shapes of image and block")] for x in (op.image_shape, op.block_shape)
    )
    batch, rows, _ = sizes(b.dims(op.input), "the columns")
    steps, gaps, edges = (
        op.strides or (1,) * len(image),
        op.dilations or (1,) * len(image),
        op.pads or (0,) * 2 * len(image),
    )
    cells = prod(block)
    reserve(cells, cells)
    whole = [n + edges[i] + edges[i + len(image)] for i, n in enumerate(image)]
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(whole, block, steps, gaps, strict=True)]
    split = reshaped(b, op.input, (batch * (rows // cells), cells, *counts))
    filters = b.constant(np.eye(cells, dtype=np.float32).reshape(cells, 1, *block))
    full = [(n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(counts, block, steps, gaps, strict=True)]
    more = tuple(n - f for n, f in zip(whole, full, strict=True))
    window = {"strides": steps, "dilations": gaps, "pads": edges, "output_padding": more}
    y = b(ConvTranspose, split, filters, **window)
    return (reshaped(b, y, (batch, rows // cells, *image)),)
