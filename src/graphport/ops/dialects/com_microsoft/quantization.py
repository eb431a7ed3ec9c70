"""Operators of ONNX Runtime's own domain on integers that stand for numbers.

Each is what it says of the numbers: dequantize, compute, quantize. ONNX Runtime computes some of them from tables or in
fixed point, and may come out one step aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.dialects.com_microsoft.binding import only, real, stepped, word
from graphport.ops.dialects.onnx.activation import softmax_12
from graphport.ops.pages.activation import LeakyRelu, Sigmoid, Softmax
from graphport.ops.pages.arithmetic import Add, Mul
from graphport.ops.pages.comparison import Where
from graphport.ops.pages.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.pages.reshape import Concat

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


@word("QuantizeLinear")
def quantize_linear(b: Builder, x: Value, scale: Value, zero_point: Value | None = None, *, axis: int = 1) -> Value:
    """As in the default domain, of types that it had not at first."""
    return b(QuantizeLinear, x, scale, zero_point, axis=axis)


@word("DequantizeLinear")
def dequantize_linear(b: Builder, x: Value, scale: Value, zero_point: Value | None = None, *, axis: int = 1) -> Value:
    """As in the default domain, of types that it had not at first."""
    return b(DequantizeLinear, x, scale, zero_point, axis=axis)


def _binary(name: str, page: Page) -> None:
    @word(name)
    def lowered(
        b: Builder,
        x: Value,
        x_scale: Value,
        x_zero_point: Value | None,
        y: Value,
        y_scale: Value,
        y_zero_point: Value | None,
        z_scale: Value,
        z_zero_point: Value | None = None,
    ) -> Value:
        z = b(page, real(b, x, x_scale, x_zero_point), real(b, y, y_scale, y_zero_point))
        return stepped(b, z, z_scale, z_zero_point, x)


_binary("QLinearAdd", Add)
_binary("QLinearMul", Mul)


@word("QLinearSigmoid")
def qlinear_sigmoid(
    b: Builder, x: Value, x_scale: Value, x_zero_point: Value | None, y_scale: Value, y_zero_point: Value | None = None
) -> Value:
    """The logistic function of the numbers."""
    return stepped(b, b(Sigmoid, real(b, x, x_scale, x_zero_point)), y_scale, y_zero_point, x)


@word("QLinearLeakyRelu")
def qlinear_leaky_relu(
    b: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    alpha: float = 0.01,
) -> Value:
    """The leaky rectifier of the numbers."""
    return stepped(b, b(LeakyRelu, real(b, x, x_scale, x_zero_point), alpha=alpha), y_scale, y_zero_point, x)


@word("QLinearSoftmax")
def qlinear_softmax(
    b: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    axis: int = -1,
    opset: int,
) -> Value:
    """Softmax of the numbers, as it was in the opset that is named."""
    numbers = real(b, x, x_scale, x_zero_point)
    y = b(Softmax, numbers, axis=axis) if opset >= 13 else softmax_12(b, numbers, axis=axis)
    return stepped(b, y, y_scale, y_zero_point, x)


@word("QLinearConcat")
def qlinear_concat(b: Builder, scale: Value, zero_point: Value, *parts: Value, axis: int) -> Value:
    """The numbers of all parts, each with its own scale and zero point, one behind another."""
    only("parts of three operands", holds=bool(parts) and len(parts) % 3 == 0)
    numbers = [real(b, *parts[place : place + 3]) for place in range(0, len(parts), 3)]
    return stepped(b, b(Concat, *numbers, axis=axis), scale, zero_point, parts[0])


@word("QLinearWhere")
def qlinear_where(
    b: Builder,
    condition: Value,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    y: Value,
    y_scale: Value,
    y_zero_point: Value,
    z_scale: Value,
    z_zero_point: Value,
) -> Value:
    """The numbers of one or the other."""
    z = b(Where, condition, real(b, x, x_scale, x_zero_point), real(b, y, y_scale, y_zero_point))
    return stepped(b, z, z_scale, z_zero_point, x)
