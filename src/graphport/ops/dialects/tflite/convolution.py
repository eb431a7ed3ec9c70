"""Convolutions of TFLite: channels last, filters with their maps in front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.ops.declare import ShapeError
from graphport.ops.dialects.operands import as_int64, reshaped, sizes, vector
from graphport.ops.dialects.tflite.binding import Operator, first, last, pads_of, window, word
from graphport.ops.pages.arithmetic import Add, Div, Max, Min, Sub
from graphport.ops.pages.convolution import Conv, ConvTranspose
from graphport.ops.pages.indexing.slicing import Slice
from graphport.ops.pages.padding import Pad
from graphport.ops.pages.reshape.pieces import Concat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _convolved(op: Operator, w: Value, group: int, strides: Sequence[int], dilations: Sequence[int]) -> Value:
    """A convolution of operand 0 with filters in ONNX's order."""
    b, kernel = op.b, sizes(op.b.dims(w)[2:], "the window")
    stated = window(kernel, strides, dilations) | pads_of(op, op.dims(0)[1:-1], kernel, strides, dilations)
    y = b(Conv, first(b, op[0]), w, op.bias(2), group=group if group > 1 else None, **stated)
    return last(b, y)


@word("CONV_2D")
def conv_2d(op: Operator) -> Value:
    """Filters [maps, height, width, channels of a group]."""
    if len(op.dims(0)) != 4 or len(op.dims(1)) != 4:
        message = f"ranks {len(op.dims(0))} and {len(op.dims(1))}"
        raise ShapeError(message, "x and filters have rank 4")
    strides, dilations = op.positive("stride_h", "stride_w"), _dilations(op)
    return _convolved(op, op.weight(1, (0, 3, 1, 2)), _groups(op.dims(0)[3], op.dims(1)[3]), strides, dilations)


def _dilations(op: Operator) -> tuple[int, ...]:
    found = (int(op.option("dilation_h_factor", 1)), int(op.option("dilation_w_factor", 1)))
    if min(found) < 1:
        message = f"the dilation is {found}"
        raise ShapeError(message, "it is 1 or more")
    return found


def _groups(channels: Dim, own: Dim) -> int:
    if not isinstance(channels, int) or not isinstance(own, int):
        return 1
    if own == 0 or channels % own:
        message = f"{channels} channels are no groups of {own}"
        raise ShapeError(message)
    return channels // own


@word("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(op: Operator) -> Value:
    """Filters [1, height, width, channels * multiplier]; the multiplier among the options is not looked at."""
    (channels,) = sizes(op.dims(0)[3:], "the channels")
    maps = op.dims(1)[-1]
    if len(op.dims(1)) != 4 or op.dims(1)[0] != 1 or not isinstance(maps, int) or maps % max(channels, 1):
        message = f"filters {list(op.dims(1))} for {channels} channels"
        raise ShapeError(message, "they are [1, height, width, channels * multiplier]")
    strides = op.positive("stride_h", "stride_w")
    return _convolved(op, op.weight(1, (3, 0, 1, 2)), channels, strides, _dilations(op))


@word("CONV_3D")
def conv_3d(op: Operator) -> Value:
    """Filters [depth, height, width, channels, maps]."""
    strides = op.positive("stride_d", "stride_h", "stride_w")
    dilations = tuple(int(op.option(f"dilation_{axis}_factor", 1)) for axis in "dhw")
    return _convolved(op, op.weight(1, (4, 3, 0, 1, 2)), _groups(op.dims(0)[4], op.dims(1)[3]), strides, dilations)


@word("TRANSPOSE_CONV")
def transpose_conv(op: Operator) -> Value:
    """Operands: the shape of the result, filters [maps, height, width, channels], x, bias."""
    return _transposed(op, (3, 0, 1, 2), op.positive("stride_h", "stride_w"), (1, 1))


@word("CONV_3D_TRANSPOSE")
def conv_3d_transpose(op: Operator) -> Value:
    """Operands: the shape of the result, filters [depth, height, width, maps, channels], x, bias."""
    strides = op.positive("stride_d", "stride_h", "stride_w")
    dilations = tuple(int(op.option(f"dilation_{axis}_factor", 1)) for axis in "dhw")
    return _transposed(op, (4, 3, 0, 1, 2), strides, dilations)


def _transposed(op: Operator, perm: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Value:
    """The full result, cut in front by half of what is too much, behind to the shape; zeros beyond it."""
    b, w = op.b, op.weight(1, perm)
    kernel = sizes(b.dims(w)[2:], "the window")
    stated: dict[str, Any] = window(kernel, strides, dilations)
    extents = sizes(op.dims(2)[1:-1], "what a transposed convolution reads")
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(extents, strides, kernel, dilations, strict=True)]
    x, bias = first(b, op[2]), op.bias(3, 2)
    wanted = _wanted(op)
    if wanted is None:
        y = _cut_later(b, b(ConvTranspose, x, w, **stated), as_int64(b, op.raw(0)), full)
        return last(b, y if bias is None else b(Add, y, reshaped(b, bias, (-1, *[1] * len(kernel)))))
    if any(out < 1 for out in wanted):
        message = f"a result of {list(wanted)}"
        raise ShapeError(message)
    begins = [max(0, f - out) // 2 for f, out in zip(full, wanted, strict=True)]
    ends = [f - begin - out for f, begin, out in zip(full, begins, wanted, strict=True)]
    more = [max(0, -end) for end in ends]
    stated["pads"] = (*begins, *[max(0, end) for end in ends])
    if not any(more):
        return last(b, b(ConvTranspose, x, w, bias, **stated))
    if all(extra < s for extra, s in zip(more, strides, strict=True)):
        return last(b, b(ConvTranspose, x, w, bias, output_padding=tuple(more), **stated))
    y = b(ConvTranspose, x, w, **stated)
    y = b(Pad, y, vector(b, [0] * (2 + len(kernel)) + [0, 0, *more]))
    if bias is not None:
        y = b(Add, y, reshaped(b, bias, (-1, *[1] * len(kernel))))
    return last(b, y)


def _cut_later(b: Builder, y: Value, wanted: Value, full: Sequence[int]) -> Value:
    """The full result, cut and filled up to extents that only a run tells: all four or five, channels last."""
    axes = list(range(2, 2 + len(full)))
    lengths, whole = b(Slice, wanted, vector(b, [1]), vector(b, [1 + len(full)])), vector(b, full)
    zeros = vector(b, [0] * len(full))
    begins = b(Div, b(Max, b(Sub, whole, lengths), zeros), vector(b, [2]))
    ends = b(Min, b(Add, begins, lengths), whole)
    y = b(Slice, y, begins, ends, vector(b, axes))
    more = b(Sub, lengths, b(Sub, ends, begins))
    return b(Pad, y, b(Concat, vector(b, [0] * (4 + len(full))), more, axis=0))


def _wanted(op: Operator) -> tuple[int, ...] | None:
    """The extents of the result that operand 0 tells; `None` if only a run does.

    Raises:
        ShapeError: they are of another number of axes.
    """
    fact: Any = op.raw(0).fact
    elements = getattr(fact, "elements", None)
    if elements is None:
        return None
    if len(elements) != len(op.dims(2)):
        message = f"a shape of {len(elements)} extents for what has {len(op.dims(2))} axes"
        raise ShapeError(message)
    found = tuple(n for n in elements[1:-1] if isinstance(n, int))
    return found if len(found) == len(elements) - 2 else None
