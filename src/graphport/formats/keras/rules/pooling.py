"""Poolings of Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.keras.rules.binding import Layer, layer, pair
from graphport.formats.keras.rules.convolution import pads_of
from graphport.formats.keras.rules.tensors import reduced, spatial_axes, to_channels_first, to_data_format, unsqueezed
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Div, Mul
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.pooling import AveragePool, MaxPool
from graphport.ops.definitions.reduction import ReduceMax, ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Concat
from graphport.ops.lowering.operands import cast, vector
from graphport.ops.lowering.windows import window_attributes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.declare import OpDef


def _pooled(at: Layer, op_def: OpDef, pool_size: Any, strides: Any, padding: str, data_format: str | None) -> Value:
    b, spatial = at.b, at.rank - 2
    kernel = pair(pool_size, spatial, "pool_size")
    steps = kernel if strides is None else pair(strides, spatial, "strides")
    ones = (1,) * spatial
    x = to_channels_first(b, at.x, data_format)
    attributes = window_attributes(kernel, steps, ones) | pads_of(b.dims(x)[2:], kernel, steps, ones, padding)
    return to_data_format(b, b(op_def, x, **attributes), data_format)


@layer("MaxPooling1D", "MaxPooling2D", "MaxPooling3D")
def max_pooling(
    at: Layer, *, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: str | None = None
) -> Value:
    """The largest element of each window."""
    return _pooled(at, MaxPool, pool_size, strides, padding, data_format)


@layer("AveragePooling1D", "AveragePooling2D", "AveragePooling3D")
def average_pooling(
    at: Layer, *, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: str | None = None
) -> Value:
    """The mean of each window without its padding."""
    return _pooled(at, AveragePool, pool_size, strides, padding, data_format)


@layer("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D")
def global_max_pooling(at: Layer, *, data_format: str | None = None, keepdims: bool = False) -> Value:
    """The largest element of each channel."""
    return reduced(at.b, ReduceMax, at.x, spatial_axes(at.rank, data_format), keepdims=keepdims)


@layer("GlobalAveragePooling2D", "GlobalAveragePooling3D")
def global_average_pooling(at: Layer, *, data_format: str | None = None, keepdims: bool = False) -> Value:
    """The mean of each channel."""
    return reduced(at.b, ReduceMean, at.x, spatial_axes(at.rank, data_format), keepdims=keepdims)


@layer("GlobalAveragePooling1D", call="x mask", takes_mask=True)
def global_average_pooling_1d(at: Layer, *, data_format: str | None = None, keepdims: bool = False) -> Value:
    """The mean over the time indices that the mask selects."""
    b, mask = at.b, at.get("mask")
    axis = spatial_axes(3, data_format)
    if mask is None:
        return reduced(b, ReduceMean, at.x, axis, keepdims=keepdims)
    weights = unsqueezed(b, cast(b, mask, at.dtype), [1 if axis == (2,) else 2])
    total = reduced(b, ReduceSum, b(Mul, at.x, weights), axis, keepdims=keepdims)
    return b(Div, total, reduced(b, ReduceSum, weights, axis, keepdims=keepdims))


@layer("AdaptiveMaxPooling1D", "AdaptiveMaxPooling2D", "AdaptiveMaxPooling3D")
def adaptive_max_pooling(at: Layer, *, output_size: Any = 1, data_format: str | None = None) -> Value:
    """The largest element of each of `output_size` windows that cover a spatial dim."""
    return _adaptive(at, ReduceMax, output_size, data_format)


@layer("AdaptiveAveragePooling1D", "AdaptiveAveragePooling2D", "AdaptiveAveragePooling3D")
def adaptive_average_pooling(at: Layer, *, output_size: Any = 1, data_format: str | None = None) -> Value:
    """The mean of each of `output_size` windows that cover a spatial dim."""
    return _adaptive(at, ReduceMean, output_size, data_format)


def _adaptive(at: Layer, op_def: OpDef, output_size: Any, data_format: str | None) -> Value:
    """Reduce window i of n: the elements from floor(i * size / n) to ceil((i + 1) * size / n) of each spatial dim."""
    b, x, spatial = at.b, at.x, at.rank - 2
    counts = pair(output_size, spatial, "output_size")
    axes = spatial_axes(at.rank, data_format)
    sizes = [size for axis in axes if isinstance(size := b.dims(x)[axis], int)]
    if len(sizes) < spatial:
        message = "adaptive pooling of an open spatial dim"
        raise UnsupportedError(message)
    steps = tuple(size // count for size, count in zip(sizes, counts, strict=True))
    if all(size == step * count for size, step, count in zip(sizes, steps, counts, strict=True)):
        pooling = MaxPool if op_def is ReduceMax else AveragePool
        return _pooled(at, pooling, steps, steps, "valid", data_format)
    for axis, size, count in zip(axes, sizes, counts, strict=True):
        ends = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        windows = [b(Slice, x, vector(b, [i]), vector(b, [end]), vector(b, [axis])) for i, end in ends]
        x = b(Concat, *[reduced(b, op_def, each, [axis], keepdims=True) for each in windows], axis=axis)
    return x
