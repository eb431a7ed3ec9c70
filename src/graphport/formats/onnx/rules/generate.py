"""Constant and random operators of older opsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.definitions.generate import Constant, constant_value

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder


@Constant.export_rule("onnx", until=11)
def constant_as_tensor(b: Builder, **attributes: Attribute) -> Value | None:
    """Export Constant to opsets 1 to 11, which have the attribute `value` only."""
    return None if "value" in attributes else b.emit("Constant", value=constant_value(dict(attributes)))[0]
