"""Padding in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.emitting import emitted_extent, emitted_gather, emitted_scalar
from graphport.ops.declare import lower
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.padding import CenterCropPad, Pad
from graphport.ops.definitions.reshape import Concat, Identity
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import (
    as_scalar,
    as_vector,
    check_counts,
    float_element,
    index,
    integers,
    needed,
    sizes,
    vector,
)
from graphport.ops.views.padding import PadView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


@lower("openvino", "opset1.Pad")
@lower("openvino", "opset12.Pad")
def pad(
    b: Builder, x: Value, pads_begin: Value, pads_end: Value, value: Value | None = None, *, pad_mode: str
) -> Value:
    """Convert Pad; negative amounts crop in constant mode."""
    if pad_mode == "symmetric":
        begins, ends = (needed(pads, "symmetric padding") for pads in (pads_begin, pads_end))
        check_counts(len(b.dims(x)), pads_begin=begins, pads_end=ends)
        return _symmetric(b, x, begins, ends)
    known = [integers(pads) for pads in (pads_begin, pads_end)]
    if known[0] is not None and known[1] is not None:
        pads = vector(b, [*known[0], *known[1]])
    else:
        pads = b(Concat, as_vector(b, pads_begin), as_vector(b, pads_end), axis=0)
    if pad_mode == "constant":
        return b(Pad, x, pads, None if value is None else as_scalar(b, value))
    return b(Pad, x, pads, mode=pad_mode)


def _symmetric(b: Builder, x: Value, begins: Sequence[int], ends: Sequence[int]) -> Value:
    """Symmetric padding: mirror including the edge element, by reversed slices."""
    last = int(np.iinfo(np.int64).min)
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        at, back = vector(b, [axis]), vector(b, [-1])
        parts = [x]
        if begin > 0:
            parts.insert(0, b(Slice, x, [begin - 1], [last], at, back))
        if end > 0:
            parts.append(b(Slice, x, back, [-end - 1], at, back))
        x = b(Concat, *parts, axis=axis) if len(parts) > 1 else x
        if begin < 0 or end < 0:
            stop = end if end < 0 else int(np.iinfo(np.int64).max)
            x = b(Slice, x, [max(-begin, 0)], [stop], at)
    return x if any((*begins, *ends)) else b(Identity, x)


@PadView.export_rule("openvino")
def export_pad(b: Builder, op: PadView) -> Exported:
    rank = len(b.dims(op.data))
    known = integers(op.pads)
    chosen = range(rank) if op.axes is None else [axis % rank for axis in needed(op.axes, "the padded axes")]
    if known is None:
        if op.mode == "wrap":
            return None
        begins, ends = _computed(b, op.pads, chosen, rank)
    else:
        half = len(known) // 2
        amounts = [[0] * rank, [0] * rank]
        for number, axis in enumerate(chosen):
            amounts[0][axis], amounts[1][axis] = known[number], known[half + number]
        if op.mode == "wrap":
            return (_wrapped(b, op.data, *amounts),)
        begins, ends = (vector(b, side) for side in amounts)
    if op.mode != "constant":
        return b.emit("opset12.Pad", op.data, begins, ends, pad_mode=op.mode)
    fill = b.like(op.data, 0) if op.constant_value is None else op.constant_value
    fill = emitted_scalar(b, fill)
    if float_element(fill) is not None:
        return b.emit("opset12.Pad", op.data, begins, ends, fill, pad_mode=op.mode)
    # OpenVINO's CPU plugin treats a computed fill value as 0, so the padded elements are selected by a mask.
    shape = emit(b, "opset3.ShapeOf", op.data)
    inner = emit(b, "opset3.Broadcast", b.constant(np.array(1, np.int32)), shape, mode="numpy")
    zero = b.constant(np.array(0, np.int32))
    marks = emit(b, "opset12.Pad", inner, begins, ends, zero, pad_mode=op.mode)
    padded = emit(b, "opset12.Pad", op.data, begins, ends, b.like(op.data, 0), pad_mode=op.mode)
    return b.emit("opset1.Select", emit(b, "opset1.Equal", marks, 1), padded, fill)


def _computed(b: Builder, pads: Value, chosen: Sequence[int], rank: int) -> list[Value]:
    """Expand pads of some axes to begins and ends of all axes."""
    # The appended 0 is the amount for all other axes.
    extended = emit(b, "opset1.Concat", pads, b.like(pads, [0]), axis=0)
    count, place = len(chosen), {axis: number for number, axis in enumerate(chosen)}
    sides = [[shift + place[n] if n in place else 2 * count for n in range(rank)] for shift in (0, count)]
    return [emitted_gather(b, extended, side) for side in sides]


def _wrapped(b: Builder, x: Value, begins: Sequence[int], ends: Sequence[int]) -> Value:
    """Circular padding: gather indices modulo the length."""
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if not begin and not end:
            continue
        length = b.dims(x)[axis]
        if not isinstance(length, int):
            x = _wrapped_open(b, x, axis, begin, end)
            continue
        # Cropping comes first; the remainder is repeated.
        reserve(length + max(begin, 0) + max(end, 0), what="the padded axis")
        every = np.arange(length)[max(-begin, 0) : length - max(-end, 0)]
        indices = np.pad(every, (max(begin, 0), max(end, 0)), "wrap")
        x = emitted_gather(b, x, indices.tolist(), axis)
    return x


def _wrapped_open(b: Builder, x: Value, axis: int, begin: int, end: int) -> Value:
    """Circular padding of a dynamic axis; indices are computed at run time."""
    cut = max(-begin, 0)
    rest = emit(b, "opset1.Add", emitted_extent(b, x, axis), -cut - max(-end, 0))
    stop = emit(b, "opset1.Add", rest, max(end, 0))
    counted = emit(b, "opset4.Range", index(b, -max(begin, 0)), stop, index(b, 1), output_type=DType.INT64)
    indices = emit(b, "opset1.Add", emit(b, "opset1.FloorMod", counted, rest), cut)
    return emitted_gather(b, x, indices, axis)


@CenterCropPad.export_rule("openvino")
def export_center_crop_pad(
    b: Builder, input_data: Value, shape: Value, *, axes: tuple[int, ...] | None = None
) -> Exported:
    """Export CenterCropPad as Pad with negative amounts for crops; an odd element is at the end."""
    rank = len(b.dims(input_data))
    chosen = range(rank) if axes is None else [axis % rank for axis in axes]
    wanted = needed(shape, "the target shape of centered cropping or padding")
    own = sizes([b.dims(input_data)[axis] for axis in chosen], "a cropped or padded dim")
    begins, ends = [0] * rank, [0] * rank
    for axis, n, m in zip(chosen, own, wanted, strict=True):
        begins[axis] = (m - n) // 2 if m >= n else -((n - m) // 2)
        ends[axis] = m - n - begins[axis]
    fill = b.like(input_data, 0)
    return b.emit("opset12.Pad", input_data, vector(b, begins), vector(b, ends), fill, pad_mode="constant")
