"""Convolutions of signs in OpenVINO."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.openvino.convolution_windows import Sliding
from graphport.ops.dialects.operands import cast, dtype_of, reshaped, sizes, vector
from graphport.ops.dialects.windows import padding_of
from graphport.ops.pages.arithmetic import Mul, Sub
from graphport.ops.pages.comparison import Greater, Where
from graphport.ops.pages.convolution import Conv
from graphport.ops.pages.convolution.window import window
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.padding import Pad

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@Sliding.lower("openvino", "opset1.BinaryConvolution")
def binary_convolution(b: Builder, op: Sliding, x: Value, filters: Value, *, mode: str, pad_value: float) -> Value:
    """How many signs agree with the filter's, less how many do not: sums of products of 1 and -1.

    A number above 0 is 1, any other -1; what is padded with 0 counts for neither.

    Raises:
        UnsupportedError: the mode is another, or the filters do not fill their last byte.
    """
    if mode != "xnor-popcount":
        message = f"a binary convolution of mode {mode!r}"
        raise UnsupportedError(message)
    dtype = dtype_of(x)
    # Of one byte or more, only real numbers can be below 0.
    signs = b(Where, b(Greater, x, b.like(x, 0)), b.constant(np.float32(1)), b.constant(np.float32(-1)))
    bits = cast(b, _lowest_first(b, filters), DType.FLOAT32)
    weights = b(Sub, b(Mul, bits, b.like(bits, 2)), b.like(bits, 1))
    stated = op.borders(len(b.dims(filters)) - 2)
    if pad_value != 0:
        slid = window(b.dims(x)[2:], b.dims(filters)[2:], **stated)
        starts, stops = padding_of(slid)
        edge = b.constant(np.float32(1 if pad_value == 1 else -1))
        signs = b(Pad, signs, vector(b, [0, 0, *starts, 0, 0, *stops]), edge)
        stated |= {"pads": None, "auto_pad": None}
    return cast(b, b(Conv, signs, weights, **stated), dtype)


def _lowest_first(b: Builder, filters: Value) -> Value:
    """Bits of filters, which the reader takes from the highest of a byte on, as a binary convolution takes them.

    Other words count `u1` from the highest bit; the plugin's convolution from the lowest, whatever its kernel.
    """
    shape = sizes(b.dims(filters), "the shape of binary filters")
    count = prod(shape)
    if count % 8:
        message = f"binary filters of {count} bits, which do not fill their last byte"
        raise UnsupportedError(message)
    swapped = b(Gather, reshaped(b, filters, [count // 8, 8]), vector(b, range(7, -1, -1)), axis=1)
    return reshaped(b, swapped, shape)
