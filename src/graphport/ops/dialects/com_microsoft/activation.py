"""Activations of ONNX Runtime's own domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.dialects.com_microsoft.binding import word
from graphport.ops.pages.activation import Gelu, Sigmoid
from graphport.ops.pages.arithmetic import Add, Mul

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@word("Gelu")
def gelu(b: Builder, x: Value) -> Value:
    """The exact form."""
    return b(Gelu, x)


@word("BiasGelu")
def bias_gelu(b: Builder, x: Value, bias: Value) -> Value:
    """The exact form of a sum."""
    return b(Gelu, b(Add, x, bias))


@word("FastGelu")
def fast_gelu(b: Builder, x: Value, bias: Value | None = None) -> Value:
    """The form with a hyperbolic tangent, of a sum where there is a bias."""
    return b(Gelu, x if bias is None else b(Add, x, bias), approximate="tanh")


@word("QuickGelu")
def quick_gelu(b: Builder, x: Value, *, alpha: float = 1.702) -> Value:
    """The form with a logistic function."""
    scaled = x if alpha == 1 else b(Mul, x, b.like(x, alpha))
    return b(Mul, x, b(Sigmoid, scaled))
