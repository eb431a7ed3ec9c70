"""Shapes as ONNX Runtime's own domain changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.onnx.rules.com_microsoft.binding import import_rule
from graphport.ops.pages.arithmetic import Cast
from graphport.ops.pages.reshape import Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("ExpandDims")
def expand_dims(b: Builder, x: Value, axis: Value) -> Value:
    """Insert an axis."""
    return b(Unsqueeze, x, b(Cast, axis, to=DType.INT64))
