"""Convolutions of Keras: filters [*kernel, channels, maps], channels last unless `data_format` differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.keras.rules.activation import activated
from graphport.formats.keras.rules.binding import Layer, layer, pair
from graphport.formats.keras.rules.tensors import to_channels_first, to_data_format
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.convolution import Conv, ConvTranspose
from graphport.ops.definitions.convolution.window import same_pads
from graphport.ops.definitions.padding import Pad
from graphport.ops.lowering.operands import reshaped, sizes, transposed
from graphport.ops.lowering.windows import window_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_WEIGHTS = "kernel bias:use_bias"
_SEPARABLE = "depthwise_kernel pointwise_kernel bias:use_bias"


def pads_of(
    dims: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: str
) -> dict[str, Any]:
    """The padding of a window over `dims` as attributes of ONNX.

    Raises:
        ShapeError: the padding is neither `valid`, `same` nor `causal`.
    """
    if padding == "valid":
        return {}
    if padding == "causal":
        return {"pads": ((kernel[0] - 1) * dilations[0], 0)}
    if padding != "same":
        message = f"the padding is {padding!r}, expected valid, same or causal"
        raise ShapeError(message)
    pads = [same_pads(*each, "SAME_UPPER") for each in zip(dims, kernel, strides, dilations, strict=True)]
    flat = [side for each in zip(*pads, strict=True) for side in each]
    if not all(isinstance(side, int) for side in flat):
        return {"auto_pad": "SAME_UPPER"}
    return {"pads": tuple(flat)} if any(flat) else {}


def convolve(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    groups: int = 1,
) -> Value:
    """A convolution of `x` [N, C, *d] with filters [M, C / groups, *kernel]."""
    kernel = sizes(b.dims(w)[2:], "the kernel")
    pads = pads_of(b.dims(x)[2:], kernel, strides, dilations, padding)
    attributes = window_attributes(kernel, strides, dilations) | pads
    return b(Conv, x, w, bias, group=groups if groups > 1 else None, **attributes)


def filters_first(b: Builder, kernel: Value) -> Value:
    """Filters [*kernel, channels, maps] as [maps, channels, *kernel]."""
    rank = len(b.dims(kernel))
    return transposed(b, kernel, (rank - 1, rank - 2, *range(rank - 2)))


def depthwise_first(b: Builder, kernel: Value) -> tuple[Value, int]:
    """Filters [*kernel, channels, multiplier] as [channels * multiplier, 1, *kernel], and the channels."""
    rank = len(b.dims(kernel))
    *window_dims, channels, multiplier = sizes(b.dims(kernel), "the kernel")
    moved = transposed(b, kernel, (rank - 2, rank - 1, *range(rank - 2)))
    return reshaped(b, moved, (channels * multiplier, 1, *window_dims)), channels


@layer("Conv1D", "Conv2D", "Conv3D", weights=_WEIGHTS)
def conv(
    at: Layer,
    *,
    filters: int = 0,
    kernel_size: Any = (),
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    groups: int = 1,
    activation: Any = None,
    use_bias: bool = True,
    rank: int = 0,
) -> Value:
    """A convolution; the number of groups follows from the channels."""
    del filters, kernel_size, use_bias, rank
    b, spatial = at.b, at.rank - 2
    x = to_channels_first(b, at.x, data_format)
    y = convolve(
        b,
        x,
        filters_first(b, at.need("kernel")),
        at.get("bias"),
        strides=pair(strides, spatial, "strides"),
        dilations=pair(dilation_rate, spatial, "dilation_rate"),
        padding=padding,
        groups=groups,
    )
    return activated(at, to_data_format(b, y, data_format), activation)


@layer("DepthwiseConv1D", "DepthwiseConv2D", weights=_WEIGHTS)
def depthwise_conv(
    at: Layer,
    *,
    kernel_size: Any = (),
    strides: Any = 1,
    padding: str = "valid",
    depth_multiplier: int = 1,
    data_format: str | None = None,
    dilation_rate: Any = 1,
    activation: Any = None,
    use_bias: bool = True,
    filters: Any = None,
    groups: int = 1,
    rank: int = 0,
) -> Value:
    """A convolution of each channel with its own filters."""
    del kernel_size, depth_multiplier, use_bias, filters, groups, rank
    b, spatial = at.b, at.rank - 2
    w, channels = depthwise_first(b, at.need("kernel"))
    y = convolve(
        b,
        to_channels_first(b, at.x, data_format),
        w,
        at.get("bias"),
        strides=pair(strides, spatial, "strides"),
        dilations=pair(dilation_rate, spatial, "dilation_rate"),
        padding=padding,
        groups=channels,
    )
    return activated(at, to_data_format(b, y, data_format), activation)


@layer("SeparableConv1D", "SeparableConv2D", weights=_SEPARABLE)
def separable_conv(
    at: Layer,
    *,
    filters: int = 0,
    kernel_size: Any = (),
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    depth_multiplier: int = 1,
    activation: Any = None,
    use_bias: bool = True,
    groups: int = 1,
    rank: int = 0,
) -> Value:
    """A depthwise convolution and a convolution with a window of 1."""
    del filters, kernel_size, depth_multiplier, use_bias, groups, rank
    b, spatial = at.b, at.rank - 2
    ones = (1,) * spatial
    w, channels = depthwise_first(b, at.need("depthwise_kernel"))
    y = convolve(
        b,
        to_channels_first(b, at.x, data_format),
        w,
        None,
        strides=pair(strides, spatial, "strides"),
        dilations=pair(dilation_rate, spatial, "dilation_rate"),
        padding=padding,
        groups=channels,
    )
    pointwise = filters_first(b, at.need("pointwise_kernel"))
    y = convolve(b, y, pointwise, at.get("bias"), strides=ones, dilations=ones, padding="valid")
    return activated(at, to_data_format(b, y, data_format), activation)


@layer("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", weights=_WEIGHTS)
def conv_transpose(
    at: Layer,
    *,
    filters: int = 0,
    kernel_size: Any = (),
    strides: Any = 1,
    padding: str = "valid",
    output_padding: Any = None,
    data_format: str | None = None,
    dilation_rate: Any = 1,
    groups: int = 1,
    activation: Any = None,
    use_bias: bool = True,
    rank: int = 0,
) -> Value:
    """A transposed convolution; filters [*kernel, maps, channels]."""
    del filters, kernel_size, use_bias, rank
    b, spatial = at.b, at.rank - 2
    if groups != 1:
        message = f"a transposed convolution of {groups} groups"
        raise UnsupportedError(message)
    strides, dilations = pair(strides, spatial, "strides"), pair(dilation_rate, spatial, "dilation_rate")
    w = filters_first(b, at.need("kernel"))
    added = (None,) * spatial if output_padding is None else pair(output_padding, spatial, "output_padding")
    excess = [
        _excess((k - 1) * d + 1, s, padding, extra)
        for k, d, s, extra in zip(sizes(b.dims(w)[2:], "the kernel"), dilations, strides, added, strict=True)
    ]
    y = _transpose_and_cut(b, to_channels_first(b, at.x, data_format), w, at.get("bias"), strides, dilations, excess)
    return activated(at, to_data_format(b, y, data_format), activation)


def _excess(kernel: int, stride: int, padding: str, extra: int | None) -> int:
    """The size of the full result, (n - 1) * stride + kernel, less the size that Keras computes."""
    if padding == "valid":
        return -(max(stride - kernel, 0) if extra is None else extra)
    return kernel - stride if extra is None else kernel - kernel % 2 - extra


def _transpose_and_cut(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    excess: Sequence[int],
) -> Value:
    """Crop the full result, half of the excess at the start, and pad a missing end with the bias."""
    begins = [max(each, 0) // 2 for each in excess]
    ends = [max(each, 0) - begin for each, begin in zip(excess, begins, strict=True)]
    more = [max(-each, 0) for each in excess]
    attributes = window_attributes(sizes(b.dims(w)[2:], "the kernel"), strides, dilations)
    attributes["pads"] = (*begins, *ends) if any((*begins, *ends)) else None
    if all(extra < stride for extra, stride in zip(more, strides, strict=True)):
        return b(ConvTranspose, x, w, bias, output_padding=tuple(more) if any(more) else None, **attributes)
    y = b(ConvTranspose, x, w, **attributes)
    y = b(Pad, y, [*[0] * (2 + len(more)), 0, 0, *more])
    return y if bias is None else b(Add, y, reshaped(b, bias, (-1, *[1] * len(more))))
