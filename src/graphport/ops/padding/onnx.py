"""Older forms of padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.padding import Pad

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
