"""Convolutions in OpenVINO."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.arithmetic.openvino import said_cast
from graphport.ops.convolution import Conv, ConvInteger, ConvTranspose, DeformConv, QLinearConv
from graphport.ops.convolution.transposed import transposed_window
from graphport.ops.convolution.window import window
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.indexing import Gather
from graphport.ops.inner import said_reshape, say
from graphport.ops.matmul.openvino import requantized, shifted
from graphport.ops.operands import cast, dtype_of, integers, reshaped, sizes, vector
from graphport.ops.padding import Pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"

_AUTO = {"valid": "VALID", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER"}


def borders(
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    auto_pad: str,
) -> dict[str, Any]:
    """A window's attributes in ONNX's words; those that say nothing are `None`.

    Raises:
        UnsupportedError: padding is computed in a way that nobody knows.
    """
    said: dict[str, Any] = {
        "strides": tuple(strides) if any(s != 1 for s in strides) else None,
        "dilations": tuple(dilations) if any(d != 1 for d in dilations) else None,
    }
    if auto_pad in ("explicit", "notset"):
        pads = (*pads_begin, *pads_end)
        return said | {"pads": pads if any(pads) else None}
    if auto_pad not in _AUTO:
        message = f"auto_pad is {auto_pad!r}"
        raise UnsupportedError(message)
    return said | {"auto_pad": _AUTO[auto_pad]}


def _convolved(b: Builder, x: Value, w: Value, group: int, said: dict[str, Any]) -> Value:
    kernel = tuple(dim for dim in b.dims(w)[2:] if isinstance(dim, int))
    known = kernel if len(kernel) == len(b.dims(w)) - 2 else None
    if said.get("auto_pad") in ("SAME_UPPER", "SAME_LOWER") and said["dilations"]:
        said = _explicit(b, x, b.dims(w)[2:], said)
    pads = said.get("pads")
    if pads and min(pads) < 0:
        x, said = _cropped(b, x, pads), said | {"pads": None}
    return b(Conv, x, w, group=group, kernel_shape=known, **said)


def _explicit(b: Builder, x: Value, kernel: Sequence[Dim], said: dict[str, Any]) -> dict[str, Any]:
    """Automatic padding of a dilated window as numbers, for not every runtime computes it."""
    slid = window(b.dims(x)[2:], kernel, **said)
    pads = [pad for pair in zip(*slid.pads, strict=True) for pad in pair]
    if not all(isinstance(pad, int) for pad in pads):
        return said
    return said | {"auto_pad": None, "pads": tuple(pads)}


def _cropped(b: Builder, x: Value, pads: Sequence[int]) -> Value:
    rank = len(pads) // 2
    return b(Pad, x, vector(b, [0, 0, *pads[:rank], 0, 0, *pads[rank:]]))


@lower("openvino", "opset1.Convolution")
def convolution(
    b: Builder,
    x: Value,
    filters: Value,
    *,
    strides: tuple[int, ...],
    pads_begin: tuple[int, ...],
    pads_end: tuple[int, ...],
    dilations: tuple[int, ...],
    auto_pad: str = "explicit",
) -> Value:
    """Sums of products under a sliding window."""
    return _convolved(b, x, filters, 1, borders(strides, pads_begin, pads_end, dilations, auto_pad))


@lower("openvino", "opset1.GroupConvolution")
def group_convolution(
    b: Builder,
    x: Value,
    filters: Value,
    *,
    strides: tuple[int, ...],
    pads_begin: tuple[int, ...],
    pads_end: tuple[int, ...],
    dilations: tuple[int, ...],
    auto_pad: str = "explicit",
) -> Value:
    """The same for each group of channels; filters have an axis of groups in front."""
    group, *_ = sizes(b.dims(filters)[:1], "the number of groups")
    said = borders(strides, pads_begin, pads_end, dilations, auto_pad)
    return _convolved(b, x, _joined(b, filters), group, said)


def _joined(b: Builder, filters: Value) -> Value:
    """Filters [G, A, B, *k] as [G * A, B, *k]."""
    group, first, *rest = sizes(b.dims(filters), "the shape of grouped filters")
    return reshaped(b, filters, [group * first, *rest])


def _window_words(rank: int, said: dict[str, Any], kernel: Sequence[Dim], dims: Sequence[Dim]) -> dict[str, Any]:
    """ONNX's attributes of a window in OpenVINO's words.

    Raises:
        ShapeError: as `window` has it.
    """
    auto_pad = said["auto_pad"]
    slid = window(dims, kernel, **said)
    words: dict[str, Any] = {
        "strides": slid.strides,
        "dilations": slid.dilations,
        "pads_begin": (0,) * rank,
        "pads_end": (0,) * rank,
    }
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return words | {"auto_pad": auto_pad.lower()}
    begins, ends = (sizes(side, "padding") for side in zip(*slid.pads, strict=True))
    return words | {"pads_begin": begins, "pads_end": ends, "auto_pad": "explicit"}


def _biased(b: Builder, y: Value, bias: Value | None, rank: int) -> Value:
    if bias is None:
        return y
    return say(b, "opset1.Add", y, said_reshape(b, bias, (1, -1, *[1] * rank)))


def _check_space(rank: int) -> None:
    if rank > 3:
        message = f"a window over {rank} axes; OpenVINO has them over 1 to 3"
        raise UnsupportedError(message)


def _places(x: Value, rank: int) -> Sequence[Dim]:
    """The extents that a window slides over, open ones where nobody knows the rank."""
    known = x.fact.shape if isinstance(x.fact, TensorFact) else None
    return (OPEN,) * rank if known is None else known[2:]


def _said_conv(b: Builder, x: Value, w: Value, group: int, said: dict[str, Any]) -> Value:
    rank = len(b.dims(w)) - 2
    _check_space(rank)
    words = _window_words(rank, said, b.dims(w)[2:], _places(x, rank))
    if group == 1:
        return say(b, "opset1.Convolution", x, w, **words)
    maps, *rest = sizes(b.dims(w), "the shape of grouped filters")
    return say(b, "opset1.GroupConvolution", x, said_reshape(b, w, [group, maps // group, *rest]), **words)


@Conv.lift("openvino")
def lift_conv(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    del kernel_shape
    said = {"auto_pad": auto_pad, "dilations": dilations, "pads": pads, "strides": strides}
    return (_biased(b, _said_conv(b, x, w, group, said), bias, len(b.dims(w)) - 2),)


@ConvInteger.lift("openvino")
def lift_conv_integer(
    b: Builder,
    x: Value,
    w: Value,
    x_zero_point: Value | None = None,
    w_zero_point: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    """In float32, which holds the sum of a few hundred products of bytes exactly."""
    del kernel_shape
    _check_exact(b, w)
    said = {"auto_pad": auto_pad, "dilations": dilations, "pads": pads, "strides": strides}
    left, right = shifted(b, x, x_zero_point), shifted(b, w, _per_map(b, w_zero_point, w))
    return (said_cast(b, _said_conv(b, left, right, group, said), DType.INT32),)


def _check_exact(b: Builder, w: Value) -> None:
    """Each product of two differences of bytes takes 17 bits and a sign; float32 has 24."""
    taps = b.dims(w)[1:]
    if not all(isinstance(n, int) for n in taps) or prod(sizes(taps)) > 1 << 8:
        message = "sums of more products than float32 holds exactly"
        raise UnsupportedError(message)


def _per_map(b: Builder, parameter: Value | None, w: Value) -> Value | None:
    """One number for each map, as the first axis of the filters."""
    if parameter is None or b.dims(parameter) in ((), (1,)):
        return parameter
    return said_reshape(b, parameter, (-1, *[1] * (len(b.dims(w)) - 1)))


@QLinearConv.lift("openvino")
def lift_qlinear_conv(
    b: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    w: Value,
    w_scale: Value,
    w_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    del kernel_shape
    if not dtype_of(y_zero_point).is_integer:
        return None
    _check_exact(b, w)
    said = {"auto_pad": auto_pad, "dilations": dilations, "pads": pads, "strides": strides}
    right = shifted(b, w, _per_map(b, w_zero_point, w))
    total = _said_conv(b, shifted(b, x, x_zero_point), right, group, said)
    if bias is not None:
        total = _biased(b, total, said_cast(b, bias, DType.FLOAT32), len(b.dims(w)) - 2)
    per_map = (
        w_scale if b.dims(w_scale) in ((), (1,)) else said_reshape(b, w_scale, (1, -1, *[1] * (len(b.dims(w)) - 2)))
    )
    factor = say(b, "opset1.Divide", say(b, "opset1.Multiply", per_map, x_scale), y_scale)
    return (requantized(b, say(b, "opset1.Multiply", total, factor), y_zero_point),)


# Transposed convolutions


@lower("openvino", "opset1.ConvolutionBackpropData")
def convolution_backprop(
    b: Builder,
    x: Value,
    filters: Value,
    output_shape: Value | None = None,
    *,
    strides: tuple[int, ...],
    pads_begin: tuple[int, ...],
    pads_end: tuple[int, ...],
    dilations: tuple[int, ...],
    auto_pad: str = "explicit",
    output_padding: tuple[int, ...] = (),
) -> Value:
    """A window that paints: the gradient of a convolution by its data."""
    pads = list(zip(pads_begin, pads_end, strict=True))
    return _painted(b, x, filters, 1, output_shape, strides, pads, dilations, auto_pad, output_padding)


@lower("openvino", "opset1.GroupConvolutionBackpropData")
def group_convolution_backprop(
    b: Builder,
    x: Value,
    filters: Value,
    output_shape: Value | None = None,
    *,
    strides: tuple[int, ...],
    pads_begin: tuple[int, ...],
    pads_end: tuple[int, ...],
    dilations: tuple[int, ...],
    auto_pad: str = "explicit",
    output_padding: tuple[int, ...] = (),
) -> Value:
    """The same for each group of channels; filters have an axis of groups in front."""
    group, *_ = sizes(b.dims(filters)[:1], "the number of groups")
    pads = list(zip(pads_begin, pads_end, strict=True))
    joined = _joined(b, filters)
    return _painted(b, x, joined, group, output_shape, strides, pads, dilations, auto_pad, output_padding)


def _painted(
    b: Builder,
    x: Value,
    w: Value,
    group: int,
    output_shape: Value | None,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    auto_pad: str,
    output_padding: Sequence[int],
) -> Value:
    kernel = sizes(b.dims(w)[2:], "the kernel")
    rank = len(kernel)
    extra = tuple(output_padding) or (0,) * rank
    cut = list(pads) if auto_pad in ("explicit", "notset") else [(0, 0)] * rank
    if output_shape is not None:
        wanted = integers(output_shape)
        if wanted is None:
            message = "the shape of what is painted must be constant"
            raise UnsupportedError(message)
        dims = sizes(b.dims(x)[2:], "what is painted in a given shape")
        full = [
            (n - 1) * s + (k - 1) * d + 1 + e
            for n, s, k, d, e in zip(dims, strides, kernel, dilations, extra, strict=True)
        ]
        cut = [_cut(n - out, auto_pad, pair) for n, out, pair in zip(full, wanted, cut, strict=True)]
    return _trimmed(b, x, w, group, kernel, strides, dilations, cut, extra)


def _cut(total: int, auto_pad: str, explicit: tuple[int, int]) -> tuple[int, int]:
    """How much of what is painted too much goes in front and behind; where padding is given, the end makes up."""
    match auto_pad:
        case "same_upper":
            return total - total // 2, total // 2
        case "same_lower":
            return total // 2, total - total // 2
        case "valid":
            return 0, total
        case _:
            return explicit[0], total - explicit[0]


def _trimmed(
    b: Builder,
    x: Value,
    w: Value,
    group: int,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    cut: Sequence[tuple[int, int]],
    extra: Sequence[int],
) -> Value:
    """The painting with `extra` behind, without what is cut off; ONNX allows less behind than a stride."""
    ends = [end - more for (_, end), more in zip(cut, extra, strict=True)]
    more = [max(-end, 0) for end in ends]
    begins = [begin for begin, _ in cut]
    if min(begins) < 0 or any(n >= max(s, d) for n, s, d in zip(more, strides, dilations, strict=True)):
        whole = b(ConvTranspose, x, w, group=group, kernel_shape=tuple(kernel), **_steps(strides, dilations))
        edges = [-n for n in (0, 0, *begins, 0, 0, *ends)]
        return b(Pad, whole, vector(b, edges))
    pads = (*begins, *(max(end, 0) for end in ends))
    return b(
        ConvTranspose,
        x,
        w,
        group=group,
        kernel_shape=tuple(kernel),
        pads=pads if any(pads) else None,
        output_padding=tuple(more) if any(more) else None,
        **_steps(strides, dilations),
    )


def _steps(strides: Sequence[int], dilations: Sequence[int]) -> dict[str, Any]:
    return {
        "strides": tuple(strides) if any(s != 1 for s in strides) else None,
        "dilations": tuple(dilations) if any(d != 1 for d in dilations) else None,
    }


@ConvTranspose.lift("openvino")
def lift_conv_transpose(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    del kernel_shape
    kernel = sizes(b.dims(w)[2:], "the kernel")
    _check_space(len(kernel))
    painted = transposed_window(
        b.dims(x)[2:],
        kernel,
        auto_pad=auto_pad,
        dilations=dilations,
        output_padding=output_padding,
        output_shape=output_shape,
        pads=pads,
        strides=strides,
    )
    begins, ends = (sizes(side, "padding") for side in zip(*painted.pads, strict=True))
    words: dict[str, Any] = {
        "strides": painted.strides,
        "dilations": painted.dilations,
        "pads_begin": begins,
        "pads_end": ends,
        "auto_pad": "explicit",
        "output_padding": output_padding or (0,) * len(kernel),
    }
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e - p - q
        for n, s, k, d, e, p, q in zip(
            b.dims(x)[2:],
            painted.strides,
            kernel,
            painted.dilations,
            words["output_padding"],
            begins,
            ends,
            strict=True,
        )
    ]
    if list(full) != list(painted.lengths):
        # A shape that is larger than what is painted is zeros behind it.
        missing = [out - n for n, out in zip(sizes(full), sizes(painted.lengths), strict=True)]
        words["output_padding"] = tuple(e + m for e, m in zip(words["output_padding"], missing, strict=True))
    if group == 1:
        y = say(b, "opset1.ConvolutionBackpropData", x, w, **words)
    else:
        depth, *rest = sizes(b.dims(w), "the shape of grouped filters")
        parted = said_reshape(b, w, [group, depth // group, *rest])
        y = say(b, "opset1.GroupConvolutionBackpropData", x, parted, **words)
    return (_biased(b, y, bias, len(b.dims(w)) - 2),)


# Other windows


@lower("openvino", "opset1.DeformableConvolution")
@lower("openvino", "opset8.DeformableConvolution")
def deformable_convolution(
    b: Builder,
    x: Value,
    offsets: Value,
    filters: Value,
    mask: Value | None = None,
    *,
    strides: tuple[int, ...],
    pads_begin: tuple[int, ...],
    pads_end: tuple[int, ...],
    dilations: tuple[int, ...],
    auto_pad: str = "explicit",
    group: int = 1,
    deformable_group: int = 1,
    bilinear_interpolation_pad: bool = False,
) -> Value:
    """A window bent by offsets; beyond the ends the data is zero if the interpolation pads."""
    if not bilinear_interpolation_pad:
        message = "a window that is bent beyond the ends without padding"
        raise UnsupportedError(message)
    kernel = sizes(b.dims(filters)[2:], "the kernel")
    said = borders(strides, pads_begin, pads_end, dilations, auto_pad)
    if "auto_pad" in said:
        slid = window(b.dims(x)[2:], kernel, **said)
        begins, ends = (sizes(side, "padding") for side in zip(*slid.pads, strict=True))
        said = said | {"auto_pad": None, "pads": (*begins, *ends)}
    said.pop("auto_pad", None)
    return b(
        DeformConv,
        x,
        filters,
        offsets,
        None,
        mask,
        group=group,
        offset_group=deformable_group,
        kernel_shape=kernel,
        **said,
    )


@DeformConv.lift("openvino")
def lift_deform_conv(
    b: Builder,
    x: Value,
    w: Value,
    offset: Value,
    bias: Value | None = None,
    mask: Value | None = None,
    *,
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    offset_group: int = 1,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    del kernel_shape
    said = {"auto_pad": "NOTSET", "dilations": dilations, "pads": pads, "strides": strides}
    words = _window_words(len(b.dims(w)) - 2, said, b.dims(w)[2:], b.dims(x)[2:])
    words |= {"group": group, "deformable_group": offset_group, "bilinear_interpolation_pad": True}
    y = say(b, "opset8.DeformableConvolution", x, offset, w, *([] if mask is None else [mask]), **words)
    return (_biased(b, y, bias, len(b.dims(w)) - 2),)


def columns_kernel(channels: int, kernel: Sequence[int], dtype: DType) -> np.ndarray[Any, Any]:
    """Filters [channels * prod(kernel), 1, *kernel] of a grouped convolution that copies each entry of its window."""
    taps = prod(kernel)
    return np.tile(np.eye(taps).reshape(taps, 1, *kernel), (channels, *[1] * (len(kernel) + 1))).astype(dtype.numpy)


@lower("openvino", "opset3.ExtractImagePatches")
def extract_image_patches(
    b: Builder,
    x: Value,
    *,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    auto_pad: str,
) -> Value:
    """The entries of each window as channels: all channels of the first place, then of the next."""
    channels = b.dims(x)[1]
    if not isinstance(channels, int):
        message = "the number of channels must be known"
        raise UnsupportedError(message)
    said = borders(strides, (0, 0), (0, 0), rates, auto_pad)
    dtype = dtype_of(x)
    wide = dtype if dtype.is_floating else DType.FLOAT32
    copied = _convolved(b, cast(b, x, wide), b.constant(columns_kernel(channels, sizes, wide), wide), channels, said)
    # Filters came channel by channel, the result is place by place.
    order = np.arange(channels * prod(sizes)).reshape(channels, -1).T.reshape(-1)
    return cast(b, b(Gather, copied, vector(b, [int(n) for n in order]), axis=1), dtype)


@lower("openvino", "opset15.Col2Im")
def col2im(
    b: Builder,
    x: Value,
    output_size: Value,
    kernel_size: Value,
    *,
    strides: tuple[int, ...] = (),
    dilations: tuple[int, ...] = (),
    pads_begin: tuple[int, ...] = (),
    pads_end: tuple[int, ...] = (),
) -> Value:
    """Columns of windows added up to an image."""
    size, kernel = integers(output_size), integers(kernel_size)
    if size is None or kernel is None:
        message = "the sizes of image and window must be constant"
        raise UnsupportedError(message)
    ones, zeros = (1, 1), (0, 0)
    steps, gaps, begins, ends = strides or ones, dilations or ones, pads_begin or zeros, pads_end or zeros
    places = [
        (n + p + q - (k - 1) * d - 1) // s + 1
        for n, k, s, d, p, q in zip(size, kernel, steps, gaps, begins, ends, strict=True)
    ]
    dims = b.dims(x)
    rows, count = sizes(dims[-2:], "the columns")
    if rows % prod(kernel) or count != prod(places):
        message = f"columns {rows} by {count} are not windows of {kernel} at {places}"
        raise ShapeError(message)
    channels, dtype = rows // prod(kernel), dtype_of(x)
    batch = dims[0] if len(dims) == 3 else 1
    image = reshaped(b, x, [batch if isinstance(batch, int) else -1, rows, *places])
    painted = b(
        ConvTranspose,
        image,
        b.constant(columns_kernel(channels, kernel, dtype), dtype),
        group=channels,
        **_steps(steps, gaps),
    )
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(places, steps, kernel, gaps, strict=True)]
    edges = [out + begin - n for out, begin, n in zip(size, begins, full, strict=True)]
    whole = b(Pad, painted, vector(b, [0, 0, *(-n for n in begins), 0, 0, *edges]))
    return whole if len(dims) == 3 else reshaped(b, whole, [channels, *size])
