"""Activations that came after the pinned opset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.rules.onnx_future import DIALECT, JUDGED
from graphport.ops.declare import lower
from graphport.ops.definitions.activation import Sigmoid
from graphport.ops.definitions.arithmetic import Mul

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower(DIALECT, "SwiGLU", until=JUDGED)
def swiglu(b: Builder, gate: Value, linear: Value, *, alpha: float = 1.0) -> Value:
    """SwiGLU: swish(gate) * linear."""
    return b(Mul, swish(b, gate, alpha), linear)


def swish(b: Builder, x: Value, alpha: float = 1.0) -> Value:
    """Swish as x * sigmoid(alpha * x): ONNX Runtime has no kernel for Swish."""
    return b(Mul, x, b(Sigmoid, x if alpha == 1 else b(Mul, x, alpha)))
