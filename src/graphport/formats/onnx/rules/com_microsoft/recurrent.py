"""Recurrent layers of ONNX Runtime's own domain: integer weights, and activations quantized while the model runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.rules.com_microsoft.binding import import_rule
from graphport.ops.definitions.quantization import DequantizeLinear, DynamicQuantizeLinear
from graphport.ops.definitions.recurrent import LSTM
from graphport.ops.definitions.reshape import Reshape, Transpose

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder


@import_rule("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(
    b: Builder,
    x: Value,
    w: Value,
    r: Value,
    bias: Value | None,
    sequence_lens: Value | None,
    initial_h: Value | None,
    initial_c: Value | None,
    p: Value | None,
    w_scale: Value,
    w_zero_point: Value,
    r_scale: Value,
    r_zero_point: Value,
    **attributes: Attribute,
) -> tuple[Value, ...]:
    """LSTM with dequantized weights of `x` rounded to 8 bits.

    The runtime also rounds the hidden state in each step; this rule does not.

    Shapes: w [D, I, 4H] and r [D, H, 4H], with scales [D] or [D, 4H].
    """
    weights = [_dequantized(b, *each) for each in ((w, w_scale, w_zero_point), (r, r_scale, r_zero_point))]
    x = b(DequantizeLinear, *b.results(DynamicQuantizeLinear, 3, x))
    return b.results(LSTM, b.count, x, *weights, bias, sequence_lens, initial_h, initial_c, p, **attributes)


def _dequantized(b: Builder, w: Value, scale: Value, zero_point: Value) -> Value:
    """Weights [D, K, 4H] as floats [D, 4H, K]."""
    turned = b(Transpose, w, perm=(0, 2, 1))
    if len(b.dims(scale)) == 1:
        return b(DequantizeLinear, turned, scale, zero_point, axis=0)
    rows = b(Reshape, turned, b.constant([-1, b.dims(w)[1]]))
    parameters = (b(Reshape, each, b.constant([-1])) for each in (scale, zero_point))
    return b(Reshape, b(DequantizeLinear, rows, *parameters, axis=0), b.constant(list(b.dims(turned))))
