"""Shapes as ONNX Runtime's own domain changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.onnx.rules.com_microsoft.binding import word
from graphport.ops.pages.arithmetic import Cast
from graphport.ops.pages.reshape import Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@word("ExpandDims")
def expand_dims(b: Builder, x: Value, axis: Value) -> Value:
    """A new axis at the one that is named."""
    return b(Unsqueeze, x, b(Cast, axis, to=DType.INT64))
