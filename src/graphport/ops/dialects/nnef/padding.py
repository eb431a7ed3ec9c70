"""Padding in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.declare import ShapeError, lower
from graphport.ops.dialects.nnef.padding_borders import padded
from graphport.ops.pages.padding import Pad
from graphport.ops.pattern import constant_numbers
from graphport.ops.shapes import pairs

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_BORDERS = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}


@lower("nnef", "pad")
def pad(
    b: Builder, input: Value, *, padding: tuple[tuple[int, int], ...], border: str = "constant", value: float = 0.0
) -> Value:
    """One pair for each axis."""
    rank = len(b.dims(input))
    if len(padding) != rank:
        message = f"padding has {len(padding)} pairs for a tensor of rank {rank}"
        raise ShapeError(message, "one pair for each dimension")
    return padded(b, input, padding, border, value)


@Pad.lift("nnef")
def lift_pad(
    b: Builder,
    data: Value,
    pads: Value,
    constant_value: Value | None = None,
    axes: Value | None = None,
    *,
    mode: str = "constant",
) -> tuple[Value, ...] | None:
    """Amounts that are constants, and every mode but `wrap`."""
    rank = len(b.dims(data))
    amounts = constant_numbers(pads)
    chosen = tuple(range(rank)) if axes is None else constant_numbers(axes)
    value = _number(constant_value)
    if amounts is None or chosen is None or value is None or mode not in _BORDERS:
        return None
    padding = [(0, 0)] * rank
    for axis, pair in zip(chosen, pairs(amounts), strict=True):
        padding[axis % rank] = pair
    return b.word("pad", data, padding=tuple(padding), border=_BORDERS[mode], value=value)


def _number(value: Value | None) -> float | None:
    if value is None:
        return 0.0
    if value.storage is None or not value.is_constant or value.storage.dtype.kind not in "fiu":
        return None
    return float(value.storage.numpy().reshape(-1)[0])
