"""Normalizations in Caffe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.caffe.rules.binding import Layer, aligned, in_caffe, layer
from graphport.formats.caffe.rules.rule_table import RULES
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Pow, Sqrt, Sub
from graphport.ops.definitions.normalization import LRN, BatchNormalization
from graphport.ops.definitions.pooling import AveragePool
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.views.normalization import BatchNormalizationView

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

LARGEST_STATISTICS = 1 << 16
"""Size in bytes up to which statistics are folded at import: nodes would hide constants from other rules."""


@layer("BatchNorm", "batch_norm_param")
def batch_norm(
    at: Layer,
    *,
    use_global_stats: bool = True,
    moving_average_fraction: float = 0.999,
    eps: float = 1e-5,
    scale_bias: bool = False,
) -> Value:
    """Batch normalization; the blobs are mean * factor, variance * factor, and the factor.

    With `scale_bias`, the last two blobs are scale and bias; four blobs contain no factor.
    """
    del moving_average_fraction
    dims = at.dims()
    channels: Dim = dims[1] if len(dims) > 1 else 1
    if not use_global_stats:
        axes = [axis for axis in range(len(dims)) if axis != 1]
        y = _standardized(at, at.x, axes, eps)
        return _scaled_and_shifted(at, y, channels) if scale_bias else y
    is_divided = not (scale_bias and len(at.blobs) == 4)
    mean, variance = (_statistics(at, index, channels, is_divided=is_divided) for index in (0, 1))
    if len(dims) < 2:
        y = at.b(Div, at.b(Sub, at.x, mean), at.b(Sqrt, at.b(Add, variance, at.float_scalar(eps))))
        return _scaled_and_shifted(at, y, channels) if scale_bias else y
    if scale_bias:
        scale, bias = _scale_and_bias(at, channels)
    else:
        count = at.b.dims(mean, at_least=1)[0]
        if not isinstance(count, int):
            message = "the number of channels is unknown"
            raise UnsupportedError(message)
        scale, bias = (at.b.constant(np.full(at.bounded(count), entry, np.float32)) for entry in (1, 0))
    return at.b(BatchNormalization, at.x, scale, bias, mean, variance, epsilon=eps)


def _statistics(at: Layer, index: int, channels: Dim, *, is_divided: bool) -> Value:
    value = at.blob(index, (channels,), ("mean", "variance")[index])
    if not at.blobs or not is_divided:
        return value
    stored = at.blob_elements(2)
    if stored is None or stored.size != 1:
        message = f"{len(at.blobs)} weight blobs, expected the third to be the scale factor of mean and variance"
        raise ShapeError(message, "pass mean, variance and a scale factor of one element")
    factor = np.float32(0 if stored[0] == 0 else 1 / stored[0])
    if factor == 1:
        return value
    if value.storage is not None and value.storage.nbytes <= LARGEST_STATISTICS:
        return at.b.constant(value.storage.numpy() * factor)
    return at.b(Mul, value, at.b.constant(factor))


def _scale_and_bias(at: Layer, channels: Dim) -> tuple[Value, Value]:
    first = 2 if len(at.blobs) == 4 else 3
    return at.blob(first, (channels,), "scale"), at.blob(first + 1, (channels,), "bias")


def _scaled_and_shifted(at: Layer, y: Value, channels: Dim) -> Value:
    rank = len(at.dims())
    scale, bias = _scale_and_bias(at, channels)
    axis = min(1, rank - 1)
    return at.b(Add, at.b(Mul, y, aligned(at.b, scale, axis, rank)), aligned(at.b, bias, axis, rank))


def _standardized(at: Layer, x: Value, axes: list[int], eps: float) -> Value:
    """(x - mean) / sqrt(variance + eps) over `axes`."""
    over = at.integers(*axes)
    centred = at.b(Sub, x, at.b(ReduceMean, x, over))
    variance = at.b(ReduceMean, at.b(Mul, centred, centred), over)
    return at.b(Div, centred, at.b(Sqrt, at.b(Add, variance, at.float_scalar(eps))))


@layer("BN", "bn_param")
def segnet_bn(
    at: Layer, *, bn_mode: str = "LEARN", frozen: bool = False, momentum: float = 0.9, eps: float = 1e-5
) -> Value:
    """SegNet's BN for inference: scale and shift, which include the statistics."""
    del frozen, momentum, eps
    if len(at.blobs) == 4:
        message = (
            "the meaning of its fourth blob is ambiguous: variance or "
            "inverse standard deviation, depending on the Caffe fork"
        )
        raise UnsupportedError(message)
    if bn_mode != "INFERENCE" or len(at.blobs) > 2:
        message = "statistics in the layout of a Caffe fork"
        raise UnsupportedError(message)
    dims = at.dims()
    scale, shift = at.blob(0, (dims[1],), "scale"), at.blob(1, (dims[1],), "shift")
    return at.b(Add, at.b(Mul, at.x, aligned(at.b, scale, 1, len(dims))), aligned(at.b, shift, 1, len(dims)))


