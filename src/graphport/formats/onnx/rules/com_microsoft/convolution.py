"""Convolutions of ONNX Runtime's own domain: with an activation, or of integers with the channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.rules.com_microsoft.binding import (
    activated,
    channels_first,
    channels_last,
    import_rule,
    only,
)
from graphport.formats.onnx.rules.onnx_future.convolution import causal_conv_with_state
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.convolution.quantized import QLinearConv

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder


@import_rule("FusedConv")
def fused_conv(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    z: Value | None = None,
    *,
    activation: str | None = None,
    activation_params: tuple[float, ...] = (),
    **window: Attribute,
) -> Value:
    """Convolution, plus `z`, followed by an activation."""
    y = b(Conv, x, w, bias, **window)
    return activated(b, y if z is None else b(Add, y, z), activation, activation_params)


@import_rule("QLinearConv")
def qlinear_conv(
    b: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    w: Value,
    w_scale: Value,
    w_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    bias: Value | None = None,
    *,
    channels_last: int = 0,
    **window: Attribute,
) -> Value:
    """QLinearConv as in the default domain, optionally with channels last."""
    first = channels_first(b, x) if channels_last else x
    y = b(QLinearConv, first, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, bias, **window)
    return _last(b, y) if channels_last else y


_last = channels_last


@import_rule("CausalConvWithState")
def causal_conv(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    past_state: Value | None = None,
    *,
    activation: str = "none",
    ndim: int = 1,
    dilation: int = 1,
    state_window: int = 0,
    **layout: Attribute,
) -> tuple[Value, ...]:
    """CausalConvWithState of ONNX, over one spatial axis."""
    only("one spatial axis", holds=ndim == 1)
    only("channels first and a single state", holds=not any(layout.values()) and not state_window)
    only("a dilation of 1", holds=dilation == 1)
    return causal_conv_with_state(b, x, w, bias, past_state, activation=activation)
