"""Padding as ONNX Runtime's own domain has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.rules.com_microsoft.binding import import_rule
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Squeeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("Pad")
def pad(b: Builder, data: Value, pads: Value, value: Value | None = None, *, mode: str = "constant") -> Value:
    """Pad as in the default domain; `pads` may have rank 2, `value` rank 1."""
    flat = b(Squeeze, pads) if len(b.dims(pads)) == 2 else pads
    return b(Pad, data, flat, None if value is None else b(Squeeze, value), mode=mode)
