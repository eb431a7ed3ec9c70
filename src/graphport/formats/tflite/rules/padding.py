"""Padding in TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import Operator, import_rule, nearest
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Sub
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.padding import CenterCropPad, Pad
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Transpose
from graphport.ops.lowering.operands import as_int64, cast, dtype_of, integers, needed, scalar, sizes, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_SYMMETRIC = 1
_PADDED = frozenset((DType.FLOAT32, DType.INT32, DType.INT64, DType.INT8, DType.UINT8, DType.BOOL, DType.FLOAT64))
"""Types that runtimes pad."""


def _pads(op: Operator) -> Value:
    """Return begin pads of all axes, then end pads."""
    b, edges = op.b, integers(op.raw(1))
    if edges is None:
        return b(Reshape, b(Transpose, as_int64(b, op.raw(1)), perm=(1, 0)), [-1])
    if len(edges) != 2 * len(op.dims(0)) or min(edges, default=0) < 0:
        message = f"padding {list(edges)} for {len(op.dims(0))} axes"
        raise ShapeError(message, "expected nonnegative begin and end for each axis")
    return vector(b, [*edges[::2], *edges[1::2]])


def _padded(op: Operator, number: Value | None) -> Value:
    b, x, own = op.b, op[0], dtype_of(op[0])
    if own in _PADDED:
        return b(Pad, x, _pads(op), number)
    wide = DType.FLOAT32 if own.is_floating else DType.INT32 if own.bits < DType.INT32.bits else DType.INT64
    number = number if number is None else cast(b, number, wide)
    return cast(b, b(Pad, cast(b, x, wide), _pads(op), number), own)


@import_rule("PAD", moves=True, layout="rows")
def pad(op: Operator) -> Value:
    """PAD: zeros; stored integers are padded with the zero point of the result."""
    quantization = op.result or op.quantization(0)
    if op.is_raw and quantization is not None and any(quantization[3]):
        return _padded(op, scalar(op.b, quantization[3][0], quantization[0]))
    return _padded(op, None)


@import_rule("PADV2", moves=(0, 2), layout="rows")
def padv2(op: Operator) -> Value:
    """PADV2: a given fill value."""
    return _padded(op, op.b(Reshape, op[2], []) if op.dims(2) else op[2])


@import_rule("MIRROR_PAD", moves=True, layout="rows")
def mirror_pad(op: Operator) -> Value:
    """MIRROR_PAD: reflection, with the border repeated in symmetric mode."""
    b, x = op.b, op[0]
    edges = integers(op.raw(1))
    if edges is None:
        message = "mirror padding must be constant"
        raise UnsupportedError(message)
    if len(edges) != 2 * len(op.dims(0)):
        message = f"padding {list(edges)} for {len(op.dims(0))} axes"
        raise ShapeError(message, "expected begin and end for each axis")
    is_symmetric = int(op.option("mode")) == _SYMMETRIC
    if not is_symmetric and dtype_of(x) is DType.FLOAT32:
        return b(Pad, x, _pads(op), mode="reflect")
    for axis, (begin, end) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
        if not begin and not end:
            continue
        n = b.dims(x)[axis]
        if not isinstance(n, int):
            message = "the mirrored axis must have a static size"
            raise UnsupportedError(message)
        most = n if is_symmetric else n - 1
        if min(begin, end) < 0 or max(begin, end) > most:
            message = f"mirror padding {begin} and {end} of an axis of size {n}, expected 0 to {most}"
            raise ShapeError(message)
        indices = np.pad(np.arange(reserve(n)), (begin, end), "symmetric" if is_symmetric else "reflect")
        x = b(Gather, x, indices.tolist(), axis=axis)
    return x


@import_rule("STABLEHLO_PAD", is_raw=True)
def stablehlo_pad(op: Operator) -> Value:
    """STABLEHLO_PAD: fill value around and between elements; negative edge padding crops."""
    low, high, interior = (
        tuple(op.option(name, ())) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    rank = len(op.dims(0))
    if {len(low), len(high), len(interior)} != {rank} or min(interior, default=0) < 0:
        message = f"edge padding {low} and {high}, interior padding {interior} for an operand of rank {rank}"
        raise ShapeError(message, "expected one value per axis, and interior padding of at least 0")
    x = interleave_fill(op.b, op.raw(0), interior, op.raw(1))
    return pad_edges(op.b, x, low, high, op.raw(1))


@import_rule("DILATE", is_raw=True)
def dilate(op: Operator) -> Value:
    """DILATE: insert a fill value between elements."""
    dilations = needed(op.raw(1), "the strides")
    if len(dilations) != len(op.dims(0)) or min(dilations, default=1) < 1:
        message = f"the dilations are {list(dilations)}, expected {len(op.dims(0))} positive values"
        raise ShapeError(message, "expected one positive integer for each axis")
    return interleave_fill(op.b, op.raw(0), [n - 1 for n in dilations], op.raw(2))


def interleave_fill(b: Builder, x: Value, gaps: Sequence[int], number: Value) -> Value:
    """Insert copies of a fill value between elements of each axis."""
    dims = list(sizes(b.dims(x), "the dilated tensor"))
    for axis, gap in enumerate(gaps):
        if not gap or dims[axis] < 2:
            continue
        split = [*dims[:axis], dims[axis], 1, *dims[axis + 1 :]]
        x = b(Reshape, x, split)
        behind = [gap if place == axis + 1 else 0 for place in range(len(split))]
        x = pad_edges(b, x, [0] * len(split), behind, number)
        reserve(dims[axis], 1 + gap)
        dims[axis] *= 1 + gap
        x = b(Reshape, x, dims)
        dims[axis] -= gap
        x = b(Slice, x, [0], [dims[axis]], [axis])
    return x


def pad_edges(b: Builder, x: Value, low: Sequence[int], high: Sequence[int], number: Value) -> Value:
    """Pad each axis with a fill value; negative pads crop."""
    if not any(low) and not any(high):
        return x
    own = dtype_of(x)
    wide = nearest(own, _PADDED)
    scalar_ = b(Reshape, number, []) if b.dims(number) else number
    return cast(b, b(Pad, cast(b, x, wide), vector(b, [*low, *high]), cast(b, scalar_, wide)), own)


@CenterCropPad.export_rule("tflite")
def export_center_crop_pad(
    b: Builder, input_data: Value, shape: Value, *, axes: tuple[int, ...] | None = None
) -> tuple[Value, ...]:
    """Export CenterCropPad: crop, then pad; the odd element is at the end."""
    rank = len(b.dims(input_data))
    chosen = range(rank) if axes is None else [axis % rank for axis in axes]
    dims = [b.dims(input_data)[axis] for axis in chosen]
    own = [n for n in dims if isinstance(n, int)]
    if integers(shape) is None or len(own) < len(dims):
        axes_ = vector(b, list(chosen))
        lengths = vector(b, own) if len(own) == len(dims) else b(Gather, b(Shape, input_data), axes_)
        return (_crop_or_pad_dynamic(b, input_data, lengths, as_int64(b, shape), axes_),)
    starts, ends, before, behind = [], [], [0] * rank, [0] * rank
    for axis, n, wanted in zip(
        chosen, own, needed(shape, "the target shape of centered cropping or padding"), strict=True
    ):
        m = int(wanted)
        start = max(n - m, 0) // 2
        starts.append(start)
        ends.append(start + min(n, m))
        before[axis] = max(m - n, 0) // 2
        behind[axis] = max(m - n, 0) - before[axis]
    cut = b(Slice, input_data, starts, ends, list(chosen))
    return (b(Pad, cut, [*before, *behind]),)


def _crop_or_pad_dynamic(b: Builder, x: Value, own: Value, wanted: Value, axes: Value) -> Value:
    """Crop and pad to dynamic sizes."""
    n, m = (cast(b, each, DType.INT32) for each in (own, wanted))
    zero, two = b.like(n, 0), b.like(n, 2)
    start = b(Div, b(Max, b(Sub, n, m), zero), two)
    cut = b(Slice, x, *(as_int64(b, each) for each in (start, b(Add, start, b(Min, n, m)))), axes)
    more = b(Max, b(Sub, m, n), zero)
    before = b(Div, more, two)
    return b(Pad, cut, as_int64(b, b(Concat, before, b(Sub, more, before), axis=0)), None, axes)
