"""Poolings of ONNX Runtime's own domain: of integers, and with the channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.rules.com_microsoft import binding
from graphport.formats.onnx.rules.com_microsoft.binding import RULES, channels_first, dequantize, import_rule, stepped
from graphport.ops.definitions.pooling import AveragePool, MaxPool

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef


@import_rule("NhwcMaxPool")
def nhwc_max_pool(b: Builder, x: Value, **window: Attribute) -> Value:
    """MaxPool between two transpositions."""
    return binding.channels_last(b, b(MaxPool, channels_first(b, x), **window))


@import_rule("QLinearAveragePool")
def qlinear_average_pool(
    b: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    channels_last: int = 0,
    **window: Attribute,
) -> Value:
    """Average pooling of dequantized integers, requantized."""
    numbers = dequantize(b, x, x_scale, x_zero_point)
    return stepped(b, _pooled(b, AveragePool, numbers, channels_last, window), y_scale, y_zero_point, x)


def _pooled(b: Builder, op_def: OpDef, x: Value, channels_last: int, window: dict[str, Attribute]) -> Value:
    if not channels_last:
        return b(op_def, x, **window)
    return binding.channels_last(b, b(op_def, channels_first(b, x), **window))


RULES.having(
    real=dequantize, stepped=stepped, channels_first=channels_first, channels_last=binding.channels_last
).lower("""
QLinearGlobalAveragePool(x, x_scale, x_zero_point, y_scale, y_zero_point=None, *, channels_last=0)
    -> numbers = real(x, x_scale, x_zero_point); channels_last == 0:
       stepped(GlobalAveragePool(numbers), y_scale, y_zero_point, x)
    -> stepped(channels_last(GlobalAveragePool(channels_first(numbers))), y_scale, y_zero_point, x)
""")
