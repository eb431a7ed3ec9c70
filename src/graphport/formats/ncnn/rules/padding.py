"""Padding of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from graphport.core.budget import bounded, reserve
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import emitted, lengths_of
from graphport.formats.pytorch.rules.functions.padding import padded
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.operands import sizes, vector
from graphport.ops.pages.indexing import Gather, Slice
from graphport.ops.pages.padding import source_indices
from graphport.ops.pages.reshape import Concat, Identity
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.padding import PadView

_MODES = ("constant", "replicate", "reflect")


@layer("Padding")
def padding(at: Layer) -> Value:
    """Padding: of width and height, and of the axis before them."""
    at.refuse(6)
    mode = at.choice(4, _MODES, "padding")
    pairs = [(at.integer(7), at.integer(8)), (at.integer(0), at.integer(1)), (at.integer(2), at.integer(3))]
    used = pairs[-min(at.rank, 3) :]
    if any(pair != (0, 0) for pair in pairs[: 3 - len(used)]):
        message = "padding of axes that are not there"
        raise UnsupportedError(message)
    return padded(at.b, at.x, used, mode, at.real(5))


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@PadView.lift("ncnn")
def lift_pad(b: Builder, op: PadView) -> Value:
    """Export Pad: of height, width and the axis before them; other axes and wrap mode by concatenation."""
    data, mode = op.data, op.mode
    dims = b.dims(data)
    numbers = constant_numbers(op.pads)
    padded_axes = tuple(range(len(dims))) if op.axes is None else constant_numbers(op.axes)
    filler = (0,) if op.constant_value is None else constant_numbers(op.constant_value)
    if numbers is None or padded_axes is None or filler is None:
        message = "what is added, and how much, is computed"
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
        x = _pieces(b, x, axis, pairs[axis], mode, float(filler[0]))
    return b(Identity, x) if x is data else x


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
    """Padding below 0 takes away."""
    gone = [axis for axis, pair in enumerate(pairs) if min(pair) < 0]
    if not gone:
        return x
    lengths = sizes([b.dims(x)[axis] for axis in gone], "what is cut")
    starts = [max(-pairs[axis][0], 0) for axis in gone]
    stops = [length + min(pairs[axis][1], 0) for axis, length in zip(gone, lengths, strict=True)]
    return b(Slice, x, vector(b, starts), vector(b, stops), vector(b, gone))


def _pieces(b: Builder, x: Value, axis: int, pair: tuple[int, int], mode: str, filler: float) -> Value:
    """Return the slices before and after the elements."""
    dims = sizes(b.dims(x), "what is padded")
    reserve(sum(pair), what="places that are padded")
    if mode == "constant":
        shapes = [(*dims[:axis], count, *dims[axis + 1 :]) for count in pair]
        slabs = [b.constant(np.full(bounded(shape), filler, np.float32)) if shape[axis] else None for shape in shapes]
    else:
        indices = source_indices(dims[axis], pair, mode).tolist()
        ends = (indices[: pair[0]], indices[pair[0] + dims[axis] :])
        slabs = [b(Gather, x, vector(b, end), axis=axis) if end else None for end in ends]
    parts = (slabs[0], x, slabs[1])
    return b(Concat, *(part for part in parts if part is not None), axis=axis)
