"""Padding of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from graphport.core.budget import bounded, reserve
from graphport.core.dims import bounds
from graphport.core.facts import TensorFact
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import emitted, lengths_of
from graphport.formats.ncnn.rules.indexing import crop_axes
from graphport.formats.pytorch.rules.functions.padding import padded
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.padding import Pad, source_indices
from graphport.ops.definitions.reshape import Concat, Identity
from graphport.ops.lowering.operands import sizes
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.padding import PadView

_MODES = ("constant", "replicate", "reflect")


@layer("Padding")
def padding(at: Layer) -> Value:
    """Padding: pad width, height and the axis before them."""
    at.refuse(6)
    mode = at.choice(4, _MODES, "padding")
    pairs = [(at.integer(7), at.integer(8)), (at.integer(0), at.integer(1)), (at.integer(2), at.integer(3))]
    used = pairs[-min(at.rank, 3) :]
    if any(pair != (0, 0) for pair in pairs[: 3 - len(used)]):
        message = "padding of more axes than the blob has"
        raise UnsupportedError(message)
    return padded(at.b, at.x, used, mode, at.float_value(5))


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@PadView.export_rule("ncnn")
def export_pad(b: Builder, op: PadView) -> Value:
    """Export Pad: of height, width and the axis before them; other axes and wrap mode by concatenation."""
    data, mode = op.data, op.mode
    dims = b.dims(data)
    numbers = constant_numbers(op.pads)
    padded_axes = tuple(range(len(dims))) if op.axes is None else constant_numbers(op.axes)
    filler = (0,) if op.constant_value is None else constant_numbers(op.constant_value)
    if numbers is None and padded_axes is not None and filler is not None:
        return _pad_and_crop(b, op, [int(axis) % len(dims) for axis in padded_axes])
    if numbers is None or padded_axes is None or filler is None:
        message = "pads, axes and constant_value must be constant"
        raise UnsupportedError(message)
    pairs = [(0, 0)] * len(dims)
    for index, place in enumerate(padded_axes):
        pairs[int(place) % len(dims)] = (int(numbers[index]), int(numbers[index + len(padded_axes)]))
    x = _cut(b, data, pairs)
    pairs = [(max(p, 0), max(q, 0)) for p, q in pairs]
    rest = [axis for axis, pair in enumerate(pairs) if pair != (0, 0)]
    is_inner = all(axis >= max(1, len(dims) - 3) for axis in rest)
    if x is data and mode in _KINDS and batch_of(data) == 0 and dims and is_inner and isfinite(filler[0]):
        lengths_of(b, data)
        return _padded(b, data, pairs, _KINDS[mode], float(filler[0]))
    for axis in rest:
        x = _concat_padding(b, x, axis, pairs[axis], mode, float(filler[0]))
    return b(Identity, x) if x is data else x


def _pad_and_crop(b: Builder, op: PadView, axes: list[int]) -> Value:
    """Pad by the upper bounds of computed amounts, and crop to the amounts.

    Raises:
        UnsupportedError: an amount has no bounds, or a reflection may be longer than its axis.
    """
    data, amounts = op.data, op.pads.fact.elements if isinstance(op.pads.fact, TensorFact) else None
    ranges = [bounds(amount) for amount in amounts or ()]
    most = [high for low, high in ranges if low is not None and low >= 0 and high is not None and high <= _MAX_AMOUNT]
    dims, count = b.dims(data), len(axes)
    if not amounts or len(most) < len(amounts) or len(amounts) != 2 * count or not b.outcome.shape:
        message = "the pads are computed at run time and have no upper bound"
        raise UnsupportedError(message)
    least = [bounds(dims[axis])[0] or 0 for axis in axes]
    if op.mode == "wrap" or (op.mode == "reflect" and any(n >= m for n, m in zip(most, [*least, *least], strict=True))):
        message = f"{data.name} is {data.fact}: an axis may be shorter than its padding"
        raise UnsupportedError(message)
    wide = b(Pad, data, most, op.constant_value, axes, mode=op.mode)
    starts = [high - amount for high, amount in zip(most[:count], amounts[:count], strict=True)]
    stops = [start + b.outcome.dims[axis] for start, axis in zip(starts, axes, strict=True)]
    own, batch = b.dims(wide), batch_of(wide)
    cuts = [cut for cut in zip(axes, starts, stops, strict=True) if cut[0] != batch and cut[1:] != (0, own[cut[0]])]
    if not cuts:
        return b(Identity, wide)
    where, begins, ends = (list(column) for column in zip(*cuts, strict=True))
    return crop_axes(b, wide, (where, begins, ends), b.outcome)


_MAX_AMOUNT = 256
"""Maximum number of elements that are added to an axis and cropped again."""
_KINDS = {"constant": 0, "edge": 1, "reflect": 2}


def _padded(b: Builder, data: Value, pairs: Sequence[tuple[int, int]], kind: int, filler: float) -> Value:
    inner = list(pairs[1:])[-3:]
    front, height, width = [(0, 0)] * (3 - len(inner)) + inner
    keyed: dict[str, Any] = {
        "p0": height[0],
        "p1": height[1],
        "p2": width[0],
        "p3": width[1],
        "p7": front[0],
        "p8": front[1],
    }
    return emitted(b, "Padding", data, **keyed, p4=kind, p5=filler)


def _cut(b: Builder, x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """Crop each axis by its negative pads."""
    gone = [axis for axis, pair in enumerate(pairs) if min(pair) < 0]
    if not gone:
        return x
    lengths = sizes([b.dims(x)[axis] for axis in gone], "the cropped tensor")
    starts = [max(-pairs[axis][0], 0) for axis in gone]
    stops = [length + min(pairs[axis][1], 0) for axis, length in zip(gone, lengths, strict=True)]
    return b(Slice, x, starts, stops, gone)


def _concat_padding(b: Builder, x: Value, axis: int, pair: tuple[int, int], mode: str, filler: float) -> Value:
    """Return the slices before and after the elements."""
    dims = sizes(b.dims(x), "the padded tensor")
    reserve(sum(pair), what="the padded axis")
    if mode == "constant":
        shapes = [(*dims[:axis], count, *dims[axis + 1 :]) for count in pair]
        slabs = [b.constant(np.full(bounded(shape), filler, np.float32)) if shape[axis] else None for shape in shapes]
    else:
        indices = source_indices(dims[axis], pair, mode).tolist()
        ends = (indices[: pair[0]], indices[pair[0] + dims[axis] :])
        slabs = [b(Gather, x, end, axis=axis) if end else None for end in ends]
    parts = (slabs[0], x, slabs[1])
    return b(Concat, *(part for part in parts if part is not None), axis=axis)
