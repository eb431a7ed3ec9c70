"""Normalization operators of NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.convolution_borders import fact_of
from graphport.formats.nnef.rules.pooling.arrangement import Pooling
from graphport.formats.nnef.rules.pooling.pools import box
from graphport.ops.declare import lower
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Max, Mul, Pow, Sqrt, Sub
from graphport.ops.definitions.normalization import LRN, BatchNormalization, LpNormalization
from graphport.ops.definitions.reduction import ReduceL1, ReduceL2
from graphport.ops.definitions.reshape import Squeeze
from graphport.ops.lowering.leading_broadcast import append_axes
from graphport.ops.views.normalization import BatchNormalizationView, LRNView

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("nnef", "batch_normalization")
def batch_normalization(
    b: Builder, input: Value, mean: Value, variance: Value, offset: Value, scale: Value, *, epsilon: float
) -> Value:
    """Batch normalization with statistics of shape (1, C), or any shape that broadcasts."""
    dims = b.dims(input)
    if len(dims) > 1:
        vectors = [_vector(b, value, dims[1]) for value in (scale, offset, mean, variance)]
        if all(vector is not None for vector in vectors):
            return b(BatchNormalization, input, *vectors, epsilon=epsilon)
    return _written_out(b, input, mean, variance, offset, scale, epsilon=epsilon)


def _vector(b: Builder, value: Value, channels: Dim) -> Value | None:
    """Reshape per-channel statistics (1, C) to [C]; `None` if they have another shape."""
    dims = b.dims(value)
    if len(dims) != 2 or decide_equal(dims[0], 1) is not True or decide_equal(dims[1], channels) is not True:
        return None
    flat = b.reshaped(value, [dims[1]]) if isinstance(dims[1], int) else None
    return flat or b(Squeeze, value, b.constant([0]))


def _written_out(b: Builder, *operands: Value, epsilon: float) -> Value:
    """Emit scale * (x - mean) / sqrt(variance + epsilon) + offset for broadcasting statistics."""
    x, mean, variance, offset, scale = append_axes(b, *operands)
    deviation = b(Sqrt, b(Add, variance, epsilon))
    return b(Add, offset, b(Div, b(Mul, scale, b(Sub, x, mean)), deviation))


@BatchNormalizationView.export_rule("nnef")
def export_batch_normalization(b: Builder, op: BatchNormalizationView) -> tuple[Value, ...] | None:
    """Export inference BatchNormalization; parameters become (1, C)."""
    if op.training_mode or b.count > 1:
        return None
    rows = [channel_row(b, value) for value in (op.input_mean, op.input_var, op.b, op.scale)]
    return b.emit("batch_normalization", op.x, *rows, epsilon=op.epsilon)


def channel_row(b: Builder, value: Value) -> Value:
    """A vector with one entry per channel as (1, C)."""
    channels = b.dims(value, at_least=1)[0]
    flat = b.reshaped(value, [1, channels]) if isinstance(channels, int) else None
    fact = TensorFact(fact_of(value).dtype, (1, channels))
    return flat or b.emit("unsqueeze", value, facts=[fact], axes=(0,))[0]


Shaped = tuple[int, ...]

_SMALLEST = float(np.finfo(np.float32).tiny)


@lower("nnef", "local_response_normalization")
def local_response_normalization(
    b: Builder, input: Value, *, size: Shaped, alpha: float = 1.0, beta: float = 0.5, bias: float = 1.0
) -> Value:
    """Local response normalization: x / (bias + alpha * mean of x² in a window) ^ beta."""
    rank = len(b.dims(input))
    over_channels = rank > 2 and len(size) == rank and all(k == 1 for axis, k in enumerate(size) if axis != 1)
    # ONNX Runtime refuses windows that have no middle.
    if over_channels and size[1] % 2:
        return b(LRN, input, alpha=alpha, beta=beta, bias=bias, size=size[1])
    squares = box(b, Pooling(size=size), b(Mul, input, input), normalize=True)
    sigma = b(Add, b(Mul, squares, alpha), bias)
    return b(Div, input, b(Pow, sigma, b.like(input, beta)))


@LRNView.export_rule("nnef")
def export_lrn(b: Builder, op: LRNView) -> tuple[Value, ...]:
    """Export LRN as local response normalization with a window over channels."""
    window = tuple(op.size if axis == 1 else 1 for axis in range(len(b.dims(op.x))))
    return b.emit("local_response_normalization", op.x, size=window, alpha=op.alpha, beta=op.beta, bias=op.bias)


@lower("nnef", "local_mean_normalization")
def local_mean_normalization(b: Builder, input: Value, *, size: Shaped) -> Value:
    """Subtract the mean of the window around each element."""
    return b(Sub, input, box(b, Pooling(size=size), input, normalize=True))


@lower("nnef", "local_variance_normalization")
def local_variance_normalization(
    b: Builder, input: Value, *, size: Shaped, bias: float = 0.0, epsilon: float = 0.0
) -> Value:
    """Divide by sigma = sqrt(mean of x² in the window): x / max(sigma + bias, epsilon)."""
    sigma = b(Sqrt, box(b, Pooling(size=size), b(Mul, input, input), normalize=True))
    return _divided(b, input, sigma, bias, epsilon)


def _divided(b: Builder, x: Value, sigma: Value, bias: float, epsilon: float) -> Value:
    """`x / max(sigma + bias, epsilon)`."""
    if bias:
        sigma = b(Add, sigma, bias)
    if epsilon > 0 or bias < 0:
        sigma = b(Max, sigma, epsilon)
    return b(Div, x, sigma)


@lower("nnef", "local_contrast_normalization")
def local_contrast_normalization(
    b: Builder, input: Value, *, size: Shaped, bias: float = 0.0, epsilon: float = 0.0
) -> Value:
    """Local mean normalization, then local variance normalization."""
    centred = local_mean_normalization(b, input, size=size)
    return local_variance_normalization(b, centred, size=size, bias=bias, epsilon=epsilon)


@lower("nnef", "l1_normalization")
def l1_normalization(b: Builder, input: Value, *, axes: Shaped, bias: float = 0.0, epsilon: float = 0.0) -> Value:
    """Divide by the L1 norm over `axes`: x / max(norm + bias, epsilon)."""
    # Without axes ONNX returns the operand unchanged.
    sigma = b(ReduceL1, input, axes) if axes else b(Abs, input)
    return _divided(b, input, sigma, bias, epsilon)


@lower("nnef", "l2_normalization")
def l2_normalization(b: Builder, input: Value, *, axes: Shaped, bias: float = 0.0, epsilon: float = 0.0) -> Value:
    """Divide by the L2 norm over `axes`: x / max(norm + bias, epsilon)."""
    sigma = b(ReduceL2, input, axes) if axes else b(Abs, input)
    return _divided(b, input, sigma, bias, epsilon)


@LpNormalization.export_rule("nnef")
def export_lp_normalization(b: Builder, input: Value, *, axis: int = -1, p: int = 2) -> tuple[Value, ...]:
    """Export LpNormalization; the smallest positive epsilon gives 0 where the norm is 0."""
    place = axis % len(b.dims(input))
    return b.emit(f"l{p}_normalization", input, axes=(place,), bias=0.0, epsilon=_SMALLEST)
