"""Export rules of padding to ATen."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN
from graphport.formats.pytorch.rules.emitting import (
    DIALECT,
    Size,
    aten,
    combined,
    element_of,
    elements_of,
    size_of,
    with_fact,
)
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.padding.center import CenterCropPad
from graphport.ops.lowering.operands import cast, dtype_of, integers
from graphport.ops.lowering.operands import sizes as sizes_of_static
from graphport.ops.views.padding import PadView

_INEXACT = (DType.INT64, DType.UINT64)
_UNSIGNED = (DType.UINT16, DType.UINT32, DType.UINT64)


@PadView.export_rule(DIALECT)
def export_pad(b: Builder, op: PadView) -> Value:
    """Export Pad; modes other than constant select elements by index along each axis."""
    rank = len(b.dims(op.data))
    known = None if op.axes is None else integers(op.axes)
    axes = tuple(range(rank)) if known is None else tuple(n % rank for n in known)
    pads = _of_all_axes(b, op.pads, op.axes, rank) if op.axes is not None and known is None else op.pads
    sizes = elements_of(b, pads, op.data)
    pairs = {axis: (sizes[place], sizes[len(axes) + place]) for place, axis in enumerate(axes)}
    if op.mode == "constant":
        return _constant(b, op, pairs, rank)
    x = op.data
    for axis, (before, after) in pairs.items():
        size = b.dims(op.data)[axis]
        if isinstance(before, Value) or isinstance(after, Value) or isinstance(size, Symbolic):
            x = _by_torch(b, x, op.mode, axis, (before, after))
            continue
        if before == after == 0:
            continue
        mode: Any = op.mode
        reserve(size + max(before, 0) + max(after, 0), what="padded indices")
        index = np.pad(np.arange(size), (max(before, 0), max(after, 0)), mode=mode)[max(-before, 0) :]
        index = index[: len(index) + min(after, 0)]
        x = aten(b, "index_select", x, axis, b.constant(index.astype(np.int64)))
    return x if x is not op.data else aten(b, "alias", x)


def _of_all_axes(b: Builder, pads: Value, axes: Value, rank: int) -> Value:
    """Scatter the pads of run-time axes to pads of all axes."""
    (count,) = sizes_of_static(b.dims(axes), "the number of axes")
    places = aten(b, "remainder.Scalar", cast(b, axes, DType.INT64), rank)
    own = cast(b, pads, DType.INT64)
    found = aten(b, "full", (2 * rank,), 0, dtype=DType.INT64)
    for offset, start in ((0, 0), (rank, count)):
        part = aten(b, "slice.Tensor", own, 0, start, start + count)
        found = aten(b, "scatter.src", found, 0, aten(b, "add.Scalar", places, offset), part)
    return with_fact(found, DType.INT64, (2 * rank,))


_NAMES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _by_torch(b: Builder, x: Value, mode: str, axis: int, pair: tuple[Size, Size]) -> Value:
    """Pad one axis with a run-time size or pad: move it to the last axis of a tensor of rank 3."""
    own = dtype_of(x)
    if any(isinstance(n, int) and n < 0 for n in pair) or own in _INEXACT:
        message = f"mode {mode} requires constant padding of an axis of constant size"
        raise UnsupportedError(message)
    rank = len(b.dims(x))
    order = [*(other for other in range(rank) if other != axis), axis]
    moved = aten(b, "permute", cast(b, x, own if own.is_floating else DType.FLOAT64), order)
    sizes = [size_of(b, moved, place) for place in range(rank)]
    flat = aten(b, "reshape", moved, (1, -1, sizes[-1]))
    wide = aten(b, "pad", flat, pair, _NAMES[mode])
    back = aten(b, "reshape", wide, (*sizes[:-1], -1))
    return cast(b, aten(b, "permute", back, [int(place) for place in np.argsort(order)]), own)


def _constant(b: Builder, op: PadView, pairs: dict[int, tuple[Size, Size]], rank: int) -> Value:
    own = dtype_of(op.data)
    wide = DType.INT64 if own in _UNSIGNED else own
    number = 0.0 if op.constant_value is None else element_of(b, op.constant_value)
    flat: list[Size] = []
    for axis in reversed(range(rank)):
        flat += pairs.get(axis, (0, 0))
    while len(flat) > 2 and flat[-1] == 0 and flat[-2] == 0 and not isinstance(flat[-1], Value):
        flat = flat[:-2]
    x = cast(b, op.data, wide)
    if own is DType.BOOL:
        x = aten(b, "to.dtype", op.data, DType.UINT8)
        number = int(number) if not isinstance(number, Value) else number
        return aten(b, "to.dtype", aten(b, "constant_pad_nd", x, flat, number), DType.BOOL)
    if not own.is_floating and isinstance(number, float):
        number = int(number)
    y = with_fact(aten(b, "constant_pad_nd", x, flat, number), wide, (OPEN,) * rank)
    return cast(b, y, own)


@CenterCropPad.export_rule(DIALECT)
def export_center_crop_pad(b: Builder, input: Value, shape: Value, *, axes: tuple[int, ...] | None = None) -> Value:
    """Export CenterCropPad as Pad, which crops for negative pads; an odd difference adds one at the end."""
    rank = len(b.dims(input))
    places = tuple(range(rank)) if axes is None else tuple(axis % rank for axis in axes)
    wanted = elements_of(b, shape, input)
    pairs: dict[int, tuple[Size, Size]] = {}
    for axis, size in zip(places, wanted, strict=True):
        own = size_of(b, input, axis)
        pairs[axis] = _halves(b, size, own)
    flat: list[Size] = []
    for axis in reversed(range(rank)):
        flat += pairs.get(axis, (0, 0))
    return aten(b, "constant_pad_nd", input, flat, 0.0 if dtype_of(input).is_floating else 0)


def _halves(b: Builder, size: Size, own: Size) -> tuple[Size, Size]:
    """Split the difference of two sizes into pads for both ends, the first rounded toward zero."""
    if isinstance(size, int) and isinstance(own, int):
        more = size - own
        before = int(more / 2)
        return before, more - before
    difference = combined(b, "sub", size, own)
    tensor = aten(b, "full", (), difference, dtype=DType.INT64)
    half = element_of(b, aten(b, "div.Tensor_mode", tensor, b.constant(2), rounding_mode="trunc"))
    return half, combined(b, "sub", difference, half)
