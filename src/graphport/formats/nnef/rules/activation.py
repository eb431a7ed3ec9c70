"""Activations in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.arithmetic import export_erf
from graphport.formats.nnef.rules.formula import RULES, term
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.activation import (
    Clip,
    Gelu,
    LogSoftmax,
    PRelu,
    Selu,
    Softmax,
    Swish,
)
from graphport.ops.definitions.arithmetic import Max, Min, Mul
from graphport.ops.definitions.comparison import Less, Where
from graphport.ops.definitions.reshape import Reshape, Shape, Transpose
from graphport.ops.lowering.leading_broadcast import append_axes, prepend_axes
from graphport.ops.pattern import constant_numbers

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"


@lower("nnef", "softmax")
def softmax(b: Builder, x: Value, *, axes: tuple[int, ...]) -> Value:
    """Softmax over all of `axes` together."""
    rank = len(b.dims(x))
    if len(axes) == 1:
        return b(Softmax, x, axis=axes[0])
    if not axes:
        message = "softmax without axes"
        raise UnsupportedError(message)
    # Move the axes to the end, merge them, and undo both.
    order = (*(axis for axis in range(rank) if axis not in axes), *axes)
    moved = b(Transpose, x, perm=order)
    joined = b(Reshape, moved, [*[0] * (rank - len(axes)), -1])
    split = b(Reshape, b(Softmax, joined, axis=-1), b(Shape, moved))
    return b(Transpose, split, perm=tuple(int(place) for place in np.argsort(order)))


@Softmax.export_rule("nnef")
def export_softmax(b: Builder, input: Value, *, axis: int = -1) -> Exported:
    rank = len(b.dims(input))
    return b.emit("softmax", input, axes=(axis % rank,)) if rank else None


@LogSoftmax.export_rule("nnef")
def export_log_softmax(b: Builder, input: Value, *, axis: int = -1) -> Exported:
    """Export LogSoftmax as x - max - log(sum(exp(x - max))), which does not underflow."""
    dims = b.dims(input)
    if not dims:
        return None
    axes = (axis % len(dims),)
    one = TensorFact(input.dtype, tuple(1 if i in axes else dim for i, dim in enumerate(dims)))
    shifted = term(b, "sub", input, term(b, "max_reduce", input, fact=one, axes=axes))
    total = term(b, "sum_reduce", term(b, "exp", shifted), fact=one, axes=axes, normalize=False)
    return b.emit("sub", shifted, term(b, "log", total))


@lower("nnef", "prelu")
def prelu(b: Builder, x: Value, alpha: Value) -> Value:
    """PReLU; the slope is aligned at the first axis and may broadcast `x`."""
    rank = len(b.dims(x))
    x, alpha = append_axes(b, x, alpha)
    slopes = b.dims(alpha)
    if len(slopes) <= rank and all(slope in (1, dim) for slope, dim in zip(slopes, b.dims(x), strict=False)):
        return b(PRelu, x, alpha)
    return b(Where, b(Less, x, 0), b(Mul, x, alpha), x)


@PRelu.export_rule("nnef")
def export_prelu(b: Builder, x: Value, slope: Value) -> Exported:
    return b.emit("prelu", *prepend_axes(b, x, slope))


@lower("nnef", "selu")
def selu(b: Builder, x: Value, *, alpha: float, **scale: float) -> Value:
    """SELU; NNEF's attribute `lambda`, a keyword in Python, is in `scale`."""
    return b(Selu, x, alpha=alpha, gamma=scale["lambda"])


@Selu.export_rule("nnef")
def export_selu(
    b: Builder, x: Value, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323
) -> Exported:
    attributes: dict[str, Any] = {"alpha": alpha, "lambda": gamma}
    return b.emit("selu", x, **attributes)


_GELU = 1.702


RULES.lower("""
# The standard's fragment computes this approximation, and so do its runtimes.
gelu(x) -> Swish(x, alpha=1.702)
silu(x) -> Swish(x)
""")


@Swish.export_rule("nnef")
def export_swish(b: Builder, x: Value, *, alpha: float = 1.0) -> Exported:
    if alpha == 1.0:
        return b.emit("silu", x)
    if np.float32(alpha) == np.float32(_GELU):
        return b.emit("gelu", x)
    return b.emit("mul", x, term(b, "sigmoid", term(b, "mul", x, alpha)))


@Gelu.export_rule("nnef")
def export_gelu(b: Builder, x: Value, *, approximate: str = "none") -> Exported:
    """Export Gelu by its formula: NNEF's `gelu` is an approximation with an error of up to 0.02."""
    half = term(b, "mul", x, 0.5)
    if approximate == "tanh":
        cube = term(b, "mul", term(b, "mul", x, x), x)
        inner = term(b, "add", x, term(b, "mul", cube, 0.044715))
        share = term(b, "tanh", term(b, "mul", inner, float(np.sqrt(2 / np.pi))))
    else:
        (share,) = export_erf(b, term(b, "mul", x, float(np.sqrt(0.5))))
    return b.emit("mul", half, term(b, "add", share, 1.0))


RULES.export_rules("""
HardSigmoid -> clamp(add(mul(x, alpha), beta), 0.0, 1.0)
HardSwish -> mul(x, clamp(add(div(x, 6.0), 0.5), 0.0, 1.0))
Shrink
    -> dtype(input) in (float32, float64):
       select(lt(input, -lambd), add(input, bias), select(gt(input, lambd), sub(input, bias), like(input, 0.0)))
""")


@lower("nnef", "clamp")
def clamp(b: Builder, x: Value, low: Value, high: Value) -> Value:
    """Clamp: max(min(x, high), low); where low > high the result is low, unlike in Clip."""
    bounds = [_scalar_constant(bound) for bound in (low, high)]
    if None not in bounds and bounds[0] <= bounds[1]:  # pyright: ignore[reportOperatorIssue]  both are numbers
        return b(Clip, x, low, high)
    x, low, high = append_axes(b, x, low, high)
    return b(Max, b(Min, x, high), low)


def _scalar_constant(bound: Value) -> float | None:
    """A constant of rank 0."""
    if bound.storage is None or bound.storage.shape or not (bound.is_literal or bound.is_constant):
        return None
    found = constant_numbers(bound)
    return None if found is None else found[0]


@Clip.export_rule("nnef")
def export_clip(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Exported:
    match min, max:
        case None, None:
            return b.emit("copy", input)
        case None, high:
            return b.emit("min", input, high)
        case low, None:
            return b.emit("max", input, low)
        case low, high:
            pass
    bounds = [_scalar_constant(bound) for bound in (low, high)]
    if None not in bounds and bounds[0] <= bounds[1]:  # pyright: ignore[reportOperatorIssue]  both are numbers
        return b.emit("clamp", input, low, high)
    return b.emit("min", term(b, "max", input, low), high)


RULES.export_rules("""
# Without training it does nothing; there is no word for the mask.
Dropout(ratio: ignored, seed: ignored) -> training_mode is None or not const(training_mode): copy(data)
""")
