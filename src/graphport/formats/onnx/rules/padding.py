"""Older forms of padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import UNKNOWN
from graphport.formats.onnx.rules.older import RULES, constant_number, integers, unsupported
from graphport.ops.views.padding import PadView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


RULES.lower(
    """
# Amounts and value were attributes.
Pad(data, *, mode="constant", pads, value=0.0)
    -> mode == "constant" and value != 0: Pad(data, pads, value, mode=mode)
    -> Pad(data, pads, mode=mode)
""",
    until=10,
)
RULES.lower(
    """
# The amounts had another name.
Pad(data, *, mode="constant", paddings, value=0.0)
    -> mode == "constant" and value != 0: Pad(data, paddings, value, mode=mode)
    -> Pad(data, paddings, mode=mode)
""",
    until=1,
)


@PadView.export_rule("onnx", until=18)
def pad_on_all_axes(b: Builder, op: PadView) -> Value | None:
    """Export Pad to opsets 1 to 18: no `wrap`, no operand `axes`; up to opset 10, pads are attributes."""
    unsupported((op.mode == "wrap", "mode wrap is not supported"))
    is_new = b.version is not None and b.version >= 11
    if is_new and op.axes is None:
        return None
    amounts = list(integers(op.pads, "pads"))
    if op.axes is not None:
        rank, listed = len(b.dims(op.data)), integers(op.axes, "axes")
        whole = [0] * (2 * rank)
        for number_, axis in enumerate(listed):
            whole[axis % rank] = amounts[number_]
            whole[axis % rank + rank] = amounts[number_ + len(listed)]
        amounts = whole
    if is_new:
        return b.emit("Pad", op.data, b.constant(amounts), op.constant_value, mode=op.mode)[0]
    value = 0.0 if op.constant_value is None else constant_number(op.constant_value, "value")
    name = "paddings" if b.version is not None and b.version < 2 else "pads"
    return b.emit("Pad", op.data, facts=[UNKNOWN], mode=op.mode, value=float(value), **{name: tuple(amounts)})[0]
