"""Activations in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.activation import Clip, Gelu, PRelu, Selu, Softmax, Swish
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.leading import led, trailed
from graphport.ops.reshape import Reshape, Shape, Transpose

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("nnef", "softmax")
def softmax(b: Builder, x: Value, *, axes: tuple[int, ...]) -> Value:
    """Exponentials scaled to sum 1 over all of `axes` together."""
    rank = len(b.dims(x))
    if len(axes) == 1:
        return b(Softmax, x, axis=axes[0])
    if not axes:
        message = "softmax over no axis"
        raise UnsupportedError(message)
    # The axes go last, become one, and back.
    order = (*(axis for axis in range(rank) if axis not in axes), *axes)
    moved = b(Transpose, x, perm=order)
    joined = b(Reshape, moved, b.constant(np.array([*[0] * (rank - len(axes)), -1], np.int64)))
    apart = b(Reshape, b(Softmax, joined, axis=-1), b(Shape, moved))
    return b(Transpose, apart, perm=tuple(int(place) for place in np.argsort(order)))


@Softmax.lift("nnef")
def lift_softmax(b: Builder, input: Value, *, axis: int = -1) -> tuple[Value, ...]:
    return b.word("softmax", input, axes=(axis % len(b.dims(input)),))


@lower("nnef", "prelu")
def prelu(b: Builder, x: Value, alpha: Value) -> Value:
    """The slope aligns at the first axis."""
    return b(PRelu, *trailed(b, x, alpha))


@PRelu.lift("nnef")
def lift_prelu(b: Builder, x: Value, slope: Value) -> tuple[Value, ...]:
    return b.word("prelu", *led(b, x, slope))


@lower("nnef", "selu")
def selu(b: Builder, x: Value, *, alpha: float, **scale: float) -> Value:
    """NNEF calls the outer factor `lambda`, which is no name in Python."""
    return b(Selu, x, alpha=alpha, gamma=scale["lambda"])


@Selu.lift("nnef")
def lift_selu(
    b: Builder, x: Value, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323
) -> tuple[Value, ...]:
    return b.word("selu", x, alpha=alpha, **{"lambda": gamma})


@lower("nnef", "gelu")
def gelu(b: Builder, x: Value) -> Value:
    """By the error function: the standard's compound form approximates it by a sigmoid, its text defines the exact one."""
    return b(Gelu, x)


@lower("nnef", "silu")
def silu(b: Builder, x: Value) -> Value:
    """`x * sigmoid(x)`."""
    return b(Swish, x)


@Swish.lift("nnef")
def lift_swish(b: Builder, x: Value, *, alpha: float = 1.0) -> tuple[Value, ...] | None:
    return b.word("silu", x) if alpha == 1.0 else None


@Clip.lift("nnef")
def lift_clip(
    b: Builder, input: Value, min: Value | None = None, max: Value | None = None
) -> tuple[Value, ...]:
    match min, max:
        case None, None:
            return b.word("copy", input)
        case None, high:
            return b.word("min", input, high)
        case low, None:
            return b.word("max", input, low)
        case low, high:
            return b.word("clamp", input, low, high)
    raise UnsupportedError
