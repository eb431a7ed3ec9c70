"""Normalizations of TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import from_channels_first, operator, to_channels_first
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Sqrt, Sub
from graphport.ops.definitions.normalization import LRN, BatchNormalization
from graphport.ops.definitions.reduction import ReduceMean
from graphport.ops.definitions.reshape import Size
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@operator("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(
    b: Builder,
    x: Value,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 0.0001,
    data_format: str = "NHWC",
    is_training: bool = True,
    exponential_avg_factor: float = 1.0,
) -> list[Value]:
    """Normalized channels, then mean and variance: the operands, or in training the statistics of the batch."""
    own = dtype_of(x)
    first = to_channels_first(b, x, data_format)
    if not is_training:
        y = _normalized(b, first, scale, offset, mean, variance, epsilon)
        found = [cast(b, from_channels_first(b, y, data_format), own), mean, variance, mean, variance]
        return [*found, variance][: b.count]
    wide = cast(b, first, DType.FLOAT32)
    axes = vector(b, [axis for axis in range(len(b.dims(x))) if axis != 1])
    batch_mean = b(ReduceMean, wide, axes, keepdims=0)
    shape = (-1, *[1] * (len(b.dims(x)) - 2))
    gap = b(Sub, wide, reshaped(b, batch_mean, shape))
    biased = b(ReduceMean, b(Mul, gap, gap), axes, keepdims=0)
    y = _normalized(b, first, scale, offset, batch_mean, biased, epsilon)
    count = cast(b, b(Div, b(Size, x), b(Size, batch_mean)), DType.FLOAT32)
    from graphport.ops.definitions.arithmetic import Max

    unbiased = b(Mul, biased, b(Div, count, b(Max, b(Sub, count, 1), 1)))
    moved = [_averaged(b, old, new, exponential_avg_factor) for old, new in ((mean, batch_mean), (variance, unbiased))]
    return [cast(b, from_channels_first(b, y, data_format), own), *moved, batch_mean, biased, biased][: b.count]


def _averaged(b: Builder, old: Value, new: Value, factor: float) -> Value:
    if factor == 1:
        return new
    return b(Add, b(Mul, old, 1 - factor), b(Mul, new, factor))


def _normalized(
    b: Builder, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, epsilon: float
) -> Value:
    if dtype_of(x) is not dtype_of(scale):
        x = cast(b, x, dtype_of(scale))
    return b(BatchNormalization, x, scale, offset, mean, variance, epsilon=epsilon)


@operator("BatchNormWithGlobalNormalization")
def batch_norm_with_global_normalization(
    b: Builder,
    x: Value,
    mean: Value,
    variance: Value,
    offset: Value,
    scale: Value,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Value:
    """Normalized channels, which are last."""
    y = b(Div, b(Sub, x, mean), b(Sqrt, b(Add, variance, variance_epsilon)))
    return b(Add, b(Mul, y, scale) if scale_after_normalization else y, offset)


@operator("LRN")
def lrn(
    b: Builder, x: Value, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Value:
    """Elements divided by (bias + alpha * the sum of squares of the channels around) ** beta."""
    size = 2 * depth_radius + 1
    y = b(LRN, to_channels_first(b, x, "NHWC"), alpha=alpha * size, beta=beta, bias=bias, size=size)
    return from_channels_first(b, y, "NHWC")
