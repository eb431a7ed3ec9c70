"""Shapes, pieces, places and integers that stand for reals, as TFLite says them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import reshape
from graphport.ops.declare import UnsupportedError, lift
from graphport.ops.generate import ConstantOfShape, Range
from graphport.ops.indexing import gathering, places, regions, scattering, slicing
from graphport.ops.inner import say, says
from graphport.ops.operands import dtype_of, integers, needed, real, sizes
from graphport.ops.padding import Pad
from graphport.ops.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.reduction import places as found_places
from graphport.ops.reduction import running
from graphport.ops.reshape import pieces
from graphport.ops.tflite_words import cast_to, in_int32, ints, needed_array, shaped, turned

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page

Lifted: TypeAlias = "tuple[Value, ...] | None"


def _open(dims: tuple[Dim, ...]) -> int:
    return sum(not isinstance(n, int) for n in dims)


def _as(b: Builder, x: Value, page: Page, *operands: Value | None, **attributes: int) -> Lifted:
    """x in the shape that an operator gives it, if at most one extent is open."""
    from graphport.ops.builder import Builder as Facts

    fact = Facts(b.inference, stem=b.stem)(page, x, *operands, **attributes).fact
    return (shaped(b, x, fact.dims),) if isinstance(fact, TensorFact) else None


@reshape.Reshape.lift("tflite")
def lift_reshape(b: Builder, data: Value, shape: Value, *, allowzero: int = 0) -> Lifted:
    told = integers(shape)
    if told is not None and (0 not in told or allowzero):
        return (say(b, "RESHAPE", data, ints(b, list(told))),)
    if told is None:
        return (say(b, "RESHAPE", data, in_int32(b, shape)),)
    return _as(b, data, reshape.Reshape, shape)


@reshape.Flatten.lift("tflite")
def lift_flatten(b: Builder, input: Value, *, axis: int = 1) -> Lifted:
    return _as(b, input, reshape.Flatten, axis=axis)


@reshape.Squeeze.lift("tflite")
def lift_squeeze(b: Builder, data: Value, axes: Value | None = None) -> Lifted:
    told = () if axes is None else needed(axes, "its axes")
    return (say(b, "SQUEEZE", data, squeeze_dims=tuple(told)),)


@reshape.Unsqueeze.lift("tflite")
def lift_unsqueeze(b: Builder, data: Value, axes: Value) -> Lifted:
    if _open(b.dims(data)) <= 1:
        return _as(b, data, reshape.Unsqueeze, axes)
    told = needed(axes, "its axes")
    rank = len(b.dims(data)) + len(told)
    for axis in sorted(axis % rank for axis in told):
        data = say(b, "EXPAND_DIMS", data, ints(b, axis))
    return (data,)


@reshape.Identity.lift("tflite")
def lift_identity(b: Builder, input: Value) -> Lifted:
    return (shaped(b, input, b.dims(input)) if input.storage is None else say(b, "RESHAPE", input, _own(b, input)),)


def _own(b: Builder, x: Value) -> Value:
    return ints(b, list(sizes(b.dims(x), "the shape")))


@reshape.Transpose.lift("tflite")
def lift_transpose(b: Builder, data: Value, *, perm: tuple[int, ...] | None = None) -> Lifted:
    order = tuple(perm) if perm is not None else tuple(reversed(range(len(b.dims(data)))))
    if not order or order == tuple(range(len(order))):
        return (shaped(b, data, b.dims(data)),) if data.storage is None else None
    return (turned(b, data, order),)


@reshape.Shape.lift("tflite")
def lift_shape(b: Builder, data: Value, *, start: int = 0, end: int | None = None) -> Lifted:
    rank = len(b.dims(data))
    begin, stop, _ = slice(start, end).indices(rank)
    found = say(b, "SHAPE", data, out_type=4, types=(DType.INT64,))
    if (begin, stop) == (0, rank):
        return (found,)
    return (say(b, "SLICE", found, ints(b, [begin]), ints(b, [max(0, stop - begin)])),)


@reshape.Size.lift("tflite")
def lift_size(b: Builder, data: Value) -> Lifted:
    found = say(b, "SHAPE", data, out_type=4, types=(DType.INT64,))
    return (say(b, "REDUCE_PROD", found, ints(b, [0]), keep_dims=False),)


@pieces.Concat.lift("tflite")
def lift_concat(b: Builder, *inputs: Value, axis: int) -> Lifted:
    return (say(b, "CONCATENATION", *inputs, axis=axis),)


@pieces.Split.lift("tflite")
def lift_split(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> Lifted:
    del num_outputs
    count = b.count
    if split is None:
        (n,) = sizes(b.dims(input)[axis : axis + 1] if axis >= 0 else [b.dims(input)[axis]], "what is split")
        part = -(-n // count)
        lengths = [part] * (count - 1) + [n - part * (count - 1)]
    else:
        lengths = list(needed(split, "the sizes"))
    return says(b, "SPLIT_V", count, input, ints(b, lengths), ints(b, axis), num_splits=count)


@slicing.Slice.lift("tflite")
def lift_slice(
    b: Builder, data: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Lifted:
    rank = len(b.dims(data))
    begin, end = list(needed(starts, "where it begins")), list(needed(ends, "where it ends"))
    along = list(range(len(begin))) if axes is None else [a % rank for a in needed(axes, "its axes")]
    by = [1] * len(begin) if steps is None else list(needed(steps, "its steps"))
    rows: list[list[int]] = [[0] * rank, [0] * rank, [1] * rank]
    masks = [(1 << rank) - 1, (1 << rank) - 1]
    for axis, first, last, step in zip(along, begin, end, by, strict=True):
        n = b.dims(data)[axis]
        if not isinstance(n, int):
            first, last = _bounds(first, last)  # noqa: PLW2901  what is beyond every extent
        else:
            first, last, _ = slice(first, last if last > -n or step > 0 else None, step).indices(n)  # noqa: PLW2901
        rows[0][axis], rows[1][axis], rows[2][axis] = first, last, step
        masks[0] &= ~(1 << axis)
        if last == -1 and step < 0:
            continue
        masks[1] &= ~(1 << axis)
    y = say(b, "STRIDED_SLICE", data, *[ints(b, row) for row in rows], begin_mask=masks[0], end_mask=masks[1])
    return (y,)


def _bounds(first: int, last: int) -> tuple[int, int]:
    most = (1 << 31) - 1
    return max(-most, min(first, most)), max(-most, min(last, most))


@pieces.Tile.lift("tflite")
def lift_tile(b: Builder, input: Value, repeats: Value) -> Lifted:
    return (say(b, "TILE", input, in_int32(b, repeats)),)


@pieces.Expand.lift("tflite")
def lift_expand(b: Builder, input: Value, shape: Value) -> Lifted:
    told = integers(shape)
    if told is None:
        return (say(b, "BROADCAST_TO", input, in_int32(b, shape)),)
    dims = np.broadcast_shapes(sizes(b.dims(input), "the shape"), told)
    return (say(b, "BROADCAST_TO", input, ints(b, list(dims))),)


@Pad.lift("tflite")
def lift_pad(
    b: Builder,
    data: Value,
    pads: Value,
    constant_value: Value | None = None,
    axes: Value | None = None,
    *,
    mode: str = "constant",
) -> Lifted:
    rank = len(b.dims(data))
    told = list(needed(pads, "its padding"))
    along = list(range(rank)) if axes is None else [a % rank for a in needed(axes, "its axes")]
    table = [[0, 0] for _ in range(rank)]
    for place, axis in enumerate(along):
        table[axis] = [told[place], told[place + len(along)]]
    if min(map(min, table), default=0) < 0:
        message = "padding takes away"
        raise UnsupportedError(message)
    if mode == "reflect":
        return (say(b, "MIRROR_PAD", data, ints(b, table), mode=0),)
    if mode != "constant":
        message = f"padding of mode {mode}"
        raise UnsupportedError(message)
    if constant_value is None or real(constant_value) == 0:
        return (say(b, "PAD", data, ints(b, table)),)
    return (say(b, "PADV2", data, ints(b, table), shaped(b, constant_value, ())),)


# Places


def _wrapped(b: Builder, indices: Value, n: Dim) -> Value:
    """Indices counted from the front."""
    told = integers(indices)
    if told is not None and min(told, default=0) >= 0:
        return in_int32(b, indices)
    (length,) = sizes([n], "what is picked from")
    if told is not None:
        array = np.array(told).reshape(sizes(b.dims(indices)))
        return ints(b, np.where(array < 0, array + length, array).tolist())
    places_ = in_int32(b, indices)
    is_negative = say(b, "LESS", places_, ints(b, 0))
    return say(b, "SELECT_V2", is_negative, say(b, "ADD", places_, ints(b, length)), places_)


@gathering.Gather.lift("tflite")
def lift_gather(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Lifted:
    return (say(b, "GATHER", data, _wrapped(b, indices, b.dims(data)[axis]), axis=axis % len(b.dims(data))),)


@gathering.GatherND.lift("tflite")
def lift_gather_nd(b: Builder, data: Value, indices: Value, *, batch_dims: int = 0) -> Lifted:
    told = integers(indices)
    if told is not None and min(told, default=0) < 0:
        return None
    dims = b.dims(indices)
    if batch_dims and dims[-1] == 1:
        picked = in_int32(b, shaped(b, indices, dims[:-1]))
        return (say(b, "GATHER", data, picked, axis=batch_dims, batch_dims=batch_dims),)
    if batch_dims:
        return None
    return (say(b, "GATHER_ND", data, in_int32(b, indices)),)


@scattering.ScatterND.lift("tflite")
def lift_scatter_nd(b: Builder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Lifted:
    if reduction != "add" or dtype_of(data) not in (DType.FLOAT32, DType.INT32, DType.INT64):
        message = f"scattering of reduction {reduction}"
        raise UnsupportedError(message)
    added = say(b, "SCATTER_ND", in_int32(b, indices), updates, _own(b, data))
    return (say(b, "ADD", data, added),)


@places.OneHot.lift("tflite")
def lift_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Lifted:
    count = real(depth)
    if count is None:
        return None
    off, on = (say(b, "GATHER", values, ints(b, place), axis=0) for place in (0, 1))
    wide = cast_to(b, indices, DType.INT32)
    n = ints(b, int(count))
    wide = say(b, "SELECT_V2", say(b, "LESS", wide, ints(b, 0)), say(b, "ADD", wide, n), wide)
    return (say(b, "ONE_HOT", wide, n, on, off, axis=axis),)


@places.NonZero.lift("tflite")
def lift_non_zero(b: Builder, x: Value) -> Lifted:
    condition = x if dtype_of(x) is DType.BOOL else say(b, "NOT_EQUAL", x, 0.0 if dtype_of(x).is_floating else 0)
    return (say(b, "TRANSPOSE", say(b, "WHERE", condition), ints(b, [1, 0])),)


@regions.ReverseSequence.lift("tflite")
def lift_reverse_sequence(
    b: Builder, input: Value, sequence_lens: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Lifted:
    return (say(b, "REVERSE_SEQUENCE", input, sequence_lens, seq_dim=time_axis, batch_dim=batch_axis),)


def _best(page: Page, word: str) -> None:
    @lift("tflite", page.name)
    def lifted(b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Lifted:
        if select_last_index or dtype_of(data) not in (DType.FLOAT32, DType.INT32):
            return None
        axis %= max(len(b.dims(data)), 1)
        y = say(b, word, data, ints(b, axis), output_type=4, types=(DType.INT64,))
        if not keepdims:
            return (y,)
        dims = b.dims(data)
        return (shaped(b, y, (*dims[:axis], 1, *dims[axis + 1 :])),)

    del lifted


_best(found_places.ArgMax, "ARG_MAX")
_best(found_places.ArgMin, "ARG_MIN")


@found_places.TopK.lift("tflite")
def lift_top_k(b: Builder, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Lifted:
    del sorted
    rank = len(b.dims(x))
    if dtype_of(x) is not DType.FLOAT32 or (axis % rank) != rank - 1:
        return None
    told = integers(k)
    count = ints(b, told[0]) if told else in_int32(b, shaped(b, k, ()))
    given = x if largest else say(b, "NEG", x)
    values, numbers = says(b, "TOPK_V2", 2, given, count, types=(DType.FLOAT32, DType.INT32))
    return (values if largest else say(b, "NEG", values)), cast_to(b, numbers, DType.INT64)


@running.CumSum.lift("tflite")
def lift_cumsum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Lifted:
    if dtype_of(x) not in (DType.FLOAT32, DType.INT32, DType.INT64):
        return None
    (along,) = needed(axis, "its axis")
    return (say(b, "CUMSUM", x, ints(b, along), exclusive=bool(exclusive), reverse=bool(reverse)),)


@Range.lift("tflite")
def lift_range(b: Builder, start: Value, limit: Value, delta: Value) -> Lifted:
    return (say(b, "RANGE", start, limit, delta),)


@ConstantOfShape.lift("tflite")
def lift_constant_of_shape(b: Builder, input: Value, *, value: object = None) -> Lifted:
    array = np.zeros(1, np.float32) if value is None else np.asarray(value.numpy())  # type: ignore[attr-defined]
    return (say(b, "FILL", in_int32(b, input), b.constant(array.reshape(()))),)


# Integers that stand for reals


_STORED = frozenset((DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT4, DType.INT2))


def _told(scale: Value, zero: Value | None, dtype: DType, axis: int, rank: int) -> object:
    scales = needed_array(scale, "its scale").astype(np.float32)
    zeros = np.zeros(scales.size, np.int64) if zero is None else needed_array(zero, "its zero point").astype(np.int64)
    if scales.ndim > 1 or dtype not in _STORED:
        message = f"scales of rank {scales.ndim} for {dtype}"
        raise UnsupportedError(message)
    own = axis % rank if scales.size > 1 else -1
    return dtype, own, tuple(map(float, scales.reshape(-1))), tuple(map(int, zeros.reshape(-1)))


@QuantizeLinear.lift("tflite")
def lift_quantize_linear(
    b: Builder, x: Value, y_scale: Value, y_zero_point: Value | None = None, *, axis: int = 1, **_: object
) -> Lifted:
    dtype = DType.UINT8 if y_zero_point is None else dtype_of(y_zero_point)
    told = _told(y_scale, y_zero_point, dtype, axis, len(b.dims(x)))
    if dtype is DType.INT32 or dtype_of(x) is not DType.FLOAT32:
        return None
    return b.word("QUANTIZE", x, facts=[TensorFact(dtype, b.dims(x))], quantized_results=(told,))  # type: ignore[arg-type]


@DequantizeLinear.lift("tflite")
def lift_dequantize_linear(
    b: Builder, x: Value, x_scale: Value, x_zero_point: Value | None = None, *, axis: int = 1, **_: object
) -> Lifted:
    dtype = dtype_of(x)
    told = _told(x_scale, x_zero_point, dtype, axis, max(len(b.dims(x)), 1))
    if dtype_of(x_scale) is not DType.FLOAT32:
        return None
    if dtype is DType.INT32:
        scales, zeros = told[2], told[3]  # type: ignore[index]
        numbers = needed_array(x, "integers of 32 bits").astype(np.float64)
        shape = (-1, *[1] * (numbers.ndim - 1 - axis % max(numbers.ndim, 1))) if len(scales) > 1 else ()
        reals = (numbers - np.reshape(zeros, shape)) * np.reshape(scales, shape)
        return (say(b, "RESHAPE", b.constant(reals.astype(np.float32)), _own(b, x)),)
    return b.word("DEQUANTIZE", x, facts=[TensorFact(DType.FLOAT32, b.dims(x))], quantized=(told,))  # type: ignore[arg-type]
