"""Padding in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import decide_less
from graphport.formats.nnef.rules.padding_borders import padded
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.reshape import Concat, Identity
from graphport.ops.lowering.operands import slice_axis
from graphport.ops.pattern import constant_numbers
from graphport.ops.shapes import pairs
from graphport.ops.views.padding import PadView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_FARTHEST = np.iinfo(np.int64).max
_ENTRIES_OF_A_NODE = 256
_BORDERS = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}


@lower("nnef", "pad")
def pad(
    b: Builder, input: Value, *, padding: tuple[tuple[int, int], ...], border: str = "constant", value: float = 0.0
) -> Value:
    """Pad by one (begin, end) pair per axis."""
    rank = len(b.dims(input))
    if len(padding) != rank:
        message = f"padding has {len(padding)} pairs for a tensor of rank {rank}"
        raise ShapeError(message, "write one pair per axis")
    return padded(b, input, padding, border, value)


@PadView.export_rule("nnef")
def export_pad(b: Builder, op: PadView) -> tuple[Value, ...] | None:
    """Export Pad with constant amounts; circular padding by concatenation."""
    data = op.data
    rank = len(b.dims(data))
    amounts = constant_numbers(op.pads)
    chosen = tuple(range(rank)) if op.axes is None else constant_numbers(op.axes)
    value = _scalar_constant(op.constant_value)
    if amounts is None or chosen is None or value is None or op.mode not in (*_BORDERS, "wrap"):
        return None
    padding = [(0, 0)] * rank
    for axis, pair in zip(chosen, pairs(amounts), strict=True):
        padding[axis % rank] = pair
    if op.mode == "wrap":
        for axis, pair in enumerate(padding):
            data = _wrapped(b, data, axis, pair)
        return (b(Identity, data),)
    return b.emit("pad", data, padding=tuple(padding), border=_BORDERS[op.mode], value=value)


def _wrapped(b: Builder, x: Value, axis: int, pair: tuple[int, int]) -> Value:
    """Pad an axis circularly by concatenating slices, repeatedly if needed."""
    begin, end = pair
    length = b.dims(x)[axis]
    if min(begin, end) < 0 or not max(begin, end):
        if min(begin, end) < 0 < max(begin, end):
            message = "circular padding at one end of an axis and cropping at its other end"
            raise UnsupportedError(message)
        return _cut(b, x, axis, -begin, -end) if begin or end else x
    if isinstance(length, int) and length:
        rounds = begin // length, end // length
        begin, end = begin % length, end % length
    elif decide_less(length, max(begin, end)) is False:
        rounds = 0, 0
    else:
        message = f"padding by {max(begin, end)} along an axis of {length}"
        raise UnsupportedError(message)
    reserve(sum(rounds), _ENTRIES_OF_A_NODE, what="copies of a tensor")
    front = [slice_axis(b, x, axis, -begin, _FARTHEST)] if begin else []
    behind = [slice_axis(b, x, axis, 0, end)] if end else []
    return b(Concat, *front, *[x] * (1 + sum(rounds)), *behind, axis=axis)


def _cut(b: Builder, x: Value, axis: int, begin: int, end: int) -> Value:
    return slice_axis(b, x, axis, begin, -end if end else _FARTHEST)


def _scalar_constant(value: Value | None) -> float | None:
    if value is None:
        return 0.0
    if value.storage is None or not value.is_constant or value.storage.dtype.kind not in "fiu":
        return None
    return float(value.storage.numpy().reshape(-1)[0])
