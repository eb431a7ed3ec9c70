"""Normalizations in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import emitted_cast, emitted_reshape, renamed
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mul, Pow, Sqrt, Sub, Sum
from graphport.ops.definitions.normalization import LRN, LayerNormalization
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.extents import cut
from graphport.ops.lowering.operands import dtype_of, needed, vector
from graphport.ops.shapes import axis_indices
from graphport.ops.views.normalization import (
    BatchNormalizationView,
    LayerNormalizationView,
    LRNView,
    RMSNormalizationView,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


RULES.lower("""
opset1.BatchNormInference(gamma, beta, x, mean, variance, *, epsilon)
    -> BatchNormalization(x, gamma, beta, mean, variance, epsilon=epsilon)
opset5.BatchNormInference(x, gamma, beta, mean, variance, *, epsilon)
    -> BatchNormalization(x, gamma, beta, mean, variance, epsilon=epsilon)
opset12.GroupNormalization(x, scale, bias, *, num_groups, epsilon)
    -> GroupNormalization(x, scale, bias, num_groups=num_groups, epsilon=epsilon)
# Over its length along the channels, with `bias` under the root.
opset1.GRN(x, *, bias: float) -> Div(x, Sqrt(Add(ReduceSum(Mul(x, x), [1]), bias)))
""")


@BatchNormalizationView.export_rule("openvino")
def export_batch_normalization(b: Builder, op: BatchNormalizationView) -> Exported:
    if op.training_mode:
        return _export_training(b, op.x, op.scale, op.b, op.input_mean, op.input_var, op.epsilon, op.momentum)
    rank = len(b.dims(op.x))
    if rank < 2:
        return None
    given = [emitted_cast(b, parameter, dtype_of(op.x)) for parameter in (op.scale, op.b, op.input_mean, op.input_var)]
    (y,) = b.emit("opset5.BatchNormInference", op.x, *given, facts=[op.x.fact], epsilon=op.epsilon)
    return (y, *(renamed(b, own) for own in (op.input_mean, op.input_var)[: b.count - 1]))


def _export_training(
    b: Builder, x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float, momentum: float
) -> Exported:
    """Emit BatchNormalization in training mode: normalize by batch statistics and update the running ones."""
    rank, dtype = len(b.dims(x)), dtype_of(x)
    others = vector(b, [axis for axis in range(rank) if axis != 1])
    own_mean, centred, own_var, root = _deviation(b, x, others, epsilon)
    factor, summand = (_per_channel(b, emitted_cast(b, each, dtype), x) for each in (scale, bias))
    scaled = emit(b, "opset1.Multiply", emit(b, "opset1.Divide", centred, root), factor)
    results = [emit(b, "opset1.Add", scaled, summand)]
    for kept, current in ((mean, own_mean), (var, own_var)):
        flat = emitted_cast(b, emit(b, "opset1.Squeeze", current, others), dtype_of(kept))
        old = emit(b, "opset1.Multiply", kept, momentum)
        results.append(emit(b, "opset1.Add", old, emit(b, "opset1.Multiply", flat, 1 - momentum)))
    return tuple(results[: b.count])


def _deviation(b: Builder, x: Value, axes: Value, epsilon: float) -> tuple[Value, Value, Value, Value]:
    """Return mean, x - mean, variance, and sqrt(variance + epsilon)."""
    mean = emit(b, "opset1.ReduceMean", x, axes, keep_dims=True)
    centred = emit(b, "opset1.Subtract", x, mean)
    variance = emit(b, "opset1.ReduceMean", emit(b, "opset1.Multiply", centred, centred), axes, keep_dims=True)
    return mean, centred, variance, emit(b, "opset1.Sqrt", emit(b, "opset1.Add", variance, epsilon))


@lower("openvino", "opset2.MVN")
def mvn_2(
    b: Builder,
    x: Value,
    *,
    eps: float,
    across_channels: bool = False,
    normalize_variance: bool = False,
    reduction_axes: tuple[int, ...] = (),
) -> Value:
    """Mean-variance normalization over all axes except batch, and except channels by default."""
    rank = len(b.dims(x))
    axes = reduction_axes or tuple(range(1 if across_channels else 2, rank))
    return standardized(b, x, axes, eps=eps, is_scaled=normalize_variance, is_inside=True)


@lower("openvino", "opset6.MVN")
def mvn_6(b: Builder, x: Value, axes: Value, *, eps: float, normalize_variance: bool, eps_mode: str) -> Value:
    """Mean-variance normalization over `axes`; the variance is optional."""
    known_axes = needed(axes, "the axes of a normalization")
    is_inside = eps_mode.lower() == "inside_sqrt"
    return standardized(b, x, known_axes, eps=eps, is_scaled=normalize_variance, is_inside=is_inside)


def standardized(b: Builder, x: Value, axes: Sequence[int], *, eps: float, is_scaled: bool, is_inside: bool) -> Value:
    """Subtract the mean over `axes` and divide by the deviation; `eps` is added inside or outside of the root."""
    dims = b.dims(x)
    sorted_axes = sorted(axis_indices(axes, len(dims)))
    dtype = dtype_of(x)
    last = dims[sorted_axes[0] :] if sorted_axes else ()
    if is_scaled and is_inside and sorted_axes == list(range(len(dims) - len(last), len(dims))) and last:
        known = [dim for dim in last if isinstance(dim, int)]
        if len(known) == len(last) and dtype in (DType.FLOAT32, DType.FLOAT16):
            reserve(*known[-1:])
            ones = b.constant(np.ones(known[-1:], dtype.numpy), dtype)
            return b(LayerNormalization, x, ones, axis=sorted_axes[0] - len(dims), epsilon=eps)
    chosen = vector(b, sorted_axes)
    centred = b(Sub, x, b(ReduceMean, x, chosen, noop_with_empty_axes=1))
    if not is_scaled:
        return centred
    variance = b(ReduceMean, b(Mul, centred, centred), chosen, noop_with_empty_axes=1)
    small = b.like(x, eps)
    deviation = b(Sqrt, b(Add, variance, small)) if is_inside else b(Add, b(Sqrt, variance), small)
    return b(Div, centred, deviation)


@LayerNormalizationView.export_rule("openvino")
def export_layer_normalization(b: Builder, op: LayerNormalizationView) -> Exported:
    if op.stash_type != 1:
        return None
    rank, dtype = len(b.dims(op.x)), dtype_of(op.x)
    axes = vector(b, range(op.axis % rank, rank))
    wide = emitted_cast(b, op.x, DType.FLOAT32)
    if b.count == 1:
        mvn: dict[str, Any] = {"eps": op.epsilon, "normalize_variance": True, "eps_mode": "inside_sqrt"}
        results = [emit(b, "opset6.MVN", wide, axes, **mvn)]
    else:
        mean, centred, _, root = _deviation(b, wide, axes, op.epsilon)
        inverse = b.emit("opset1.Divide", b.like(root, 1.0), root, facts=[root.fact])[0]
        results = [emit(b, "opset1.Multiply", centred, inverse), mean, inverse]
    y = emit(b, "opset1.Multiply", emitted_cast(b, results[0], dtype), op.scale)
    results[0] = y if op.b is None else emit(b, "opset1.Add", y, op.b)
    return tuple(results)


@RMSNormalizationView.export_rule("openvino")
def export_rms_normalization(b: Builder, op: RMSNormalizationView) -> Exported:
    if op.stash_type != 1:
        return None
    rank = len(b.dims(op.x))
    wide = emitted_cast(b, op.x, DType.FLOAT32)
    axes = vector(b, range(op.axis % rank, rank))
    mean = emit(b, "opset1.ReduceMean", emit(b, "opset1.Multiply", wide, wide), axes, keep_dims=True)
    root = emit(b, "opset1.Sqrt", emit(b, "opset1.Add", mean, op.epsilon))
    y = emitted_cast(b, emit(b, "opset1.Divide", wide, root), dtype_of(op.scale))
    return b.emit("opset1.Multiply", y, op.scale)


def _per_channel(b: Builder, numbers: Value, x: Value) -> Value:
    """Reshape per-channel elements to broadcast with `x`."""
    return emitted_reshape(b, numbers, (-1, *[1] * (len(b.dims(x)) - 2)))


RULES.having(per_channel=_per_channel, spatial=lambda b, x: vector(b, range(2, len(b.dims(x))))).export_rules("""
GroupNormalization -> opset12.GroupNormalization(x, scale, bias, num_groups=num_groups, epsilon=epsilon)
InstanceNormalization
    -> y = opset6.MVN(input, spatial(input), eps=epsilon, normalize_variance=True, eps_mode="inside_sqrt");
       opset1.Add(opset1.Multiply(y, per_channel(scale, input)), per_channel(b, input))
