"""Older forms of padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import UNKNOWN
from graphport.ops.dialects.onnx.older import integers, number, unsupported
from graphport.ops.pages.padding import Pad

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


@Pad.lift("onnx", until=18)
def pad_on_all_axes(
    b: Builder,
    data: Value,
    pads: Value,
    constant_value: Value | None = None,
    axes: Value | None = None,
    *,
    mode: str = "constant",
) -> Value | None:
    """All axes were padded, up to opset 10 by attributes; nothing wrapped around."""
    unsupported((mode == "wrap", "there was no mode wrap"))
    is_new = b.version is not None and b.version >= 11
    if is_new and axes is None:
        return None
    amounts = list(integers(pads, "pads"))
    if axes is not None:
        rank, places = len(b.dims(data)), integers(axes, "axes")
        whole = [0] * (2 * rank)
        for number_, axis in enumerate(places):
            whole[axis % rank] = amounts[number_]
            whole[axis % rank + rank] = amounts[number_ + len(places)]
        amounts = whole
    if is_new:
        return b.word("Pad", data, b.constant(amounts), constant_value, mode=mode)[0]
    value = 0.0 if constant_value is None else number(constant_value, "value")
    name = "paddings" if b.version is not None and b.version < 2 else "pads"
    return b.word("Pad", data, facts=[UNKNOWN], mode=mode, value=float(value), **{name: tuple(amounts)})[0]
