"""Convolutions in NNEF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import decide_equal, decide_less
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.convolution_borders import Pairs, Slide, Sliding, bordered, emitted_padding, fact_of
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.convolution import Conv, ConvTranspose
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Squeeze, Unsqueeze
from graphport.ops.lowering.leading_broadcast import append_axes
from graphport.ops.lowering.windows import transposed_window_of, window_options
from graphport.ops.views.convolution import ConvTransposeView, ConvView

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


@Sliding.lower("nnef", "conv")
def conv(
    b: Builder, stated: Sliding, input: Value, filter: Value, bias: Value | None = None, *, groups: int = 1
) -> Value:
    """Convolution; empty `padding` is SAME auto-padding, `groups = 0` is depthwise."""
    kernel = _kernel(b, input, filter)
    x, slide = bordered(b, input, Slide.of(kernel, stated), stated.border)
    group = _groups(b, input, groups)
    vector, rest = channel_bias(b, bias, b.dims(filter, at_least=1)[0])
    y = b(Conv, x, filter, vector, group=group if group != 1 else None, **slide.attributes(b.dims(x)[2:]))
    return y if rest is None else b(Add, *append_axes(b, y, rest))


def window_attributes(
    b: Builder, stated: Sliding, input: Value, filter: Value, *, groups: int = 1
) -> dict[str, Any] | None:
    """Return ONNX's attributes for a convolution window; `None` for a border without ONNX equivalent."""
    slide = Slide.of(_kernel(b, input, filter), stated)
    if stated.border != "constant":
        return None
    return {"group": _groups(b, input, groups), **slide.attributes(b.dims(input)[2:])}


def _kernel(b: Builder, input: Value, filter: Value) -> tuple[Dim, ...]:
    rank, kernel = len(b.dims(input)), b.dims(filter)
    if len(kernel) != rank:
        message = f"the filter has rank {len(kernel)}, the input {rank}"
        raise ShapeError(message, "the ranks must be equal")
    if rank < 3:
        message = f"the input has rank {rank}"
        raise ShapeError(message, "expected batch, channels and at least one spatial axis")
    return kernel[2:]


def _groups(b: Builder, input: Value, groups: int) -> int:
    if groups > 0:
        return groups
    channels = b.dims(input, at_least=2)[1]
    if groups < 0:
        message = f"groups is {groups}"
        raise ShapeError(message, "use a positive number of groups, or 0 for one group per channel")
    if not isinstance(channels, int):
        message = "groups = 0 with an unknown number of channels"
        raise UnsupportedError(message)
    return channels


def channel_bias(b: Builder, bias: Value | None, maps: Dim) -> tuple[Value | None, Value | None]:
    """NNEF's bias (1, C) as ONNX's [C]; a bias of another shape comes second, to be added.

    Raises:
        ShapeError: its entries do not belong to channels.
    """
    if bias is None or is_zero(bias):
        return None, None
    dims = b.dims(bias)
    channels = dims[-1] if len(dims) in (1, 2) else 1
    if len(dims) > 2 and any(decide_equal(dim, 1) is False for dim in (dims[0], *dims[2:])):
        message = f"the bias has the shape {list(dims)}"
        raise ShapeError(message, "use shape (1, channels)")
    if decide_equal(channels, 1) is not False and decide_equal(channels, maps) is not True:
        return None, bias
    if decide_equal(channels, maps) is False or (len(dims) == 2 and decide_equal(dims[0], 1) is False):
        message = f"the bias has the shape {list(dims)} for {maps} feature maps"
        raise ShapeError(message, f"(1, {maps})")
    if len(dims) == 1:
        return bias, None
    flat = b.reshaped(bias, [maps]) if isinstance(maps, int) else None
    return flat or b(Squeeze, bias, b.constant([0])), None


def is_zero(value: Value) -> bool:
    """Whether a value is the literal 0."""
    if not value.is_literal or value.storage is None or value.storage.count != 1:
        return False
    return bool(value.storage.numpy().reshape(-1)[0] == 0)


@ConvView.export_rule("nnef")
def export_conv(b: Builder, op: ConvView) -> tuple[Value, ...] | None:
    """Export Conv; zero padding is NNEF's border `constant`."""
    if fact_of(op.x).shape is None or fact_of(op.w).shape is None:
        return None
    stated = emitted_padding(b.dims(op.x)[2:], b.dims(op.w)[2:], **window_options(op))
    if stated is None:
        return None
    return b.emit(
        "conv",
        op.x,
        op.w,
        emitted_bias(b, op.b),
        border="constant",
        padding=stated[0],
        stride=steps(op.strides),
        dilation=steps(op.dilations),
        groups=op.group,
    )


def steps(entries: Shaped | None) -> Shaped:
    """Return strides or dilations in NNEF's form: empty if all are 1."""
    return entries if entries is not None and any(entry != 1 for entry in entries) else ()


