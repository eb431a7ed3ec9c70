"""Activations of ONNX Runtime's own domain."""

from __future__ import annotations

from graphport.formats.onnx.rules.com_microsoft.binding import RULES

RULES.lower("""
Gelu(x) -> Gelu(x)
BiasGelu(x, bias) -> Gelu(Add(x, bias))
FastGelu(x, bias=None)
    -> bias is None: Gelu(x, approximate="tanh")
    -> Gelu(Add(x, bias), approximate="tanh")
QuickGelu(x, *, alpha=1.702)
    -> alpha == 1: Mul(x, Sigmoid(x))
    -> Mul(x, Sigmoid(Mul(x, alpha)))
GatedAdd(x, y, gate) -> Add(x, Mul(y, gate))
""")
