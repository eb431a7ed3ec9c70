"""Convolutions of TFLite: channels-last, filters with output channels first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import decide_less
from graphport.formats.tflite.rules.binding import Operator, import_rule, pads_of, to_channels_first, to_channels_last
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Sub
from graphport.ops.definitions.convolution import Conv, ConvTranspose
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Shape
from graphport.ops.definitions.reshape.pieces import Concat
from graphport.ops.lowering.operands import as_int64, reshaped, sizes, vector
from graphport.ops.lowering.windows import window_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


_TALL, _DEEP = "hw", "dhw"
"""Spatial axes of a window, as the options name them."""


def _strides_and_dilations(op: Operator, axes: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return strides and dilations of a window."""
    dilations = tuple(int(op.option(f"dilation_{axis}_factor", 1)) for axis in axes)
    if min(dilations) < 1:
        message = f"the dilation is {dilations}, expected at least 1"
        raise ShapeError(message, "it must be at least 1")
    return op.positive(*(f"stride_{axis}" for axis in axes)), dilations


def _convolve(op: Operator, w: Value, group: int, axes: str) -> Value:
    """Convolve operand 0 with filters in ONNX's layout."""
    b, kernel, (strides, gaps) = op.b, sizes(op.b.dims(w)[2:], "the window"), _strides_and_dilations(op, axes)
    stated = window_attributes(kernel, strides, gaps) | pads_of(op, op.dims(0)[1:-1], kernel, strides, gaps)
    y = b(Conv, to_channels_first(b, op[0]), w, op.bias(2), group=group if group > 1 else None, **stated)
    return to_channels_last(b, y)


@import_rule("CONV_2D")
def conv_2d(op: Operator) -> Value:
    """CONV_2D with filters [maps, height, width, channels of a group]."""
    if len(op.dims(0)) != 4 or len(op.dims(1)) != 4:
        message = f"x has rank {len(op.dims(0))} and filters have rank {len(op.dims(1))}"
        raise ShapeError(message, "expected rank 4")
    return _convolve(op, op.weight(1, (0, 3, 1, 2)), _groups(op.dims(0)[3], op.dims(1)[3]), _TALL)


def _groups(channels: Dim, own: Dim) -> int:
    if not isinstance(channels, int) or not isinstance(own, int):
        return 1
    if own == 0 or channels % own:
        message = f"{channels} channels cannot be split into groups of {own}"
        raise ShapeError(message)
    return channels // own


@import_rule("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(op: Operator) -> Value:
    """DEPTHWISE_CONV_2D with filters [1, height, width, channels * multiplier].

    The option `depth_multiplier` is ignored.
    """
    (channels,) = sizes(op.dims(0, 4)[3:], "the channels")
    maps = op.dims(1, 4)[-1]
    if op.dims(1)[0] != 1 or not isinstance(maps, int) or maps % max(channels, 1):
        message = f"the filters have shape {list(op.dims(1))}, the input has {channels} channels"
        raise ShapeError(message, "expected [1, height, width, channels * multiplier]")
    return _convolve(op, op.weight(1, (3, 0, 1, 2)), channels, _TALL)


@import_rule("CONV_3D")
def conv_3d(op: Operator) -> Value:
    """CONV_3D with filters [depth, height, width, channels, maps]."""
    return _convolve(op, op.weight(1, (4, 3, 0, 1, 2)), _groups(op.dims(0, 5)[4], op.dims(1, 5)[3]), _DEEP)


@import_rule("TRANSPOSE_CONV")
def transpose_conv(op: Operator) -> Value:
    """TRANSPOSE_CONV. Operands: output shape, filters [maps, height, width, channels], x, bias."""
    return _convolve_transposed(op, (3, 0, 1, 2), _TALL)


@import_rule("CONV_3D_TRANSPOSE")
def conv_3d_transpose(op: Operator) -> Value:
    """CONV_3D_TRANSPOSE. Operands: output shape, filters [depth, height, width, maps, channels], x, bias."""
    return _convolve_transposed(op, (4, 3, 0, 1, 2), _DEEP)


def _convolve_transposed(op: Operator, perm: Sequence[int], axes: str) -> Value:
    """Compute the full transposed convolution, crop half of the excess at the start, and crop or zero-pad the end."""
    b, w, (strides, dilations) = op.b, op.weight(1, perm), _strides_and_dilations(op, axes)
    kernel = sizes(b.dims(w)[2:], "the window")
    stated: dict[str, Any] = window_attributes(kernel, strides, dilations)
    extents = op.dims(2, len(kernel) + 2)[1:-1]
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(extents, strides, kernel, dilations, strict=True)]
    x, bias = to_channels_first(b, op[2]), op.bias(3, 2)
    wanted = _output_sizes(op) or ()
    if any(decide_less(out, 1) is True for out in wanted):
        message = f"the output size is {list(wanted)}"
        raise ShapeError(message, "expected positive sizes")
    excess = [n for n in (f - out for f, out in zip(full, wanted, strict=False)) if isinstance(n, int)]
    if len(excess) < len(full):
        cut = _crop_dynamic(b, b(ConvTranspose, x, w, **stated), as_int64(b, op.raw(0)), len(full))
        return to_channels_last(b, _biased(b, cut, bias))
    begins = [max(0, more) // 2 for more in excess]
    ends = [more - begin for more, begin in zip(excess, begins, strict=True)]
    more = [max(0, -end) for end in ends]
    stated["pads"] = (*begins, *[max(0, end) for end in ends])
    if not any(more):
        return to_channels_last(b, b(ConvTranspose, x, w, bias, **stated))
    if all(extra < s for extra, s in zip(more, strides, strict=True)):
        return to_channels_last(b, b(ConvTranspose, x, w, bias, output_padding=tuple(more), **stated))
    y = b(ConvTranspose, x, w, **stated)
    return to_channels_last(b, _biased(b, b(Pad, y, [0] * (2 + len(kernel)) + [0, 0, *more]), bias))


def _biased(b: Builder, y: Value, bias: Value | None) -> Value:
    return y if bias is None else b(Add, y, reshaped(b, bias, (-1, *[1] * (len(b.dims(y)) - 2))))


def _crop_dynamic(b: Builder, y: Value, wanted: Value, count: int) -> Value:
    """Crop or zero-pad the full result, of `count` spatial axes, to a dynamic output shape, channels-last."""
    axes = list(range(2, 2 + count))
    lengths, whole = b(Slice, wanted, [1], [1 + count]), b(Shape, y, start=2)
    zeros = vector(b, [0] * count)
    begins = b(Div, b(Max, b(Sub, whole, lengths), zeros), [2])
    ends = b(Min, b(Add, begins, lengths), whole)
    y = b(Slice, y, begins, ends, axes)
    more = b(Sub, lengths, b(Sub, ends, begins))
    return b(Pad, y, b(Concat, vector(b, [0] * (4 + count)), more, axis=0))


def _output_sizes(op: Operator) -> tuple[Dim, ...] | None:
    """Return the output sizes of operand 0, which may be open; `None` if they are not known.

    Raises:
        ShapeError: they have another rank.
    """
    fact: Any = op.raw(0).fact
    elements = getattr(fact, "elements", None)
    if elements is None:
        return None
    if len(elements) != len(op.dims(2)):
        message = f"the output shape has {len(elements)} dims, the operand has rank {len(op.dims(2))}"
        raise ShapeError(message, "expected equal ranks")
    return elements[1:-1]