def emitted_bias(b: Builder, bias: Value | None) -> Value:
    """Return ONNX's bias [C] as (1, C), or the literal 0 if there is no bias."""
    if bias is None:
        return literal(b, 0.0)
    maps = b.dims(bias, at_least=1)[0]
    flat = b.reshaped(bias, [1, maps]) if isinstance(maps, int) else None
    return flat or b.emit("unsqueeze", bias, facts=[TensorFact(fact_of(bias).dtype, (1, maps))], axes=(0,))[0]


def literal(b: Builder, number: float) -> Value:
    """Return a number that is written as a literal at its use."""
    value = b.constant(number, DType.FLOAT32)
    value.is_literal = True
    return value


@Sliding.lower("nnef", "deconv")
def deconv(
    b: Builder,
    stated: Sliding,
    input: Value,
    filter: Value,
    bias: Value | None = None,
    *,
    output_shape: Shaped = (),
    groups: int = 1,
) -> Value:
    """Transposed convolution; `output_shape` contains batch and channels and resolves the ambiguity of strides."""
    kernel = _kernel(b, input, filter)
    slide = Slide.of(kernel, stated)
    if stated.border not in ("constant", "ignore"):
        message = f"border {stated.border!r} of a transposed convolution"
        raise UnsupportedError(message)
    group = _groups(b, input, groups)
    dims = b.dims(input)[2:]
    shaped = deconv_attributes(slide, dims, _spatial_shape(b, input, filter, group, output_shape))
    vector, rest = channel_bias(b, bias, b.dims(filter, at_least=2)[1] * group)
    y = b(ConvTranspose, input, filter, vector, group=group if group != 1 else None, **shaped)
    return y if rest is None else b(Add, *append_axes(b, y, rest))


def _spatial_shape(b: Builder, input: Value, filter: Value, group: int, output_shape: Shaped) -> Shaped:
    if not output_shape:
        return ()
    x, w = b.dims(input), b.dims(filter)
    if len(output_shape) != len(x) or any(n < 1 for n in output_shape):
        message = f"output_shape {list(output_shape)} for an input of rank {len(x)}"
        raise ShapeError(message, "write one positive extent per axis")
    expected = (x[0], w[1] * group)
    if any(decide_equal(a, n) is False for a, n in zip(expected, output_shape, strict=False)):
        message = f"output_shape begins with {list(output_shape[:2])}, batch and channels are {list(expected)}"
        raise ShapeError(message)
    return output_shape[2:]


def deconv_attributes(slide: Slide, dims: Sequence[Dim], wanted: Shaped) -> dict[str, Any]:
    """Return ONNX's attributes for a transposed window with spatial output dims `wanted`.

    Raises:
        ShapeError: the window over `wanted` does not have `dims` positions.
        UnsupportedError: that depends on a dynamic dim.
    """
    stated: dict[str, Any] = {"strides": steps(slide.stride) or None, "dilations": steps(slide.dilation) or None}
    _check_extents(slide, dims, wanted)
    if not slide.padding:
        reach = [(k - 1) * d + 1 for k, d in zip(slide.kernel, slide.dilation, strict=True)]
        if not wanted and any(decide_less(r, s) is not False for r, s in zip(reach, slide.stride, strict=True)):
            # The output does not reach the full `size * stride`; ONNX needs output_padding.
            wanted = tuple(n * s for n, s in zip(dims, slide.stride, strict=True) if isinstance(n, int))
            if len(wanted) != len(dims):
                message = "a stride larger than the filter over an unknown extent"
                raise UnsupportedError(message)
        return stated | {"auto_pad": "SAME_UPPER", "output_shape": wanted or None}
    pads = (*(begin for begin, _ in slide.padding), *(end for _, end in slide.padding))
    extra = ()
    if wanted:
        axes = zip(dims, slide.kernel, slide.stride, slide.dilation, slide.padding, wanted, strict=True)
        gaps = [out - ((n - 1) * s + (k - 1) * d + 1 - p - q) for n, k, s, d, (p, q), out in axes]
        extra = tuple(gap for gap in gaps if isinstance(gap, int))
        if len(extra) != len(gaps):
            message = "output_shape with explicit padding over an unknown extent"
            raise UnsupportedError(message)
    return stated | {"pads": pads if any(pads) else None, "output_padding": extra if any(extra) else None}


