"""Pooling in TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.tensorflow.rules.binding import from_channels_first, operator, spatial, to_channels_first
from graphport.formats.tensorflow.rules.convolution import explicit_pads, window
from graphport.ops.definitions.pooling import AveragePool, MaxPool
from graphport.ops.lowering.operands import needed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef


def _pooled(
    b: Builder,
    op_def: OpDef,
    x: Value,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    explicit: tuple[int, ...],
    data_format: str,
) -> Value:
    x = to_channels_first(b, x, data_format)
    kernel = spatial(ksize, data_format)
    attributes = window(
        b.dims(x)[2:],
        kernel,
        spatial(strides, data_format),
        (1,) * len(kernel),
        padding,
        explicit_pads(explicit, data_format),
    )
    return from_channels_first(b, b(op_def, x, **attributes), data_format)


@operator("AvgPool", "AvgPool3D")
def average_pool(
    b: Builder, x: Value, *, ksize: tuple[int, ...], strides: tuple[int, ...], padding: str, data_format: str = "NHWC"
) -> Value:
    """The mean of each window without its padding."""
    return _pooled(b, AveragePool, x, ksize, strides, padding, (), data_format)


@operator("MaxPool", "MaxPool3D")
def max_pool(
    b: Builder,
    x: Value,
    *,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...] = (),
    data_format: str = "NHWC",
) -> Value:
    """The largest element of each window."""
    return _pooled(b, MaxPool, x, ksize, strides, padding, explicit_paddings, data_format)


@operator("MaxPoolV2")
def max_pool_v2(
    b: Builder, x: Value, ksize: Value, strides: Value, *, padding: str, data_format: str = "NHWC"
) -> Value:
    """The largest element of each window, whose size is an operand."""
    return _pooled(b, MaxPool, x, needed(ksize, "the window"), needed(strides, "the strides"), padding, (), data_format)
