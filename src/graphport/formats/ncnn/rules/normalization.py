"""Normalizations of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dims import product
from graphport.core.dtypes import DType
from graphport.core.storage import Storage, storage_of
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import blob_dims, constant_float32, emitted, lengths_of, reshaped, restored
from graphport.formats.ncnn.rules.rule_table import RULES
from graphport.formats.pytorch.rules.binding import length
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mul, Pow, Sqrt, Sub
from graphport.ops.definitions.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    LpNormalization,
    MeanVarianceNormalization,
    RMSNormalization,
)
from graphport.ops.definitions.pooling import AveragePool
from graphport.ops.definitions.reduction import ReduceMean, ReduceSumSquare
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.lowering.operands import dtype_of, vector
from graphport.ops.views.normalization import (
    BatchNormalizationView,
    LayerNormalizationView,
    RMSNormalizationView,
)

Array: TypeAlias = "np.ndarray[Any, Any]"


@layer("BatchNorm")
def batch_norm(at: Layer) -> Value:
    slope, mean, variance, bias = (at.weight(index, [at.integer(0)]) for index in range(4))
    return at.b(BatchNormalization, at.x, slope, bias, mean, variance, epsilon=at.float_value(1))


def _affine(at: Layer, index: int, shape: Sequence[int], default: float, flag: int) -> Value:
    """Return a weight if the parameter `flag` is set, else a constant."""
    if at.integer(flag, 1):
        return at.weight(index, shape)
    return at.b.constant(np.full(bounded(shape), default), dtype_of(at.x))


@layer("GroupNorm")
def group_norm(at: Layer) -> Value:
    channels = [at.integer(1)]
    scale, shift = _affine(at, 0, channels, 1, 3), _affine(at, 1, channels, 0, 3)
    return at.b(GroupNormalization, at.x, scale, shift, num_groups=at.integer(0, 1), epsilon=at.float_value(2, 0.001))


@layer("InstanceNorm")
def instance_norm(at: Layer) -> Value:
    channels = [at.integer(0) or length(at.b.dims(at.x), 1)]
    scale, shift = _affine(at, 0, channels, 1, 2), _affine(at, 1, channels, 0, 2)
    return at.b(InstanceNormalization, at.x, scale, shift, epsilon=at.float_value(1, 0.001))


def _normalized(at: Layer) -> list[int]:
    """Return the sizes of the normalized last axes.

    The last axis of vectors and matrices; rows or planes of images, all axes after the channels of volumes. The number
    of weights decides.
    """
    lengths, size = at.lengths(), at.integer(0)
    choices = [lengths[-count:] for count in range(1, max(len(lengths), 2))]
    found = next((shape for shape in choices if prod(shape) == size), None)
    if found is None and not at.integer(2, 1):
        return choices[-1]
    if found is None:
        message = f"affine_size is {size}, which is not the size of the last axes"
        raise UnsupportedError(message)
    return found


@layer("LayerNorm")
def layer_norm(at: Layer) -> Value:
    shape = _normalized(at)
    scale = _affine(at, 0, shape, 1, 2)
    shift = at.weight(1, shape) if at.integer(2, 1) else None
    return at.b(LayerNormalization, at.x, scale, shift, axis=-len(shape), epsilon=at.float_value(1, 0.001))


@layer("RMSNorm")
def rms_norm(at: Layer) -> Value:
    shape = _normalized(at)
    scale = _affine(at, 0, shape, 1, 2)
    return at.b(RMSNormalization, at.x, scale, axis=-len(shape), epsilon=at.float_value(1, 0.001))


@layer("LRN")
def lrn(at: Layer) -> Value:
    """LRN across channels, or by parameter 0 within a square window of each channel.

    Elements beyond the border are 0; an even window has one more element before the center.
    """
    b, x, size = at.b, at.x, at.integer(1, 5)
    alpha, beta, bias = at.float_value(2, 1.0), at.float_value(3, 0.75), at.float_value(4, 1.0)
    if not at.integer(0) and size % 2:
        return b(LRN, x, size=size, alpha=alpha, beta=beta, bias=bias)
    before, behind = size // 2, size - size // 2 - 1
    squares = b(Mul, x, x)
    if at.integer(0):
        window: dict[str, Any] = {"kernel_shape": (size, size), "pads": (before, before, behind, behind)}
    else:
        window = {"kernel_shape": (size, 1), "pads": (before, 0, behind, 0)}
        channels, *plane = at.lengths()
        squares = b(Reshape, squares, [1, 1, channels, prod(plane)])
    mean = b(AveragePool, squares, strides=(1, 1), count_include_pad=1, **window)
    if not at.integer(0):
        mean = b(Reshape, mean, [1, *at.lengths()])
    total = b(Add, b(Mul, mean, b.like(x, alpha)), b.like(x, bias))
    return b(Mul, x, b(Pow, total, b.like(x, -beta)))


@layer("Normalize")
def normalize(at: Layer) -> Value:
    """Normalize: divide by the L2 norm over all elements, over channels, or over a plane; with neither, do nothing.

    Vectors and matrices are one channel.
    """
    b, x = at.b, at.x
    channels = [1] if at.rank > 2 else []
    plane = list(range(1 + len(channels), at.rank + 1))
    is_across, is_spatial = at.integer(4, 1), at.integer(0)
    if not is_across and not is_spatial:
        return x
    across = [*(channels if is_across else []), *(plane if is_spatial else [])]
    total = b(ReduceSumSquare, x, across) if across else b(Mul, x, x)
    epsilon = b.like(x, at.float_value(2, 1e-4))
    match at.integer(9):
        case 0:
            size = b(Sqrt, b(Add, total, epsilon))
        case 1:
            size = b(Max, b(Sqrt, total), epsilon)
        case _:
            size = b(Sqrt, b(Max, total, epsilon))
    count = at.integer(3)
    shape = [1] if at.integer(1) or count == 1 else [count, *[1] * (at.rank - 1)]
    if len(shape) > 1 and not channels:
        message = "per-channel scales for a blob without a channel axis"
        raise UnsupportedError(message)
    return b(Mul, b(Div, x, size), at.weight(0, shape))


@layer("MVN")
def mean_variance(at: Layer) -> Value:
    """MVN: subtract the mean and divide by the standard deviation, per channel or over all."""
    b, x = at.b, at.x
    axes = vector(b, list(range(1 if at.integer(1) else 2, at.rank + 1)))
    center = b(Sub, x, b(ReduceMean, x, axes))
    if not at.integer(0):
        return center
    deviation = b(Sqrt, b(ReduceMean, b(Mul, center, center), axes))
    return b(Div, center, b(Add, deviation, b.like(x, at.float_value(2, 1e-4))))


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@BatchNormalizationView.export_rule("ncnn")
def export_batch_norm(b: Builder, op: BatchNormalizationView) -> Value | None:
    if op.training_mode or b.count > 1:
        return None
    slope, mu, sigma, bias = map(constant_float32, (op.scale, op.input_mean, op.input_var, op.b))
    if batch_of(op.x) != 0:
        # Rows of no batch: the layer would take the first axis of the blob for the channels.
        return _scaled_and_shifted(b, op.x, (slope, mu, sigma, bias), op.epsilon)
    lengths_of(b, op.x)
    return emitted(b, "BatchNorm", op.x, p0=slope.count, p1=op.epsilon, w0=slope, w1=mu, w2=sigma, w3=bias)


def _scaled_and_shifted(b: Builder, x: Value, weights: Sequence[Storage], epsilon: float) -> Value:
    """Compute slope * (x - mean) / sqrt(variance + epsilon) + bias along axis 1 as x * k + c with folded constants.

    `weights` are slope, mean, variance and bias.
    """
    shape = (weights[0].count, *[1] * (len(b.dims(x)) - 2))

    def factor(slope: Array, mean: Array, variance: Array, bias: Array) -> Array:
        del mean, bias
        return (slope / np.sqrt(variance + np.float32(epsilon))).astype(np.float32).reshape(shape)

    def summand(slope: Array, mean: Array, variance: Array, bias: Array) -> Array:
        return (bias - mean * slope / np.sqrt(variance + np.float32(epsilon))).astype(np.float32).reshape(shape)

    k, c = (b.constant(Computed(each, tuple(weights), DType.FLOAT32, shape)) for each in (factor, summand))
    return b(Add, b(Mul, x, k), c)


@InstanceNormalization.export_rule("ncnn")
def export_instance_norm(b: Builder, input: Value, scale: Value, shift: Value, *, epsilon: float = 1e-5) -> Value:
    lengths = lengths_of(b, input)
    weights = constant_float32(scale)
    # ncnn takes the first axis of a rank-2 blob as height.
    x = input if len(lengths) > 2 else reshaped(b, input, [lengths[0], 1, *lengths[1:]])
    y = emitted(b, "InstanceNorm", x, p0=weights.count, p1=epsilon, p2=1, w0=weights, w1=constant_float32(shift))
    return y if x is input else reshaped(b, y, lengths)


RULES.export_rules("""
GroupNormalization(stash_type: ignored)
    -> GroupNorm(item(x), p0=num_groups, p1=channels(x), p2=epsilon, p3=1, w0=weights(scale), w1=weights(bias))
