"""Windows of images as tensors in TensorFlow: patches, and grayscale dilation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import from_channels_first, operator, to_channels_first
from graphport.formats.tensorflow.rules.convolution import window
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mod, Mul, Sub
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.pooling import MaxPool
from graphport.ops.definitions.reduction import ReduceMax
from graphport.ops.definitions.reshape import Concat, Reshape, Unsqueeze
from graphport.ops.lowering.extents import counted, extent, joined
from graphport.ops.lowering.operands import cast, dtype_of, finite_limits, reshaped, sizes, transposed, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def image_patches(
    b: Builder,
    x: Value,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: str,
    fill: float,
) -> Value:
    """The windows of images [n, h, w, c]: [n, rows, kernel rows, columns, kernel columns, c].

    Raises:
        ShapeError: the padding is unknown.
    """
    if padding not in ("SAME", "VALID"):
        message = f"padding is {padding!r}"
        raise ShapeError(message, "SAME or VALID")
    one = vector(b, [1])
    for place, (k, stride, rate) in enumerate(zip(kernel, strides, rates, strict=True)):
        axis, reach = 1 + 2 * place, vector(b, [(k - 1) * rate + 1])
        n, step = extent(b, x, axis), vector(b, [stride])
        if padding == "SAME":
            count = b(Div, b(Add, n, [stride - 1]), step)
            covered = b(Add, b(Mul, b(Sub, count, one), step), reach)
            total = b(Max, b(Sub, covered, n), [0])
            begin = b(Div, total, [2])
            widths = b(Concat, begin, b(Sub, total, begin), axis=0)
            x = b(Pad, x, widths, fill, [axis])
        else:
            count = b(Add, b(Div, b(Sub, n, reach), step), one)
        starts = b(Unsqueeze, b(Mul, counted(b, count), step), one)
        at = b(Add, starts, b.constant(np.arange(k, dtype=np.int64) * rate))
        x = b(Gather, x, at, axis=axis)
    return x


@operator("ExtractImagePatches")
def extract_image_patches(
    b: Builder,
    x: Value,
    *,
    ksizes: tuple[int, ...],
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: str,
) -> Value:
    """The elements of each window in the channels, row by row."""
    found = image_patches(b, x, ksizes[1:3], strides[1:3], rates[1:3], padding, 0)
    channels = b(Mul, extent(b, x, 3), [ksizes[1] * ksizes[2]])
    ordered = transposed(b, found, (0, 1, 3, 2, 4, 5))
    return b(Reshape, ordered, joined(b, *(extent(b, ordered, axis) for axis in range(3)), channels))


@operator("ExtractVolumePatches")
def extract_volume_patches(
    b: Builder, x: Value, *, ksizes: tuple[int, ...], strides: tuple[int, ...], padding: str
) -> Value:
    """The elements of each window of volumes [n, d, h, w, c] in the channels, plane by plane."""
    found = image_patches(b, x, ksizes[1:4], strides[1:4], (1, 1, 1), padding, 0)
    channels = b(Mul, extent(b, x, 4), [ksizes[1] * ksizes[2] * ksizes[3]])
    ordered = transposed(b, found, (0, 1, 3, 5, 2, 4, 6, 7))
    return b(Reshape, ordered, joined(b, *(extent(b, ordered, axis) for axis in range(4)), channels))


@operator("Dilation2D")
def dilation_2d(
    b: Builder, x: Value, w: Value, *, strides: tuple[int, ...], rates: tuple[int, ...], padding: str
) -> Value:
    """The largest sum of a window and the filter [rows, columns, channels]."""
    kernel = sizes(b.dims(w)[:2], "the filter")
    lowest = finite_limits(dtype_of(x))[0]
    found = image_patches(b, x, kernel, strides[1:3], rates[1:3], padding, lowest)
    return b(ReduceMax, b(Add, found, b(Unsqueeze, w, [1])), [2, 4], keepdims=0)


@operator("MaxPoolWithArgmax")
def max_pool_with_argmax(
    b: Builder,
    x: Value,
    *,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    include_batch_in_index: bool = False,
    Targmax: DType = DType.INT64,
) -> list[Value]:
    """The largest element of each window, and its index in the flattened image (or batch), channels last."""
    first = to_channels_first(b, x, "NHWC")
    attributes = window(b.dims(first)[2:], ksize[1:3], strides[1:3], (1, 1), padding)
    values, flat = b.results(MaxPool, 2, first, **attributes)
    batch, height, wide, channels = (extent(b, x, axis) for axis in range(4))
    pixels = b(Mul, height, wide)
    # ONNX counts through the whole batch, channels first.
    at = b(Mul, b(Mod, flat, pixels), channels)
    at = b(Add, at, reshaped(b, counted(b, channels), (-1, 1, 1)))
    if include_batch_in_index:
        images = b(Mul, counted(b, batch), b(Mul, pixels, channels))
        at = b(Add, at, reshaped(b, images, (-1, 1, 1, 1)))
    return [from_channels_first(b, each, "NHWC") for each in (values, cast(b, at, Targmax))]