MeanVarianceNormalization
    -> opset6.MVN(x, vector(axes), eps=1e-9, normalize_variance=True, eps_mode="outside_sqrt")
# Where the norm is 0 so is `input`, and the quotient by 1 is 0, too.
LpNormalization
    -> norm = opset4.ReduceL1(input, vector([axis]), keep_dims=True) if p == 1
              else opset4.ReduceL2(input, vector([axis]), keep_dims=True);
       opset1.Divide(input, opset1.Select(opset1.Equal(norm, 0.0), like(input, 1), norm))
""")


_WIDEST = 1024
"""Maximum window size that is unrolled into nodes."""


@lower("openvino", "opset1.LRN")
def lrn(b: Builder, x: Value, axes: Value, *, alpha: float, beta: float, bias: float, size: int) -> Value:
    """Local response normalization: x / (bias + alpha * mean of x² in a window along all `axes`) ^ beta."""
    if size < 1:
        message = f"the size of the window is {size}, expected at least 1"
        raise ShapeError(message)
    rank = len(b.dims(x))
    sorted_axes = sorted(axis_indices(needed(axes, "the axes of a normalization"), rank))
    if sorted_axes == [1] and size % 2 and rank == 4:
        return b(LRN, x, alpha=alpha, beta=beta, bias=bias, size=size)
    if size > _WIDEST:
        message = f"a window of more than {_WIDEST} elements"
        raise UnsupportedError(message)
    mean = _windowed_mean(b, b(Mul, x, x), sorted_axes, size)
    scale = b(Add, b(Mul, mean, alpha), bias)
    return b(Div, x, b(Pow, scale, b.like(x, beta)))


def _windowed_mean(b: Builder, x: Value, axes: Sequence[int], size: int) -> Value:
    """Average windows of `size` elements along each of `axes`; elements outside count as zeros."""
    rank = len(b.dims(x))
    last = np.iinfo(np.int64).max
    for axis in axes:
        edges = [(size - 1) // 2 if place == axis else 0 for place in range(rank)]
        edges += [size // 2 if place == axis else 0 for place in range(rank)]
        wide = b(Pad, x, edges)
        ends = [last if n == size - 1 else n + 1 - size for n in range(size)]
        parts = [cut(b, wide, start, end, axis) for start, end in enumerate(ends)]
        x = b(Sum, *parts)
    return b(Div, x, float(size) ** len(axes))


@LRNView.export_rule("openvino")
def export_lrn(b: Builder, op: LRNView) -> Exported:
    """Export LRN with bias 1: OpenVINO's CPU plugin ignores the bias."""
    if op.size % 2 == 0 or op.bias <= 0:
        return None
    stated = {"alpha": op.alpha / op.bias, "beta": op.beta, "bias": 1.0, "size": op.size}
    with np.errstate(all="ignore"):
        factor = float(np.float64(op.bias) ** -op.beta)
    if not np.isfinite(factor):
        return None
    y = emit(b, "opset1.LRN", op.x, vector(b, [1]), **stated)
    return (y,) if op.bias == 1 else b.emit("opset1.Multiply", y, b.like(op.x, factor))


@lower("openvino", "opset1.NormalizeL2")
def normalize_l2(b: Builder, x: Value, axes: Value, *, eps: float, eps_mode: str) -> Value:
    """L2 normalization: x / sqrt(sum(x²) + eps), or max(sum(x²), eps)."""
    reduced_axes = vector(b, needed(axes, "the axes of a normalization"))
    total = b(ReduceSum, b(Mul, x, x), reduced_axes, noop_with_empty_axes=1)
    small = b.like(x, eps)
    return b(Div, x, b(Sqrt, b(Add, total, small) if eps_mode.lower() == "add" else b(Max, total, small)))
