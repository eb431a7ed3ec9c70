"""Quantized operators of ONNX Runtime's domain.

Each is imported as dequantize, compute, quantize. ONNX Runtime computes some with tables or in fixed point, so results
may differ by one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.rules.activation import softmax_12
from graphport.formats.onnx.rules.com_microsoft.binding import RULES, dequantize, import_rule, only, stepped
from graphport.ops.definitions.reshape import Concat

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


# Each is dequantize, compute, quantize.
RULES.having(real=dequantize, stepped=stepped, softmax_12=softmax_12).lower("""
# As in the default domain, of types that it had not at first.
QuantizeLinear(x, scale, zero_point=None, *, axis=1) -> QuantizeLinear(x, scale, zero_point, axis=axis)
DequantizeLinear(x, scale, zero_point=None, *, axis=1) -> DequantizeLinear(x, scale, zero_point, axis=axis)
QLinearAdd(x, x_scale, x_zero_point, y, y_scale, y_zero_point, z_scale, z_zero_point=None)
    -> stepped(Add(real(x, x_scale, x_zero_point), real(y, y_scale, y_zero_point)), z_scale, z_zero_point, x)
QLinearMul(x, x_scale, x_zero_point, y, y_scale, y_zero_point, z_scale, z_zero_point=None)
    -> stepped(Mul(real(x, x_scale, x_zero_point), real(y, y_scale, y_zero_point)), z_scale, z_zero_point, x)
QLinearSoftmax(x, x_scale, x_zero_point, y_scale, y_zero_point=None, *, axis=-1, opset)
    -> opset >= 13: stepped(Softmax(real(x, x_scale, x_zero_point), axis=axis), y_scale, y_zero_point, x)
    -> stepped(softmax_12(real(x, x_scale, x_zero_point), axis=axis), y_scale, y_zero_point, x)
QLinearSigmoid(x, x_scale, x_zero_point, y_scale, y_zero_point=None)
    -> stepped(Sigmoid(real(x, x_scale, x_zero_point)), y_scale, y_zero_point, x)
QLinearLeakyRelu(x, x_scale, x_zero_point, y_scale, y_zero_point=None, *, alpha=0.01)
    -> stepped(LeakyRelu(real(x, x_scale, x_zero_point), alpha=alpha), y_scale, y_zero_point, x)
QLinearWhere(condition, x, x_scale, x_zero_point, y, y_scale, y_zero_point, z_scale, z_zero_point)
    -> stepped(Where(condition, real(x, x_scale, x_zero_point), real(y, y_scale, y_zero_point)),
               z_scale, z_zero_point, x)
""")


@import_rule("QLinearConcat")
def qlinear_concat(b: Builder, scale: Value, zero_point: Value, *parts: Value, axis: int) -> Value:
    """Concatenate dequantized parts, each with its own scale and zero point."""
    only("parts of three operands", holds=bool(parts) and len(parts) % 3 == 0)
    numbers = [dequantize(b, *parts[place : place + 3]) for place in range(0, len(parts), 3)]
    return stepped(b, b(Concat, *numbers, axis=axis), scale, zero_point, parts[0])
