"""Convolutions that came after the pinned opset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.onnx.rules.onnx_future import DIALECT, JUDGED
from graphport.formats.onnx.rules.onnx_future.activation import swish
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat
from graphport.ops.lowering.operands import sizes, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_ACTIVATIONS = {"none": None, "silu": swish, "swish": swish}


@lower(DIALECT, "CausalConvWithState", until=JUDGED)
def causal_conv_with_state(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    past_state: Value | None = None,
    *,
    activation: str = "none",
) -> tuple[Value, ...]:
    """Causal depthwise convolution with state: the last positions are returned."""
    if activation not in _ACTIVATIONS:
        message = f"activation is {activation!r}"
        raise ShapeError(message, f"known: {', '.join(_ACTIVATIONS)}")
    channels, _, length = sizes(b.dims(w, 3), "the filters")
    kept = length - 1
    padding = vector(b, [0, 0, kept, 0, 0, 0])
    whole = b(Pad, x, padding) if past_state is None else b(Concat, past_state, x, axis=2)
    y = b(Conv, whole, w, bias, group=channels, kernel_shape=(length,))
    activate = _ACTIVATIONS[activation]
    found = y if activate is None else activate(b, y)
    if not b.wants(1):
        return (found, whole)[: b.count]
    start = vector(b, [-kept if kept else np.iinfo(np.int64).max])
    return found, b(Slice, whole, start, [np.iinfo(np.int64).max], [2])
