"""Convolutions in Caffe."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Dim, decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.dialects.caffe.binding import Layer, in_caffe, layer
from graphport.ops.dialects.caffe.windows import Frame, emitted_window, frame
from graphport.ops.dialects.windows import transposed_window_of, window_of
from graphport.ops.pages.convolution import Conv, ConvTranspose
from graphport.ops.views.convolution import ConvTransposeView, ConvView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stated:
    """The parameters of a convolution as far as they are not about groups."""

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
        """The window over `rank` axes."""
        kernel = (self.kernel_size, self.kernel_h, self.kernel_w)
        pad, stride = (self.pad, self.pad_h, self.pad_w), (self.stride, self.stride_h, self.stride_w)
        return frame(rank, kernel=kernel, pad=pad, stride=stride, dilation=self.dilation)


@layer("Convolution", "convolution_param", bottoms=None, stated=Stated)
def convolution(at: Layer, *, group: int = 1, **attributes: Any) -> tuple[Value, ...]:
    """One convolution of each bottom, all with the same weights."""
    return tuple(_convolved(at, index, group, **attributes) for index in range(len(at.bottoms)))


@layer("ConvolutionDepthwise", "convolution_param", stated=Stated)
def convolution_depthwise(at: Layer, *, group: int = 1, **attributes: Any) -> Value:
    """Each channel by itself, whatever `group` says."""
    del group
    channels = at.dims()[1]
    if not isinstance(channels, int):
        message = "each channel by itself, and their number is not known"
        raise UnsupportedError(message)
    return _convolved(at, 0, channels, **attributes)


layer("DepthwiseConvolution", "convolution_param", stated=Stated)(convolution_depthwise)


def _convolved(at: Layer, index: int, group: int, **attributes: Any) -> Value:
    stated = Stated(**attributes)
    channels, dims = _channels(at, index, group, stated)
    window = stated.frame(len(dims))
    weights = at.blob(0, (stated.num_output, channels // group, *window.kernel))
    bias = at.blob(1, (stated.num_output,), "bias") if stated.bias_term else None
    _check_groups(stated.num_output, channels, group)
    return at.b(Conv, at.bottoms[index], weights, bias, group=group if group != 1 else None, **window.attributes())


@layer("Im2col", "convolution_param", stated=Stated)
def im2col(at: Layer, **attributes: Any) -> Value:
    """What the window covers at each place, as channels."""
    stated = Stated(**attributes)
    channels, dims = at.dims()[1], at.dims()[2:]
    window = stated.frame(len(dims))
    count = prod(window.kernel)
    if not isinstance(channels, int) or stated.axis != 1:
        message = "the number of channels is not known"
        raise UnsupportedError(message)
    at.bounded(channels * count**2)
    # Each channel's window by one that is 1 at a single place.
    single = np.eye(count, dtype=np.float32).reshape(count, 1, *window.kernel)
    reserve(channels, single.size)
    filters = at.b.constant(np.tile(single, (channels, *[1] * (len(dims) + 1))))
    return at.b(Conv, at.x, filters, group=channels if channels != 1 else None, **window.attributes())


@layer("Deconvolution", "convolution_param", bottoms=None, stated=Stated)
def deconvolution(at: Layer, *, group: int = 1, **attributes: Any) -> tuple[Value, ...]:
    """The transposed convolution; weights have the bottom's channels first."""
    stated = Stated(**attributes)
    tops: list[Value] = []
    for index, x in enumerate(at.bottoms):
        channels, dims = _channels(at, index, group, stated)
        window = stated.frame(len(dims))
        _check_groups(stated.num_output, channels, group)
        weights = at.blob(0, (channels, stated.num_output // group, *window.kernel))
        bias = at.blob(1, (stated.num_output,), "bias") if stated.bias_term else None
        attributes = window.attributes()
        tops.append(at.b(ConvTranspose, x, weights, bias, group=group if group != 1 else None, **attributes))
    return tuple(tops)


def _channels(at: Layer, index: int, group: int, stated: Stated) -> tuple[Dim, tuple[Dim, ...]]:
    dims = at.dims(index)
    if at.axis(stated.axis, index) != 1:
        message = f"the channels are on axis {stated.axis}"
        raise UnsupportedError(message)
    if group < 1 or stated.num_output < 1:
        message = f"num_output is {stated.num_output}, group is {group}"
        raise ShapeError(message, "both are positive")
    return dims[1], dims[2:]


def _check_groups(num_output: int, channels: Dim, group: int) -> None:
    if num_output % group or (isinstance(channels, int) and channels % group):
        message = f"{channels} channels and {num_output} outputs are not {group} equal groups"
        raise ShapeError(message, "group divides both")


@ConvView.lift("caffe")
def lift_conv(b: Builder, op: ConvView) -> tuple[Value, ...]:
    """Padding is the same before and behind."""
    dims, weights = b.dims(op.x), b.dims(op.w)
    slid = window_of(op)
    fact = TensorFact(DType.FLOAT32, (dims[0], weights[0], *slid.lengths))
    stated = emitted_window(slid.kernel, slid.pads, slid.strides, slid.dilations)
    return _written(b, "Convolution", fact, op.x, op.w, op.b, weights[0], op.group, stated)


@ConvTransposeView.lift("caffe")
def lift_conv_transpose(b: Builder, op: ConvTransposeView) -> tuple[Value, ...]:
    """Nothing more than the whole window, cut off evenly."""
    (batch, _, *dims), maps = b.dims(op.x), b.dims(op.w)[1]
    geometry = transposed_window_of(op)
    axes = zip(
        dims, geometry.kernel, geometry.strides, geometry.dilations, geometry.pads, geometry.lengths, strict=True
    )
    if any(decide_equal((n - 1) * s + (k - 1) * d + 1 - p - q, out) is not True for n, k, s, d, (p, q), out in axes):
        message = "the result has entries that no window paints"
        raise UnsupportedError(message)
    fact = TensorFact(DType.FLOAT32, (batch, maps * op.group, *geometry.lengths))
    stated = emitted_window(geometry.kernel, geometry.pads, geometry.strides, geometry.dilations)
    return _written(b, "Deconvolution", fact, op.x, op.w, op.b, maps * op.group, op.group, stated)


def _written(
    b: Builder,
    type: str,
    fact: TensorFact,
    x: Value,
    w: Value,
    bias: Value | None,
    maps: Dim,
    group: int,
    stated: dict[str, Any],
) -> tuple[Value, ...]:
    if not isinstance(maps, int) or fact.rank < 3:
        message = "the number of feature maps is not known"
        raise UnsupportedError(message)
    stated |= {"num_output": maps, "group": group if group != 1 else None, "bias_term": None if bias else False}
    return in_caffe(b, type, [fact], x, blobs=[w] if bias is None else [w, bias], **stated)
