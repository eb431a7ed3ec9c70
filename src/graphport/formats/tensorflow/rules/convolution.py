"""Convolutions of TensorFlow: filters are [*kernel, channels of a group, maps]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.facts import TensorFact
from graphport.formats.tensorflow.rules.binding import (
    CHANNELS_FIRST,
    from_channels_first,
    operator,
    spatial,
    to_channels_first,
)
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mul, Sub
from graphport.ops.definitions.convolution import Conv, ConvTranspose
from graphport.ops.definitions.convolution.window import same_pads
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Shape
from graphport.ops.lowering.extents import extent, joined
from graphport.ops.lowering.operands import as_int64, reshaped, sizes, transposed, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_SAME, _EXPLICIT = "SAME", "EXPLICIT"


def window(
    dims: Sequence[Dim],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    explicit: Sequence[int] = (),
) -> dict[str, Any]:
    """The attributes of a window of ONNX over spatial axes of lengths `dims`.

    Raises:
        ShapeError: the padding is unknown.
    """
    stated: dict[str, Any] = {
        "kernel_shape": tuple(kernel),
        "strides": tuple(strides) if any(s != 1 for s in strides) else None,
        "dilations": tuple(dilations) if any(d != 1 for d in dilations) else None,
    }
    if padding == _EXPLICIT:
        return stated | {"pads": (*explicit[::2], *explicit[1::2])}
    if padding != _SAME:
        if padding != "VALID":
            message = f"padding is {padding!r}"
            raise ShapeError(message, "SAME, VALID or EXPLICIT")
        return stated
    pads = [same_pads(*each, "SAME_UPPER") for each in zip(dims, kernel, strides, dilations, strict=True)]
    flat = [side for pair in zip(*pads, strict=True) for side in pair]
    if not all(isinstance(side, int) for side in flat):
        return stated | {"auto_pad": "SAME_UPPER"}
    return stated | ({"pads": tuple(flat)} if any(flat) else {})


def explicit_pads(paddings: Sequence[int], data_format: str) -> tuple[int, ...]:
    """The explicit paddings of the spatial axes: begin and end of each."""
    return tuple(paddings[4:]) if data_format in CHANNELS_FIRST else tuple(paddings[2:-2])


@operator("Conv2D", "Conv3D")
def convolution(
    b: Builder,
    x: Value,
    w: Value,
    *,
    strides: tuple[int, ...],
    padding: str,
    dilations: tuple[int, ...] = (),
    explicit_paddings: tuple[int, ...] = (),
    data_format: str = "NHWC",
) -> Value:
    """A convolution; the number of groups follows from the filters."""
    x = to_channels_first(b, x, data_format)
    rank = len(b.dims(x))
    w = transposed(b, w, (rank - 1, rank - 2, *range(rank - 2)))
    own, channels = b.dims(w, at_least=2)[1], b.dims(x, at_least=2)[1]
    group = channels // own if isinstance(own, int) and isinstance(channels, int) and own else 1
    gaps = spatial(dilations, data_format) or (1,) * (rank - 2)
    attributes = window(
        b.dims(x)[2:],
        sizes(b.dims(w)[2:], "the window"),
        spatial(strides, data_format),
        gaps,
        padding,
        explicit_pads(explicit_paddings, data_format),
    )
    return from_channels_first(b, b(Conv, x, w, group=group if group != 1 else None, **attributes), data_format)


@operator("Conv")
def general_convolution(
    b: Builder,
    x: Value,
    w: Value,
    *,
    strides: tuple[int, ...],
    padding: str,
    explicit_paddings: tuple[int, ...] = (),
    data_format: str = "CHANNELS_LAST",
    dilations: tuple[int, ...] = (),
    batch_dims: int = 1,
) -> Value:
    """A convolution of one batch axis; see `Conv2D`.

    Raises:
        UnsupportedError: there are several batch axes.
    """
    if batch_dims != 1:
        message = f"a convolution of {batch_dims} batch axes"
        raise UnsupportedError(message)
    format = "NCHW" if data_format == "CHANNELS_FIRST" else "NHWC"
    options = {"strides": strides, "dilations": dilations, "explicit_paddings": explicit_paddings}
    return convolution(b, x, w, padding=padding, data_format=format, **options)


@operator("DepthwiseConv2dNative")
def depthwise(
    b: Builder,
    x: Value,
    w: Value,
    *,
    strides: tuple[int, ...],
    padding: str,
    dilations: tuple[int, ...] = (),
    explicit_paddings: tuple[int, ...] = (),
    data_format: str = "NHWC",
) -> Value:
    """A convolution of each channel by its own filters [height, width, channels, multiplier]."""
    x = to_channels_first(b, x, data_format)
    height, width, channels, multiplier = sizes(b.dims(w, 4), "the filters")
    w = reshaped(b, transposed(b, w, (2, 3, 0, 1)), (channels * multiplier, 1, height, width))
    attributes = window(
        b.dims(x)[2:],
        (height, width),
        spatial(strides, data_format),
        spatial(dilations, data_format) or (1, 1),
        padding,
        explicit_pads(explicit_paddings, data_format),
    )
    return from_channels_first(b, b(Conv, x, w, group=channels if channels != 1 else None, **attributes), data_format)


@operator("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def transposed_convolution(
    b: Builder,
    size: Value,
    w: Value,
    x: Value,
    *,
    strides: tuple[int, ...],
    padding: str,
    dilations: tuple[int, ...] = (),
    explicit_paddings: tuple[int, ...] = (),
    data_format: str = "NHWC",
) -> Value:
    """The gradient of a convolution: `size` is the shape of the result, filters are [*kernel, maps, channels].

    The padding is that of the convolution that the result would be the input of.
    """
    x = to_channels_first(b, x, data_format)
    rank = len(b.dims(x))
    axes = rank - 2
    w = transposed(b, w, (rank - 1, rank - 2, *range(axes)))
    kernel = sizes(b.dims(w)[2:], "the window")
    steps = spatial(strides, data_format)
    gaps = spatial(dilations, data_format) or (1,) * axes
    maps, own = b.dims(x, at_least=2)[1], b.dims(w, at_least=1)[0]
    if maps != own:
        message = f"the operand has {maps} channels, but the filters have {own}"
        raise ShapeError(message)
    attributes = window((), kernel, steps, gaps, "VALID")
    group = 1
    full = [(k - 1) * d + 1 for k, d in zip(kernel, gaps, strict=True)]
    shape = as_int64(b, size)
    wanted = b(Slice, shape, *(vector(b, [n]) for n in ((2, rank) if data_format in CHANNELS_FIRST else (1, rank - 1))))
    y = b(ConvTranspose, x, w, group=group if group != 1 else None, **attributes)
    known = _known_sizes(wanted)
    own_dims = b.dims(x)[2:]
    if padding == _EXPLICIT:
        pads = explicit_pads(explicit_paddings, data_format)
        begins: Value = vector(b, pads[::2])
    elif padding == _SAME:
        positions = [b(Mul, b(Sub, extent(b, x, a + 2), [1]), [s]) for a, s in enumerate(steps)]
        lengths = joined(b, *(b(Add, each, [f]) for each, f in zip(positions, full, strict=True)))
        total = b(Max, b(Sub, lengths, wanted), vector(b, [0] * axes))
        begins = b(Div, total, vector(b, [2] * axes))
    else:
        begins = vector(b, [0] * axes)
    if known is not None and all(isinstance(n, int) for n in own_dims):
        return from_channels_first(
            b,
            _static(b, x, w, attributes, known, own_dims, full, steps, padding, explicit_paddings, data_format),
            data_format,
        )
    places = vector(b, range(2, rank))
    behind = b(
        Max,
        b(Sub, b(Add, begins, wanted), b(Slice, b(Shape, y), [2], [rank])),
        vector(b, [0] * axes),
    )
    y = b(Pad, y, b(Concat, vector(b, [0] * (rank + 2)), behind, axis=0))
    return from_channels_first(b, b(Slice, y, begins, b(Add, begins, wanted), places), data_format)


def _known_sizes(value: Value) -> tuple[int, ...] | None:
    fact = value.fact
    elements = fact.elements if isinstance(fact, TensorFact) else None
    if elements is None or not all(isinstance(n, int) for n in elements):
        return None
    return tuple(int(n) for n in elements)  # pyright: ignore[reportArgumentType]  all are integers


def _static(
    b: Builder,
    x: Value,
    w: Value,
    attributes: dict[str, Any],
    wanted: Sequence[int],
    dims: Sequence[Any],
    full: Sequence[int],
    steps: Sequence[int],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
) -> Value:
    """Return the result with static output padding; all sizes are static."""
    lengths = [(n - 1) * s + f for n, s, f in zip(dims, steps, full, strict=True)]
    if padding == _EXPLICIT:
        begins = list(explicit_pads(explicit, data_format)[::2])
    elif padding == _SAME:
        begins = [max(0, length - out) // 2 for length, out in zip(lengths, wanted, strict=True)]
    else:
        begins = [0] * len(lengths)
    ends = [length - begin - out for length, begin, out in zip(lengths, begins, wanted, strict=True)]
    more = [max(0, -end) for end in ends]
    pads = (*begins, *(max(0, end) for end in ends))
    stated = attributes | ({"pads": pads} if any(pads) else {})
    if not any(more):
        return b(ConvTranspose, x, w, **stated)
    if all(extra < s for extra, s in zip(more, steps, strict=True)):
        return b(ConvTranspose, x, w, output_padding=tuple(more), **stated)
    y = b(ConvTranspose, x, w, **stated)
    return b(Pad, y, [0] * (2 + len(more)) + [0, 0, *more])