@layer("LRN", "lrn_param")
def lrn(
    at: Layer,
    *,
    local_size: int = 5,
    alpha: float = 1.0,
    beta: float = 0.75,
    norm_region: str = "ACROSS_CHANNELS",
    k: float = 1.0,
) -> Value:
    """Local response normalization across channels, or within a channel by the mean square in a window."""
    if local_size % 2 == 0:
        message = f"local_size is {local_size}"
        raise ShapeError(message, "use an odd local_size")
    if norm_region == "ACROSS_CHANNELS":
        return at.b(LRN, at.x, alpha=alpha, beta=beta, bias=k, size=local_size)
    if norm_region != "WITHIN_CHANNEL":
        message = f"norm_region is {norm_region}"
        raise UnsupportedError(message)
    pad = local_size // 2
    squares = at.b(Mul, at.x, at.x)
    mean = at.b(
        AveragePool, squares, kernel_shape=(local_size,) * 2, pads=(pad,) * 4 if pad else None, count_include_pad=1
    )
    # Within channels the constant is 1, regardless of `k`.
    sums = at.b(Add, at.b(Mul, mean, at.float_scalar(alpha)), at.float_scalar(1))
    return at.b(Mul, at.x, at.b(Pow, sums, at.float_scalar(-beta)))


@layer("MVN", "mvn_param")
def mvn(at: Layer, *, normalize_variance: bool = True, across_channels: bool = False, eps: float = 1e-9) -> Value:
    """Subtract the mean of each image or feature map, and divide by the standard deviation."""
    rank = len(at.dims())
    over = at.integers(*range(1 if across_channels else 2, rank))
    if rank < 3 and not across_channels:
        message = f"a blob of rank {rank} has no feature maps"
        raise ShapeError(message, "across_channels: true")
    centred = at.b(Sub, at.x, at.b(ReduceMean, at.x, over))
    if not normalize_variance:
        return centred
    deviation = at.b(Sqrt, at.b(ReduceMean, at.b(Mul, centred, centred), over))
    return at.b(Div, centred, at.b(Add, deviation, at.float_scalar(eps)))


@layer("Normalize", "norm_param")
def normalize(at: Layer, *, across_spatial: bool = True, channel_shared: bool = True, eps: float = 1e-10) -> Value:
    """Divide by the L2 norm of the image, or of the channels at each position, and multiply by a scale."""
    dims = at.dims()
    over = at.integers(*range(1, len(dims))) if across_spatial else at.integers(1)
    squares = at.b(ReduceSum, at.b(Mul, at.x, at.x), over)
    y = at.b(Div, at.x, at.b(Sqrt, at.b(Add, squares, at.float_scalar(eps))))
    scale = at.blob(0, (1,) if channel_shared else (dims[1],), "scale")
    return at.b(Mul, y, aligned(at.b, scale, 1, len(dims)))


@BatchNormalizationView.export_rule("caffe")
def export_batch_normalization(b: Builder, op: BatchNormalizationView) -> tuple[Value, ...] | None:
    """Export BatchNormalization as BatchNorm (statistics) and Scale."""
    if op.training_mode or b.count > 1:
        return None
    one = b.constant(np.ones(1, np.float32))
    stated: dict[str, Any] = {"use_global_stats": True, "eps": op.epsilon}
    (y,) = in_caffe(b, "BatchNorm", op.x, facts=[op.x.fact], blobs=[op.input_mean, op.input_var, one], **stated)
    return in_caffe(b, "Scale", y, blobs=[op.scale, op.b], bias_term=True)


RULES.export_rules("""
# Windows with a middle.
LRN -> rank(x) == 4 and size % 2 == 1: LRN(x, local_size=size, alpha=alpha, beta=beta, k=bias)
""")