LRN -> size % 2: LRN(item(x), p0=0, p1=size, p2=alpha, p3=beta, p4=bias)
""")


def _is_inner(b: Builder, x: Value, axis: int, weights: Storage) -> bool:
    """Whether a blob has the axes from `axis` on innermost, and `weights` have their shape."""
    blob_dims(b, x)
    dims, batch = b.dims(x), batch_of(x)
    first = axis % len(dims)
    return (batch is None or batch < first) and list(weights.shape) == list(dims[first:])


@LayerNormalizationView.export_rule("ncnn")
def export_layer_norm(b: Builder, op: LayerNormalizationView) -> Value | None:
    weights = constant_float32(op.scale)
    if b.count > 1 or not _is_inner(b, op.x, op.axis, weights):
        return None
    shift = storage_of(np.zeros(weights.shape), DType.FLOAT32) if op.b is None else constant_float32(op.b)
    given: dict[str, Any] = {"p0": weights.count, "p1": op.epsilon, "p2": 1, "w0": weights, "w1": shift}
    return _flattened(b, "LayerNorm", op.x, len(weights.shape), **given)


def _flattened(b: Builder, type_: str, x: Value, count: int, **given: Any) -> Value:
    """Emit a normalization layer over the last `count` axes, merged to one axis."""
    lengths = blob_dims(b, x)
    if count == 1:
        return emitted(b, type_, x, **given)
    size, rows = product(lengths[-count:]), product(lengths[:-count])
    y = emitted(b, type_, reshaped(b, x, [size] if rows == 1 else [rows, size]), **given)
    return restored(b, y, x.fact, batch_of(x))


@RMSNormalizationView.export_rule("ncnn")
def export_rms_norm(b: Builder, op: RMSNormalizationView) -> Value | None:
    weights = constant_float32(op.scale)
    if not _is_inner(b, op.x, op.axis, weights):
        return None
    return _flattened(b, "RMSNorm", op.x, len(weights.shape), p0=weights.count, p1=op.epsilon, p2=1, w0=weights)


@LpNormalization.export_rule("ncnn")
def export_lp_normalization(b: Builder, input: Value, *, axis: int = -1, p: int = 2) -> Value | None:
    """Export LpNormalization over the channels of an image; zero vectors stay zero."""
    lengths = lengths_of(b, input)
    if p != 2 or axis % (len(lengths) + 1) != 1 or len(lengths) != 3:
        return None
    one = storage_of(np.ones(1), DType.FLOAT32)
    return emitted(b, "Normalize", input, p0=0, p1=1, p2=1e-12, p3=1, p4=1, p9=1, w0=one)


@MeanVarianceNormalization.export_rule("ncnn")
def export_mean_variance(b: Builder, x: Value, *, axes: tuple[int, ...] = (0, 2, 3)) -> Value | None:
    """Export MeanVarianceNormalization per channel, or over all axes."""
    rank = len(lengths_of(b, x)) + 1
    reduced_axes = {axis % rank for axis in axes}
    inner = set(range(2, rank))
    if rank != 4 or not inner <= reduced_axes:
        return None
    return emitted(b, "MVN", x, p0=1, p1=int(1 in reduced_axes), p2=1e-9)
