"""Custom operators of MediaPipe, whose options are C structures of 32-bit integers."""

from __future__ import annotations

import struct
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import Operator, activated, import_rule, to_channels_first, to_channels_last
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.comparison import Equal
from graphport.ops.definitions.convolution import ConvTranspose
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.pooling import MaxPool
from graphport.ops.definitions.reduction.indices import ArgMax
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat
from graphport.ops.lowering.operands import cast, reshaped, sizes, transposed, vector
from graphport.ops.lowering.windows import window_attributes

if TYPE_CHECKING:
    from graphport.ir.graph import Value

_SAME = 1
_SHIFT = 0.1
"""Added to indices in a window so that truncation to integers is exact."""


def _fields(op: Operator, count: int) -> tuple[int, ...]:
    """Return the first integers of the options.

    Raises:
        ShapeError: there are fewer, or one is negative.
    """
    data = bytes(op.option("custom_options", b""))
    if len(data) < 4 * count:
        message = f"custom_options has {len(data)} bytes, expected at least {4 * count}"
        raise ShapeError(message)
    found = struct.unpack_from(f"<{count}i", data)
    if min(found) < 0 or 0 in found[1:5]:
        message = f"custom_options contains the integers {list(found)}"
        raise ShapeError(message, "expected no negative integer, and positive ones at indices 1 to 4")
    return found


@import_rule("custom.Convolution2DTransposeBias")
def convolution_2d_transpose_bias(op: Operator) -> Value:
    """Transposed convolution. Operands: x, filters [maps, height, width, channels], bias; SAME crops the overlap."""
    b, (padding, across, down) = op.b, _fields(op, 3)
    strides = (down, across)
    kernel = sizes(op.dims(1)[1:3], "the filters")
    extents = sizes(op.dims(0)[1:3], "the input of the transposed convolution")
    is_same = padding == _SAME
    cut = [max(0, k - (n - 1) % s - 1) if is_same else 0 for n, k, s in zip(extents, kernel, strides, strict=True)]
    pads = (*(n // 2 for n in cut), *(n - n // 2 for n in cut))
    stated = window_attributes(kernel, strides, (1, 1)) | ({"pads": pads} if any(pads) else {})
    return to_channels_last(
        b, b(ConvTranspose, to_channels_first(b, op[0]), op.weight(1, (3, 0, 1, 2)), op[2], **stated)
    )


def _pool(op: Operator) -> tuple[tuple[int, int], tuple[int, int], list[int], int]:
    """Return window, strides, begin padding and activation."""
    padding, across, down, width, height, activation = _fields(op, 6)
    return (height, width), (down, across), [padding], activation


@import_rule("custom.MaxPoolingWithArgmax2D", has_states=True)
def max_pooling_with_argmax_2d(op: Operator) -> tuple[Value, Value]:
    """Max pooling with the row-major index of the maximum within its window."""
    b, (kernel, strides, (padding,), activation) = op.b, _pool(op)
    x, extents = op[0], sizes(op.dims(0, 4)[1:3], "the pooled tensor")
    pads = [0, 0]
    counts = [(n - k + s) // s for n, k, s in zip(extents, kernel, strides, strict=True)]
    if padding == _SAME:
        counts = [-(-n // s) for n, s in zip(extents, strides, strict=True)]
        reach = zip(extents, kernel, strides, counts, strict=True)
        pads = [max(0, (count - 1) * s + k - n) for n, k, s, count in reach]
    if any(pads):
        begins = [n // 2 for n in pads]
        around = [0, *begins, 0, 0, *(n - n // 2 for n in pads), 0]
        x = b(Pad, x, vector(b, around), b.like(x, float(np.finfo(np.float32).min)))
    best = to_channels_last(b, b(MaxPool, to_channels_first(b, x), **window_attributes(kernel, strides, (1, 1))))
    parts: list[Value] = []
    for spot in product(*map(range, kernel)):
        ends = [at + s * count for at, s, count in zip(spot, strides, counts, strict=True)]
        seen = b(Slice, x, vector(b, spot), vector(b, ends), vector(b, [1, 2]), vector(b, strides))
        parts.append(b(Unsqueeze, seen, vector(b, [4])))
    place = cast(b, b(ArgMax, b(Concat, *parts, axis=4), axis=4, keepdims=0), DType.FLOAT32)
    return activated(b, best, activation), b(Add, place, b.like(place, _SHIFT))


@import_rule("custom.MaxUnpooling2D")
def max_unpooling_2d(op: Operator) -> Value:
    """Place elements at their indices in adjacent windows, zeros elsewhere.

    Raises:
        UnsupportedError: the windows overlap or leave gaps.
    """
    b, (kernel, strides, _, _) = op.b, _pool(op)
    if kernel != strides:
        message = f"unpooling windows {list(kernel)} with strides {list(strides)}, expected equal sizes"
        raise UnsupportedError(message)
    n, height, width, channels = sizes(op.dims(0, 4), "the dilated tensor")
    place = b(Unsqueeze, cast(b, op[1], DType.INT32), vector(b, [4]))
    count = kernel[0] * kernel[1]
    is_there = b(Equal, place, b.constant(np.arange(count, dtype=np.int32)))
    spread = b(Mul, b(Unsqueeze, op[0], vector(b, [4])), cast(b, is_there, DType.FLOAT32))
    spread = transposed(b, reshaped(b, spread, (n, height, width, channels, *kernel)), (0, 1, 4, 2, 5, 3))
    return reshaped(b, spread, (n, height * kernel[0], width * kernel[1], channels))
