"""Deformable convolution and image patches of OpenVINO."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.convolution_windows import Sliding, biased, borders, convolved, window_words
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Add, Min, Mul, Sub
from graphport.ops.definitions.comparison import And, GreaterOrEqual, Less, Where
from graphport.ops.definitions.convolution import DeformConv
from graphport.ops.definitions.convolution.window import window
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.extents import counted, extent, gather_index, joined
from graphport.ops.lowering.operands import cast, dtype_of, sizes
from graphport.ops.lowering.windows import padding_of
from graphport.ops.views.convolution import DeformConvView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


@Sliding.lower("openvino", "opset1.DeformableConvolution")
@Sliding.lower("openvino", "opset8.DeformableConvolution")
def deformable_convolution(
    b: Builder,
    op: Sliding,
    x: Value,
    offsets: Value,
    filters: Value,
    mask: Value | None = None,
    *,
    group: int = 1,
    deformable_group: int = 1,
    bilinear_interpolation_pad: bool = False,
) -> Value:
    """Deformable convolution; `bilinear_interpolation_pad` pads with zeros for samples outside of the data."""
    kernel = sizes(b.dims(filters)[2:], "the kernel")
    stated = op.borders(len(kernel))
    if "auto_pad" in stated:
        begins, ends = padding_of(window(b.dims(x)[2:], kernel, **stated))
        stated |= {"auto_pad": None, "pads": (*begins, *ends)}
    if not bilinear_interpolation_pad:
        offsets = _clamp_offsets(b, x, offsets, kernel, stated, deformable_group)
    stated |= {"group": group, "offset_group": deformable_group, "kernel_shape": kernel}
    return b(DeformConv, x, filters, offsets, None, mask, **stated)


def _clamp_offsets(
    b: Builder, x: Value, offsets: Value, kernel: Sequence[int], stated: dict[str, Any], groups: int
) -> Value:
    """Clamp offsets so that zero-padded interpolation gives OpenVINO's results.

    OpenVINO repeats the last element for positions less than one element beyond it, and reads zeros before the first.
    """
    split = b(Reshape, offsets, joined(b, 0, groups, prod(kernel), 2, *(extent(b, offsets, axis) for axis in (2, 3))))
    taps = np.indices(kernel).reshape(2, -1)
    strides, dilations = (stated[name] or (1, 1) for name in ("strides", "dilations"))
    pads = stated.get("pads") or (0, 0, 0, 0)
    parts: list[Value] = []
    for axis in (0, 1):
        every = b(Mul, counted(b, extent(b, offsets, 2 + axis)), strides[axis])
        first = b.constant((taps[axis] * dilations[axis] - pads[axis]).reshape(-1, 1, 1))
        own = b(Reshape, every, [1, -1, 1] if axis == 0 else [1, 1, -1])
        place = cast(b, b(Add, first, own), dtype_of(offsets))
        wanted = b(Add, gather_index(b, split, axis, 3), place)
        length = cast(b, extent(b, x, 2 + axis), dtype_of(offsets))
        zero = b.like(offsets, 0)
        is_inside = b(And, b(GreaterOrEqual, wanted, zero), b(Less, wanted, length))
        held = b(Where, is_inside, b(Min, wanted, b(Sub, length, 1)), -2)
        parts.append(b(Unsqueeze, b(Sub, held, place), [3]))
    return b(Reshape, b(Concat, *parts, axis=3), b(Shape, offsets))


@DeformConvView.export_rule("openvino")
def export_deform_conv(b: Builder, op: DeformConvView) -> Exported:
    stated: dict[str, Any] = {"dilations": op.dilations, "pads": op.pads, "strides": op.strides}
    words = window_words(window(b.dims(op.x)[2:], b.dims(op.w)[2:], **stated), "NOTSET")
    words |= {"group": op.group, "deformable_group": op.offset_group, "bilinear_interpolation_pad": True}
    y = emit(b, "opset8.DeformableConvolution", op.x, op.offset, op.w, *([] if op.mask is None else [op.mask]), **words)
    return (biased(b, y, op.b, len(b.dims(op.w)) - 2),)


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
    """Extract sliding windows as channels, ordered [kernel element, channel]."""
    channels = b.dims(x, at_least=2)[1]
    if not isinstance(channels, int):
        message = "the number of channels must be known"
        raise UnsupportedError(message)
    stated = borders(len(sizes), strides, (0, 0), (0, 0), rates, auto_pad)
    dtype = dtype_of(x)
    wide = dtype if dtype.is_floating else DType.FLOAT32
    # Filters [channels * taps, 1, *sizes] each of which copies one entry of its window.
    taps = np.eye(prod(sizes)).reshape(-1, 1, *sizes)
    filters = b.constant(np.tile(taps, (channels, *[1] * (len(sizes) + 1))).astype(wide.numpy), wide)
    copied = convolved(b, cast(b, x, wide), filters, channels, stated)
    # Filters came channel by channel, the result is place by place.
    order = np.arange(reserve(channels, *sizes)).reshape(channels, -1).T.reshape(-1)
    return cast(b, b(Gather, copied, [int(n) for n in order], axis=1), dtype)
