"""Older forms of padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import UNKNOWN
from graphport.ops.dialects.onnx.older import integers, number, unsupported
from graphport.ops.pages.padding import Pad
from graphport.ops.views.padding import PadView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@Pad.lower("onnx", until=10)
def pad_10(b: Builder, data: Value, *, mode: str = "constant", pads: tuple[int, ...], value: float = 0.0) -> Value:
    """Amounts and value were attributes."""
    return b(Pad, data, b.constant(pads), b.like(data, value) if mode == "constant" and value else None, mode=mode)


@Pad.lower("onnx", until=1)
def pad_1(b: Builder, data: Value, *, mode: str = "constant", paddings: tuple[int, ...], value: float = 0.0) -> Value:
    """The amounts had another name."""
    return pad_10(b, data, mode=mode, pads=paddings, value=value)


@PadView.lift("onnx", until=18)
def pad_on_all_axes(b: Builder, op: PadView) -> Value | None:
    """All axes were padded, up to opset 10 by attributes; nothing wrapped around."""
    unsupported((op.mode == "wrap", "there was no mode wrap"))
    is_new = b.version is not None and b.version >= 11
    if is_new and op.axes is None:
        return None
    amounts = list(integers(op.pads, "pads"))
    if op.axes is not None:
        rank, places = len(b.dims(op.data)), integers(op.axes, "axes")
        whole = [0] * (2 * rank)
        for number_, axis in enumerate(places):
            whole[axis % rank] = amounts[number_]
            whole[axis % rank + rank] = amounts[number_ + len(places)]
        amounts = whole
    if is_new:
        return b.word("Pad", op.data, b.constant(amounts), op.constant_value, mode=op.mode)[0]
    value = 0.0 if op.constant_value is None else number(op.constant_value, "value")
    name = "paddings" if b.version is not None and b.version < 2 else "pads"
    return b.word("Pad", op.data, facts=[UNKNOWN], mode=op.mode, value=float(value), **{name: tuple(amounts)})[0]
