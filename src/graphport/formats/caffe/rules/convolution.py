"""Convolutions in Caffe."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Dim, decide_equal
from graphport.formats.caffe.rules.binding import Layer, in_caffe, layer
from graphport.formats.caffe.rules.windows import Frame, emitted_window, frame
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.convolution import Conv, ConvTranspose
from graphport.ops.lowering.windows import transposed_window_of, window_of
from graphport.ops.views.convolution import ConvTransposeView, ConvView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef
    from graphport.ops.definitions.convolution.window import Window

Shaped = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConvolutionAttributes:
    """Convolution attributes except groups."""

    num_output: int = 0
    bias_term: bool = True
    kernel_size: Shaped = ()
    kernel_h: int | None = None
    kernel_w: int | None = None
    pad: Shaped = ()
    pad_h: int | None = None
    pad_w: int | None = None
    stride: Shaped = ()
    stride_h: int | None = None
    stride_w: int | None = None
    dilation: Shaped = ()
    axis: int = 1

    def frame(self, rank: int) -> Frame:
        """Return the window over `rank` axes."""
        kernel = (self.kernel_size, self.kernel_h, self.kernel_w)
        pad, stride = (self.pad, self.pad_h, self.pad_w), (self.stride, self.stride_h, self.stride_w)
        return frame(rank, kernel=kernel, pad=pad, stride=stride, dilation=self.dilation)


@layer("Convolution", "convolution_param", bottoms=None, stated=ConvolutionAttributes)
def convolution(at: Layer, *, group: int = 1, **attributes: Any) -> tuple[Value, ...]:
    """Convolve each bottom with the same weights."""
    return tuple(_convolved(at, index, group, **attributes) for index in range(len(at.bottoms)))


@layer("ConvolutionDepthwise", "convolution_param", stated=ConvolutionAttributes)
def convolution_depthwise(at: Layer, *, group: int = 1, **attributes: Any) -> Value:
    """Depthwise convolution; `group` is ignored."""
    del group
    channels = at.dims()[1]
    if not isinstance(channels, int):
        message = "a depth-wise convolution with an unknown number of channels"
        raise UnsupportedError(message)
    return _convolved(at, 0, channels, **attributes)


layer("DepthwiseConvolution", "convolution_param", stated=ConvolutionAttributes)(convolution_depthwise)


def _convolved(at: Layer, index: int, group: int, **attributes: Any) -> Value:
    stated = ConvolutionAttributes(**attributes)
    channels, window = _window(at, index, group, stated)
    return _over(at, Conv, index, (stated.num_output, channels // group, *window.kernel), group, stated)


@layer("Im2col", "convolution_param", stated=ConvolutionAttributes)
def im2col(at: Layer, **attributes: Any) -> Value:
    """Extract the window at each position as channels."""
    stated = ConvolutionAttributes(**attributes)
    channels, dims = at.dims()[1], at.dims()[2:]
    window = stated.frame(len(dims))
    count = prod(window.kernel)
    if not isinstance(channels, int) or stated.axis != 1:
        message = "the number of channels is unknown"
        raise UnsupportedError(message)
    at.bounded(channels * count**2)
    # Convolve each channel with one-hot kernels.
    single = np.eye(count, dtype=np.float32).reshape(count, 1, *window.kernel)
    reserve(channels, single.size)
    filters = at.b.constant(np.tile(single, (channels, *[1] * (len(dims) + 1))))
    return at.b(Conv, at.x, filters, group=channels if channels != 1 else None, **window.attributes())


@layer("Deconvolution", "convolution_param", bottoms=None, stated=ConvolutionAttributes)
def deconvolution(at: Layer, *, group: int = 1, **attributes: Any) -> tuple[Value, ...]:
    """Transposed convolution; axis 0 of the weights is the bottom's channels."""
    stated = ConvolutionAttributes(**attributes)
    tops: list[Value] = []
    for index in range(len(at.bottoms)):
        channels, window = _window(at, index, group, stated)
        shape = (channels, stated.num_output // group, *window.kernel)
        tops.append(_over(at, ConvTranspose, index, shape, group, stated))
    return tuple(tops)


def _over(
    at: Layer, op_def: OpDef, index: int, shape: Sequence[Dim], group: int, stated: ConvolutionAttributes
) -> Value:
    """Convolve bottom `index` with weights of `shape`."""
    weights = at.blob(0, shape)
    bias = at.blob(1, (stated.num_output,), "bias") if stated.bias_term else None
    attributes = stated.frame(len(shape) - 2).attributes()
    return at.b(op_def, at.bottoms[index], weights, bias, group=group if group != 1 else None, **attributes)


def _window(at: Layer, index: int, group: int, stated: ConvolutionAttributes) -> tuple[Dim, Frame]:
    """Return the number of channels, and the window over the spatial axes."""
    dims = at.dims(index)
    if at.axis(stated.axis, index) != 1:
        message = f"the channels are on axis {stated.axis}, expected axis 1"
        raise UnsupportedError(message)
    if group < 1 or stated.num_output < 1:
        message = f"num_output is {stated.num_output}, group is {group}"
        raise ShapeError(message, "use positive values")
    channels, maps = dims[1], stated.num_output
    if maps % group or (isinstance(channels, int) and channels % group):
        message = f"{channels} channels and {maps} outputs cannot be split into {group} equal groups"
        raise ShapeError(message, "use a group that divides both")
    return channels, stated.frame(len(dims) - 2)


@ConvView.export_rule("caffe")
def export_conv(b: Builder, op: ConvView) -> tuple[Value, ...]:
    """Export Conv with symmetric padding."""
    return _emit_convolution(b, "Convolution", op, b.dims(op.w, at_least=1)[0], window_of(op))


@ConvTransposeView.export_rule("caffe")
def export_conv_transpose(b: Builder, op: ConvTransposeView) -> tuple[Value, ...]:
    """Export ConvTranspose with symmetric padding and without output padding."""
    slid = transposed_window_of(op)
    axes = zip(b.dims(op.x)[2:], slid.kernel, slid.strides, slid.dilations, slid.pads, slid.lengths, strict=True)
    if any(decide_equal((n - 1) * s + (k - 1) * d + 1 - p - q, out) is not True for n, k, s, d, (p, q), out in axes):
        message = "output elements outside of every window"
        raise UnsupportedError(message)
    return _emit_convolution(b, "Deconvolution", op, b.dims(op.w, at_least=2)[1] * op.group, slid)


def _emit_convolution(
    b: Builder, type: str, op: ConvView | ConvTransposeView, maps: Dim, slid: Window
) -> tuple[Value, ...]:
    stated = emitted_window(slid)
    if not isinstance(maps, int) or not slid.kernel:
        message = "the number of feature maps is unknown"
        raise UnsupportedError(message)
    stated |= {"num_output": maps, "group": op.group if op.group != 1 else None, "bias_term": None if op.b else False}
    return in_caffe(b, type, op.x, blobs=[op.w] if op.b is None else [op.w, op.b], **stated)
