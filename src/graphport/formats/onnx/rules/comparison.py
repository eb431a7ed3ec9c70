"""Comparison and logic of older opsets, with explicit broadcasting along an axis."""

from __future__ import annotations

from graphport.formats.onnx.rules.older import OLD_BROADCAST, RULES

OLD_BROADCAST.lower(
    """
Equal, Less, Greater, And, Or, Xor(a, b, *, axis=None, broadcast=0, consumed_inputs: ignored = None)
    -> _(a, from_axis(b, a, axis) if broadcast and axis is not None else b)
""",
    until=6,
)


RULES.export_rules(
    """
GreaterOrEqual -> Or(Greater(a, b), Equal(a, b))
LessOrEqual -> Or(Less(a, b), Equal(a, b))
""",
    until=11,
)