def _check_extents(slide: Slide, dims: Sequence[Dim], wanted: Shaped) -> None:
    if not wanted:
        return
    axes = zip(wanted, slide.kernel, slide.stride, slide.dilation, slide.amounts(wanted) or (), strict=True)
    counts = [(n + p + q - (k - 1) * d - 1) // s + 1 for n, k, s, d, (p, q) in axes]
    if any(decide_equal(place, n) is False for place, n in zip(counts, dims, strict=True)):
        message = (
            f"a window over output_shape {list(wanted)} has {counts} positions, but the input has shape {list(dims)}"
        )
        raise ShapeError(message, "use an output_shape that the forward operation maps to the input shape")


@ConvTransposeView.export_rule("nnef")
def export_conv_transpose(b: Builder, op: ConvTransposeView) -> tuple[Value, ...] | None:
    """Export ConvTranspose: pads become padding, ambiguous sizes an `output_shape`."""
    if fact_of(op.x).shape is None or fact_of(op.w).shape is None:
        return None
    (batch, _, *dims), maps = b.dims(op.x), b.dims(op.w, at_least=2)[1]
    geometry = transposed_window_of(op)
    padding = geometry.padding
    if padding is None:
        return None
    if min(min(pair) for pair in padding) < 0:
        return _grown(b, op.x, op.w, op.b, padding, dilations=op.dilations, group=op.group, strides=op.strides)
    slide = Slide(geometry.kernel, padding, geometry.strides, geometry.dilations)
    axes = zip(dims, slide.kernel, slide.stride, slide.dilation, padding, strict=True)
    natural = [(n - 1) * s + (k - 1) * d + 1 - p - q for n, k, s, d, (p, q) in axes]
    shape: Shaped = ()
    if any(decide_equal(a, n) is not True for a, n in zip(natural, geometry.lengths, strict=True)):
        full = (batch, maps * op.group, *geometry.lengths)
        shape = tuple(n for n in full if isinstance(n, int))
        gaps = [n - a for a, n in zip(natural, geometry.lengths, strict=True)]
        stretched = any(decide_less(gap, s) is not True for gap, s in zip(gaps, slide.stride, strict=True))
        if len(shape) != len(full):
            # `output_shape` has no dynamic dims; less padding at the end is equivalent.
            shape = ()
            padding = tuple(
                (p, q - gap) if isinstance(gap, int) else (p, -1) for (p, q), gap in zip(padding, gaps, strict=True)
            )
        if stretched or min(q for _, q in padding) < 0:
            return None
    return b.emit(
        "deconv",
        op.x,
        op.w,
        emitted_bias(b, op.b),
        border="constant",
        padding=padding,
        stride=steps(op.strides),
        dilation=steps(op.dilations),
        output_shape=shape,
        groups=op.group,
    )


def _grown(
    b: Builder, x: Value, w: Value, bias: Value | None, padding: Pairs, **attributes: Attribute
) -> tuple[Value, ...]:
    """Extend the output beyond the last full window; the added elements equal the bias."""
    cut = [max(begin, 0) for begin, _ in padding] + [max(end, 0) for _, end in padding]
    y = b(ConvTranspose, x, w, None, pads=tuple(cut), **attributes)
    around = [0, 0, *(max(-begin, 0) for begin, _ in padding), 0, 0, *(max(-end, 0) for _, end in padding)]
    y = b(Pad, y, around)
    if bias is None:
        return (y,)
    behind = b.constant(np.arange(1, len(padding) + 1))
    return (b(Add, y, b(Unsqueeze, bias, behind)),)


@Sliding.lower("nnef", "separable_conv")
def separable_conv(
    b: Builder,
    stated: Sliding,
    input: Value,
    plane_filter: Value,
    point_filter: Value,
    bias: Value | None = None,
    *,
    groups: int = 1,
) -> Value:
    """Depthwise convolution by `plane_filter`, then pointwise convolution by `point_filter`."""
    _check_separable(b, plane_filter, point_filter)
    planes = conv(b, stated, input, plane_filter, groups=0)
    return conv(b, _no_padding(b, input), planes, point_filter, bias, groups=groups)


@Sliding.lower("nnef", "separable_deconv")
def separable_deconv(
    b: Builder,
    stated: Sliding,
    input: Value,
    plane_filter: Value,
    point_filter: Value,
    bias: Value | None = None,
    *,
    output_shape: Shaped = (),
    groups: int = 1,
) -> Value:
    """Pointwise transposed convolution by `point_filter`, then depthwise by `plane_filter`."""
    _check_separable(b, plane_filter, point_filter)
    mixed = deconv(b, _no_padding(b, input), input, point_filter, groups=groups)
    return deconv(b, stated, mixed, plane_filter, bias, output_shape=output_shape, groups=0)


def _no_padding(b: Builder, input: Value) -> Sliding:
    return Sliding(padding=((0, 0),) * (len(b.dims(input)) - 2))


def _check_separable(b: Builder, plane_filter: Value, point_filter: Value) -> None:
    planes, points = (b.dims(each, at_least=2) for each in (plane_filter, point_filter))
    if len(planes) != len(points):
        message = f"plane_filter has rank {len(planes)}, point_filter {len(points)}"
        raise ShapeError(message, "the ranks must be equal")
    if decide_equal(planes[1], 1) is False:
        message = f"plane_filter has {planes[1]} channels"
        raise ShapeError(message, "use 1: plane_filter is depth-wise")
    if any(decide_equal(n, 1) is False for n in points[2:]):
        message = f"point_filter has the spatial extents {list(points[2:])}"
        raise ShapeError(message, "use 1: point_filter is point-wise")
