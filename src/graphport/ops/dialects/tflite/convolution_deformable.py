"""Convolutions that read at places which are computed, in TFLite: the image is sampled there, and then multiplied."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.operands import dtype_of, reshaped, sizes
from graphport.ops.pages.arithmetic import Add, Mul
from graphport.ops.pages.convolution import Conv
from graphport.ops.pages.convolution.window import window
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.reshape import Unsqueeze
from graphport.ops.pages.reshape.pieces import Concat
from graphport.ops.pages.resize import GridSample
from graphport.ops.views.convolution import DeformConvView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_IMAGE = 4


@DeformConvView.lift("tflite")
def lift_deform_conv(b: Builder, op: DeformConvView) -> Lifted:
    """A convolution of single pixels over what is sampled for each entry of the window, which are channels then.

    Each group of offsets samples its channels as an image of its own.
    """
    if len(b.dims(op.x)) != _IMAGE:
        message = f"a window over {len(b.dims(op.x)) - 2} axes"
        raise UnsupportedError(message)
    if dtype_of(op.x) is not DType.FLOAT32:
        return None
    batch, channels, height, width = sizes(b.dims(op.x), "the image")
    maps, own, *kernel = sizes(b.dims(op.w), "the filters")
    slid = window((height, width), kernel, dilations=op.dilations, pads=op.pads, strides=op.strides)
    out, taps, parts = sizes(slid.lengths, "the result"), prod(kernel), batch * op.offset_group
    moved = reshaped(b, op.offset, (parts, taps, 2, *out))
    spots: list[Value] = []
    # The grid has columns first, offsets have rows first.
    for axis in (1, 0):
        begin = sizes(slid.pads[axis], "padding")[0]
        along = np.arange(out[axis]) * slid.strides[axis] - begin
        first = along[None] + (np.indices(kernel)[axis].reshape(-1) * slid.dilations[axis])[:, None]
        places = b.constant(first.astype(np.float32)[:, :, None] if axis == 0 else first.astype(np.float32)[:, None])
        at = b(Add, b(Gather, moved, b.constant(np.int64(axis)), axis=2), places)
        # Pixels in the units of the grid, in which the image reaches from -1 to 1.
        n = (height, width)[axis]
        unit = b(Add, b(Mul, at, b.like(at, 2 / n)), b.like(at, 1 / n - 1))
        spots.append(reshaped(b, unit, (parts, taps * out[0], out[1], 1)))
    grid = b(Concat, *spots, axis=-1)
    image = reshaped(b, op.x, (parts, channels // op.offset_group, height, width))
    seen = b(GridSample, image, grid, align_corners=0, mode="linear", padding_mode="zeros")
    if op.mask is not None:
        seen = b(Mul, seen, b(Unsqueeze, reshaped(b, op.mask, (parts, taps * out[0], out[1])), _second(b)))
    columns = reshaped(b, seen, (batch, channels * taps, *out))
    return (b(Conv, columns, reshaped(b, op.w, (maps, own * taps, 1, 1)), op.b, group=op.group, kernel_shape=(1, 1)),)


def _second(b: Builder) -> Value:
    return b.constant(np.array([1], np.int64))
