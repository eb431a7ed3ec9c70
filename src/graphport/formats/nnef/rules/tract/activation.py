"""Activations in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.nnef.rules.tract.binding import RULES, axis_of, import_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_CUBE = 0.044715


RULES.lower("""
tract_core_silu, tract_transformers_silu(input) -> Mul(input, Sigmoid(input))
# The fast one has a square where the formula has a cube.
tract_core_gelu_approx, tract_transformers_gelu_approx(input, *, fast_impl: any = False)
    -> fast_impl: Mul(Mul(input, 0.5), Add(Tanh(Mul(Add(input, Mul(Mul(input, input), 0.044715)),
                                                    math.sqrt(2 / math.pi))), 1.0))
    -> Gelu(input, approximate="tanh")
# A gate that is cut off above, and what it lets through at both sides.
tract_core_clamped_swiglu(gate, up, *, alpha: float, limit: float)
    -> Mul(Mul(g := Min(gate, limit), Sigmoid(Mul(g, alpha))), Add(Clip(up, -limit, limit), 1.0))
""")


@import_rule("tract_core_softmax")
def softmax(b: Builder, x: Value, *, axes: tuple[int, ...], exp: str = "") -> Value:
    """Softmax over all of `axes` together."""
    del exp
    return _over(b, "Softmax", x, axes)


@import_rule("tract_core_log_softmax")
def log_softmax(b: Builder, x: Value, *, axes: tuple[int, ...]) -> Value:
    """Logarithm of softmax over several axes."""
    return _over(b, "LogSoftmax", x, axes)


def _over(b: Builder, op_def: str, x: Value, axes: tuple[int, ...]) -> Value:
    """Apply an operator to one axis; several axes are transposed to the end and merged first."""
    emit, rank = OpBuilder(b), len(b.dims(x))
    chosen = [axis_of(axis, rank) for axis in axes]
    if len(chosen) == 1:
        return emit(op_def, x, axis=chosen[0])
    order = (*(axis for axis in range(rank) if axis not in chosen), *chosen)
    moved = emit("Transpose", x, perm=order)
    shape = emit("Shape", moved)
    behind = b.constant(np.array([0] * (rank - len(chosen)) + [-1], np.int64))
    y = emit("Reshape", emit(op_def, emit("Reshape", moved, behind), axis=-1), shape)
    return emit("Transpose", y, perm=tuple(int(place) for place in np.argsort(order)))


# Export rules


RULES.export_rules("""
# Of doubles formulas: tract has these words for other reals alone.
Sigmoid
    -> is_double(x): Reciprocal(Add(Exp(Neg(x)), 1.0))
    -> sigmoid(x)
LeakyRelu
    -> is_double(x): Where(Less(x, 0.0), Mul(x, alpha), x)
    -> leaky_relu(x, alpha=alpha)
""")
