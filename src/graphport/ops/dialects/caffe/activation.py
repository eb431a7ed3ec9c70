"""Activations in Caffe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.ops.declare import Page, lift
from graphport.ops.dialects.caffe.binding import Layer, aligned, in_caffe, layer, register, small_numbers
from graphport.ops.pages.activation import (
    Clip,
    Elu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Mish,
    PRelu,
    Relu,
    Sigmoid,
    Softmax,
    Softplus,
    Swish,
    Tanh,
)
from graphport.ops.pages.arithmetic import Mul
from graphport.ops.pages.arithmetic.cast import Cast
from graphport.ops.pages.comparison import Greater
from graphport.ops.pages.reshape import Identity

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

register(Softplus, "BNLL")
register(Mish, "Mish")
register(HardSwish, "HardSwish")


@layer("HSwish")
def h_swish(at: Layer) -> Value:
    """Another name of `HardSwish`."""
    return at.b(HardSwish, at.x)


@layer("Sigmoid", "sigmoid_param")
def sigmoid(at: Layer) -> Value:
    """Its parameters say nothing but who computes it."""
    return at.b(Sigmoid, at.x)


@layer("TanH", "tanh_param")
def tanh(at: Layer) -> Value:
    """Its parameters say nothing but who computes it."""
    return at.b(Tanh, at.x)


@layer("ReLU", "relu_param")
def relu(at: Layer, *, negative_slope: float = 0.0) -> Value:
    """Leaky with a slope."""
    return at.b(LeakyRelu, at.x, alpha=negative_slope) if negative_slope else at.b(Relu, at.x)


@layer("ReLU6", "relu_param")
def relu6(at: Layer) -> Value:
    """Between 0 and 6."""
    return at.b(Clip, at.x, at.real(0), at.real(6))


@layer("Clip", "clip_param")
def clip(at: Layer, *, min: float, max: float) -> Value:
    """Between two bounds."""
    return at.b(Clip, at.x, at.real(min), at.real(max))


@layer("PReLU", "prelu_param")
def prelu(at: Layer, *, channel_shared: bool = False) -> Value:
    """One slope a channel, or one for all."""
    dims = at.dims()
    slope = at.blob(0, (1,) if channel_shared or len(dims) < 2 else (dims[1],), "slope")
    return at.b(PRelu, at.x, slope if channel_shared else aligned(at.b, slope, min(1, len(dims) - 1), len(dims)))


@layer("ELU", "elu_param")
def elu(at: Layer, *, alpha: float = 1.0) -> Value:
    """Exponential where negative."""
    return at.b(Elu, at.x, alpha=alpha)


@layer("Swish", "swish_param")
def swish(at: Layer, *, beta: float = 1.0) -> Value:
    """`x * sigmoid(beta * x)`."""
    return at.b(Swish, at.x, alpha=beta)


@layer("HardSigmoid", "hard_sigmoid_param")
def hard_sigmoid(at: Layer, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """`alpha * x + beta` between 0 and 1."""
    return at.b(HardSigmoid, at.x, alpha=alpha, beta=beta)


@layer("Softmax", "softmax_param")
def softmax(at: Layer, *, axis: int = 1) -> Value:
    """Over one axis, by default the channels."""
    return at.b(Softmax, at.x, axis=at.axis(axis))


@layer("Dropout", "dropout_param")
def dropout(at: Layer, *, dropout_ratio: float = 0.5, scale_train: bool = True) -> Value:
    """Nothing, unless training left the scaling to inference."""
    return at.b(Identity, at.x) if scale_train else at.b(Mul, at.x, at.real(1 - dropout_ratio))


@layer("Threshold", "threshold_param")
def threshold(at: Layer, *, threshold: float = 0.0) -> Value:
    """1 above the threshold, 0 elsewhere."""
    return at.b(Cast, at.b(Greater, at.x, at.b.constant(np.float32(threshold))), to=DType.FLOAT32)


def _emitted(page: Page, type: str) -> None:
    """Register a page of one operand and no attributes as a layer without parameters."""

    @lift("caffe", page.name)
    def lifted(b: Builder, x: Value) -> tuple[Value, ...]:
        return in_caffe(b, type, [x.fact], x)

    del lifted


_emitted(Relu, "ReLU")
_emitted(Sigmoid, "Sigmoid")
_emitted(Tanh, "TanH")


@LeakyRelu.lift("caffe")
def lift_leaky_relu(b: Builder, x: Value, *, alpha: float = 0.01) -> tuple[Value, ...]:
    return in_caffe(b, "ReLU", [x.fact], x, negative_slope=alpha)


@Elu.lift("caffe")
def lift_elu(b: Builder, x: Value, *, alpha: float = 1.0) -> tuple[Value, ...]:
    return in_caffe(b, "ELU", [x.fact], x, alpha=alpha)


@Swish.lift("caffe")
def lift_swish(b: Builder, x: Value, *, alpha: float = 1.0) -> tuple[Value, ...]:
    return in_caffe(b, "Swish", [x.fact], x, beta=alpha if alpha != 1 else None)


@HardSigmoid.lift("caffe")
def lift_hard_sigmoid(b: Builder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> tuple[Value, ...]:
    return in_caffe(b, "HardSigmoid", [x.fact], x, alpha=alpha, beta=beta)


@Softmax.lift("caffe")
def lift_softmax(b: Builder, input: Value, *, axis: int = -1) -> tuple[Value, ...]:
    place = axis % len(b.dims(input))
    return in_caffe(b, "Softmax", [input.fact], input, axis=place if place != 1 else None)


@Clip.lift("caffe")
def lift_clip(
    b: Builder, input: Value, low: Value | None = None, high: Value | None = None
) -> tuple[Value, ...] | None:
    """Two bounds that are numbers; one of 0 alone is a rectifier."""
    bounds = [small_numbers(bound) for bound in (low, high)]
    if any(bound is not None and found is None for bound, found in zip((low, high), bounds, strict=True)):
        return None
    least, most = (None if found is None else float(found.reshape(-1)[0]) for found in bounds)
    if least == 0 and most == 6:
        return in_caffe(b, "ReLU6", [input.fact], input)
    if least == 0 and most is None:
        return in_caffe(b, "ReLU", [input.fact], input)
    widest = float(np.finfo(np.float32).max)
    stated: dict[str, Any] = {"min": -widest if least is None else least, "max": widest if most is None else most}
    return in_caffe(b, "Clip", [input.fact], input, **stated)


@PRelu.lift("caffe")
def lift_prelu(b: Builder, x: Value, slope: Value) -> tuple[Value, ...] | None:
    """One slope a channel, or one for all."""
    dims, own = b.dims(x), b.dims(slope)
    aligned_own = (*[1] * (len(dims) - len(own)), *own)
    if any(decide_equal(n, 1) is not True for axis, n in enumerate(aligned_own) if axis != 1) or len(dims) < 2:
        return None
    count = aligned_own[1]
    flat = slope if len(own) == 1 else b.reshaped(slope, [count]) if isinstance(count, int) else None
    if flat is None:
        return None
    is_shared = count == 1 and decide_equal(dims[1], 1) is not True
    return in_caffe(b, "PReLU", [x.fact], x, blobs=[flat], channel_shared=True if is_shared else None)


@lift("caffe", "Dropout")
def lift_dropout(
    b: Builder,
    data: Value,
    ratio: Value | None = None,
    training_mode: Value | None = None,
    *,
    seed: int | None = None,
) -> tuple[Value, ...] | None:
    """What inference does: nothing."""
    del seed, ratio
    return None if b.count > 1 or training_mode is not None else in_caffe(b, "Split", [data.fact], data)
