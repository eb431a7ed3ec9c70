"""Activations in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import lift
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.tract.binding import DIALECT, dtype_of, word

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_CUBE = 0.044715


@word("tract_core_silu", "tract_transformers_silu")
def silu(b: Builder, input: Value) -> Value:
    """`x * sigmoid(x)`."""
    emit = OpBuilder(b)
    return emit("Mul", input, emit("Sigmoid", input))


@word("tract_core_gelu_approx", "tract_transformers_gelu_approx")
def gelu_approx(b: Builder, input: Value, *, fast_impl: bool = False) -> Value:
    """The formula with tanh; the fast one has a square where it has a cube."""
    emit = OpBuilder(b)
    if not fast_impl:
        return emit("Gelu", input, approximate="tanh")
    inner = emit("Add", input, emit("Mul", emit("Mul", input, input), b.like(input, _CUBE)))
    share = emit("Add", emit("Tanh", emit("Mul", inner, b.like(input, float(np.sqrt(2 / np.pi))))), b.like(input, 1.0))
    return emit("Mul", emit("Mul", input, b.like(input, 0.5)), share)


@word("tract_core_clamped_swiglu")
def clamped_swiglu(b: Builder, gate: Value, up: Value, *, alpha: float, limit: float) -> Value:
    """`g * sigmoid(alpha g) * (u + 1)` of a gate that is cut off above, and the other at both sides."""
    emit = OpBuilder(b)
    g = emit("Min", gate, b.like(gate, limit))
    u = emit("Clip", up, b.like(up, -limit), b.like(up, limit))
    share = emit("Sigmoid", emit("Mul", g, b.like(g, alpha)))
    return emit("Mul", emit("Mul", g, share), emit("Add", u, b.like(u, 1.0)))


@word("tract_core_softmax")
def softmax(b: Builder, x: Value, *, axes: tuple[int, ...], exp: str = "") -> Value:
    """Shares that add up to 1 over some axes."""
    del exp
    return _over(b, "Softmax", x, axes)


@word("tract_core_log_softmax")
def log_softmax(b: Builder, x: Value, *, axes: tuple[int, ...]) -> Value:
    """The logarithms of such shares."""
    return _over(b, "LogSoftmax", x, axes)


def _over(b: Builder, page: str, x: Value, axes: tuple[int, ...]) -> Value:
    """One axis at once; several are made one first."""
    emit, rank = OpBuilder(b), len(b.dims(x))
    chosen = [axis % rank for axis in axes]
    if len(chosen) == 1:
        return emit(page, x, axis=chosen[0])
    order = (*(axis for axis in range(rank) if axis not in chosen), *chosen)
    moved = emit("Transpose", x, perm=order)
    shape = emit("Shape", moved)
    behind = b.constant(np.array([0] * (rank - len(chosen)) + [-1], np.int64))
    y = emit("Reshape", emit(page, emit("Reshape", moved, behind), axis=-1), shape)
    return emit("Transpose", y, perm=tuple(int(place) for place in np.argsort(order)))


# Lifting


@lift(DIALECT, "Sigmoid")
def lift_sigmoid(b: Builder, x: Value) -> Any:
    """Of doubles the formula: tract has the word for other reals alone."""
    if dtype_of(x) is not DType.FLOAT64:
        return b.word("sigmoid", x, facts=[x.fact])
    emit = OpBuilder(b)
    return (emit("Reciprocal", emit("Add", emit("Exp", emit("Neg", x)), b.like(x, 1.0))),)


@lift(DIALECT, "LeakyRelu")
def lift_leaky_relu(b: Builder, x: Value, *, alpha: float = 0.01) -> Any:
    """As `Sigmoid`."""
    if dtype_of(x) is not DType.FLOAT64:
        return b.word("leaky_relu", x, facts=[x.fact], alpha=alpha)
    emit = OpBuilder(b)
    return (emit("Where", emit("Less", x, b.like(x, 0.0)), emit("Mul", x, b.like(x, alpha)), x),)
