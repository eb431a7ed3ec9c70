"""Convolutions of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from graphport.core.dims import Dim
from graphport.formats.ncnn.rules.activation import activated
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import constant_float32, emitted, lengths_of, rearranged, stretched
from graphport.formats.ncnn.rules.quantization import (
    TERM,
    integers_of,
    rounded_operands,
    rounded_result,
    winograd_forbidden,
)
from graphport.formats.ncnn.rules.windows import (
    ENDINGS,
    Axes,
    along,
    known_padding,
    padding_of,
    slides,
    slides_parameters,
)
from graphport.formats.pytorch.rules.binding import length
from graphport.formats.pytorch.rules.functions.padding import padded
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.convolution import Conv, ConvTranspose, DeformConv
from graphport.ops.definitions.convolution.transposed import transposed_window
from graphport.ops.definitions.convolution.window import Window, window
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.reshape import Reshape, Squeeze, Transpose
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.lowering.windows import window_of, window_options
from graphport.ops.views.convolution import ConvTransposeView, ConvView, DeformConvView

_LOWER = -234
_SAME = {-233: "SAME_UPPER", _LOWER: "SAME_LOWER"}
_PLANE = 2


def _layered(count: int, at: Layer, *, is_grouped: bool, is_transposed: bool) -> Value:
    group = at.integer(7, 1) if is_grouped else 1
    made = _transposed if is_transposed else _convolved
    return rounded_result(at, activated(at, made(at, count, group)), 1 + bool(at.integer(5)))


for _count, _ending in ENDINGS.items():
    for _word, _is_grouped in (("", False), ("DepthWise", True)):
        for _kind, _is_transposed in (("Convolution", False), ("Deconvolution", True)):
            _rule = partial(_layered, _count, is_grouped=_is_grouped, is_transposed=_is_transposed)
            layer(f"{_kind}{_word}{_ending}")(_rule)


def _convolved(at: Layer, count: int, group: int) -> Value:
    b, maps = at.b, at.integer(0)
    at.refuse(*([TERM] if count != _PLANE else []))
    begin, end = padding_of(at, count, 4)
    if at.integer(_DYNAMIC):
        x, (weight, bias, kernel) = at.x, _weight_operands(at, count)
    else:
        kernel = along(at, count, 1, 0)
        x, weight = _operands(at, [maps, at.count(0) // max(maps * prod(kernel), 1), *kernel], group)
        bias = at.weight(1, [maps]) if at.integer(5) else None
    attributes: dict[str, Any] = {**slides(at, count), "group": group if group > 1 else None}
    if begin[0] in _SAME:
        steps = {"strides": attributes["strides"], "dilations": attributes["dilations"]}
        slid = window(b.dims(x)[2:], kernel, auto_pad=_SAME[begin[0]], **steps)
        _refuse_mixed_padding(b.dims(x)[2:], slid)
        if slid.padding is None:
            attributes |= {"auto_pad": _SAME[begin[0]], "pads": None}
        else:
            # Runtimes refuse automatic padding together with dilation.
            pairs = list(slid.padding)
            if count > _PLANE and begin[0] == _LOWER:
                pairs[0] = (pairs[0][1], pairs[0][0])  # along the depth, the larger half is always at the end
            attributes["pads"] = (*(p for p, _ in pairs), *(q for _, q in pairs))
    elif at.float_value(18):
        x = padded(b, x, list(zip(begin, end, strict=True)), "constant", at.float_value(18))
        attributes["pads"] = None
    return b(Conv, x, weight, bias, **attributes)


_DYNAMIC, _DYNAMIC_TRANSPOSED = 19, 28
"""The parameters of convolutions whose weight, and bias, are blobs."""


def _weight_operands(at: Layer, count: int) -> tuple[Value, Value | None, Axes]:
    """Return weight and bias of a convolution from its operands, and the kernel shape."""
    b, wanted = at.b, 2 + bool(at.integer(5))
    if len(at.inputs) != wanted or len(b.dims(at.inputs[1])) != count + 3:
        message = f"{len(at.inputs)} input blobs; expected {wanted}, the second a weight of rank {count + 2}"
        raise ShapeError(message)
    dims = b.dims(at.inputs[1])
    weight = b(Squeeze, at.inputs[1], [0])
    bias = b(Reshape, at.inputs[2], [-1]) if at.integer(5) else None
    return weight, bias, tuple(length(dims, axis) for axis in range(3, 3 + count))


def _refuse_mixed_padding(dims: Sequence[Dim], slid: Window) -> None:
    """Refuse SAME padding that is positive on one axis and negative on another."""
    numbers = zip(dims, slid.kernel, slid.strides, slid.dilations, strict=True)
    rest = [(k - 1) * d + 1 + (n - 1) // s * s - n for n, k, s, d in numbers]
    adds = any(isinstance(n, int) and n > 0 for pair in slid.pads for n in pair)
    if adds and any(isinstance(n, int) and n < 0 for n in rest):
        message = "negative padding on one axis and positive padding on another"
        raise UnsupportedError(message)


def _operands(at: Layer, shape: list[int], group: int) -> tuple[Value, Value]:
    """Return input and weight of a convolution; with int8 weights both quantized and dequantized."""
    term = at.integer(TERM)
    if not term:
        return at.x, at.weight(0, shape)
    groups = 0 if "7" not in at.parameters else group if term % 100 == 1 else 1
    return rounded_operands(at, shape, 1 + bool(at.integer(5)), groups)


def _transposed(at: Layer, count: int, group: int) -> Value:
    """Import a transposed convolution over `count` spatial axes.

    Weights are transposed from ncnn's [group, outputs, inputs, *kernel] to ONNX's [group * inputs, outputs, *kernel];
    inputs and outputs are per group.
    """
    b, maps = at.b, at.integer(0)
    at.refuse(TERM)
    if at.integer(_DYNAMIC_TRANSPOSED):
        weight, bias, kernel = _weight_operands(at, count)
        maps = length(b.dims(weight), 1) * group
    else:
        kernel = along(at, count, 1, 0)
        inputs = at.count(0) // max(maps * prod(kernel), 1)
        blocks = at.weight(0, [group, maps // group, inputs, *kernel])
        swapped = b(Transpose, blocks, perm=(0, 2, 1, *range(3, 3 + count)))
        weight = b(Reshape, swapped, [group * inputs, maps // group, *kernel])
        bias = at.weight(1, [maps]) if at.integer(5) else None
    extra = (at.integer(18), at.integer(19, at.integer(18)), at.integer(20, at.integer(18)))[:count][::-1]
    strides, dilations = along(at, count, 3), along(at, count, 2)
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": group if group > 1 else None}
    begin, end = _cut(at, count, kernel, strides, dilations, extra)
    if all(n < s for n, s in zip(extra, strides, strict=True)) and min(*begin, *end) >= 0:
        more = extra if any(extra) else None
        return b(ConvTranspose, at.x, weight, bias, pads=(*begin, *end), output_padding=more, **attributes)
    # The excess beyond a stride contains only the bias.
    y = padded(b, b(ConvTranspose, at.x, weight, **attributes), [(0, n) for n in extra])
    for axis, (p, q) in enumerate(zip(begin, end, strict=True), 2):
        if p or q:
            y = b(Slice, y, [p], [length(b.dims(y), axis) - q], [axis])
    return y if bias is None else b(Add, y, b(Reshape, bias, [maps, *[1] * count]))


def _cut(
    at: Layer, count: int, kernel: Axes, strides: Axes, dilations: Axes, extra: Axes
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the crops of each axis: explicit, or the excess over the output size."""
    begin, end = padding_of(at, count, 4)
    # With a depth, output sizes have other parameter numbers.
    keys = {1: (20,), 2: (20, 21), 3: (25, 26, 27)}[count]
    lengths: list[int] = []
    for key in keys:
        lengths.append(at.integer(key, lengths[0] if lengths else 0))
    if any(n > 0 for n in (*begin, *end)):
        if min(*begin, *end) < 0:
            message = "explicit padding on one axis and automatic padding on another"
            raise UnsupportedError(message)
        return begin, end
    if not all(n > 0 for n in lengths):
        return (0,) * count, (0,) * count
    if begin[0] not in _SAME:
        message = "an output size is set without an automatic padding mode that selects the elements to crop"
        raise UnsupportedError(message)
    dims = [length(at.b.dims(at.x), axis) for axis in range(2, 2 + count)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    whole = [(n - 1) * s + r + m for n, s, r, m in zip(dims, strides, reach, extra, strict=True)]
    rest = [n - m for n, m in zip(whole, reversed(lengths), strict=True)]
    if min(rest) < 0:
        message = f"the requested output size exceeds {whole}"
        raise UnsupportedError(message)
    small, large = [n // 2 for n in rest], [n - n // 2 for n in rest]
    return (small, large) if _SAME[begin[0]] == "SAME_UPPER" else (large, small)


@layer("Unfold")
def unfold(at: Layer) -> Value:
    """Unfold: extract windows as columns, channel by channel."""
    b = at.b
    kernel = along(at, 2, 1, 0)
    channels, area = length(b.dims(at.x), 1), prod(kernel)
    ones = np.tile(np.eye(area).reshape(area, 1, *kernel), (channels, 1, 1, 1))
    y = b(Conv, at.x, b.constant(ones, dtype_of(at.x)), group=channels, **slides(at, 2))
    return b(Reshape, y, [0, channels * area, -1])


@layer("DeformableConv2D")
def deformable(at: Layer) -> Value:
    """DeformableConv2D of image, offsets and optional mask."""
    b, maps, kernel = at.b, at.integer(0), along(at, 2, 1, 0)
    weight = at.weight(0, [maps, at.count(0) // max(maps * prod(kernel), 1), *kernel])
    bias = at.weight(1, [maps]) if at.integer(5) else None
    offset, mask = at.inputs[1], at.inputs[2] if len(at.inputs) > 2 else None
    groups = length(b.dims(offset), 1) // (2 * prod(kernel))
    attributes = {**slides(at, 2), "offset_group": groups if groups > 1 else None}
    return activated(at, b(DeformConv, at.x, weight, offset, bias, mask, **attributes))


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _checked(b: Builder, x: Value, w: Value) -> int:
    """Return the number of spatial axes of a convolution.

    Raises:
        UnsupportedError: ncnn has no convolution over that many axes, or `w` has another rank.
    """
    count = len(lengths_of(b, x)) - 1
    if count not in ENDINGS or len(b.dims(w)) != count + 2:
        message = f"convolution over {count} spatial axes"
        raise UnsupportedError(message)
    return count


@ConvView.export_rule("ncnn")
def export_conv(b: Builder, op: ConvView) -> Value:
    # ncnn has integer kernels for 2-D convolutions only.
    b.looks_around = True
    found = integers_of(op.x, op.w) if len(b.dims(op.w)) == _PLANE + 2 else None
    x = op.x if found is None else found.x
    count = _checked(b, x, op.w)
    maps, _, *kernel = (length(b.dims(op.w), axis) for axis in range(count + 2))
    slid = window_of(op)
    code = next((key for key, name in _SAME.items() if name == op.auto_pad), None)
    if code is not None and slid.padding is None and _never_crops(kernel, slid):
        begin = end = (code,) * count
    else:
        begin, end = zip(*known_padding(x, slid), strict=True)
    parameters: dict[str, Any] = {
        **slides_parameters(kernel, slid.dilations, slid.strides, begin, end),
        "p0": maps,
        "p5": int(op.b is not None),
        "p7": op.group if op.group > 1 else None,
    }
    type_ = f"{'ConvolutionDepthWise' if op.group > 1 else 'Convolution'}{ENDINGS[count]}"
    if folded(op.w) is None:
        return emitted(b, type_, op.x, *_given_blobs(b, op), p19=1, **parameters)
    weight = constant_float32(op.w)
    more: dict[str, Any] = {} if op.b is None else {"w1": constant_float32(op.b)}
    if found is not None:
        found = found if op.group == 1 else found.by_group(op.group)
        more |= found.parameters(1 + (op.b is not None), term=1 if op.group > 1 else 2)
        more |= winograd_forbidden(found) if op.group == 1 else {}
    stored = weight if found is None else found.codes
    return emitted(b, type_, x, p6=weight.count, w0=stored, **parameters, **more)


def _never_crops(kernel: Sequence[int], slid: Window) -> bool:
    """Whether automatic padding of an image is never negative, which ncnn would apply as a crop."""
    axes = zip(kernel, slid.strides, slid.dilations, strict=True)
    return len(kernel) == _PLANE and all((k - 1) * d + 1 >= s for k, s, d in axes)


def _given_blobs(b: Builder, op: ConvView | ConvTransposeView) -> list[Value]:
    """Return the computed weight and bias as blobs that contain all axes."""
    return [stretched(b, each, b.dims(each), None) for each in (op.w, op.b) if each is not None]


@ConvTransposeView.export_rule("ncnn")
def export_conv_transpose(b: Builder, op: ConvTransposeView) -> Value | None:
    """Export ConvTranspose: output padding reduces the end padding."""
    count = _checked(b, op.x, op.w)
    inputs, maps, *kernel = (length(b.dims(op.w), axis) for axis in range(count + 2))
    lengths = lengths_of(b, op.x)[1:]
    geometry = transposed_window(lengths, kernel, **window_options(op))
    begin = tuple(p for p, _ in geometry.pads if isinstance(p, int))
    axes = zip(lengths, geometry.lengths, geometry.kernel, geometry.strides, geometry.dilations, begin, strict=False)
    found = [(n - 1) * s + (k - 1) * d + 1 - p - m for n, m, k, s, d, p in axes]
    ends = [end for end in found if isinstance(end, int)]
    if len(begin) < count or len(ends) < count or min(begin) < 0:
        return None
    more: dict[str, Any] = {}
    if min(ends) < 0:
        more = {f"p{key}": max(-end, 0) for key, end in zip((18, 19, 20), reversed(ends), strict=False)}
    parameters: dict[str, Any] = {
        "p0": maps * op.group,
        **slides_parameters(kernel, geometry.dilations, geometry.strides, begin, [max(end, 0) for end in ends]),
        "p5": int(op.b is not None),
        "p7": op.group if op.group > 1 else None,
    }
    type_ = f"{'DeconvolutionDepthWise' if op.group > 1 else 'Deconvolution'}{ENDINGS[count]}"
    if folded(op.w) is None:
        return emitted(b, type_, op.x, *_given_blobs(b, op), **parameters, p28=1, **more)
    blocks = (op.group, inputs // op.group, maps, *kernel)
    layout = (0, 2, 1, *range(3, 3 + count))
    weight = rearranged(
        op.w, lambda array: array.reshape(blocks).transpose(layout), (op.group * maps, inputs // op.group, *kernel)
    )
    more |= {"w0": weight, "w1": None if op.b is None else constant_float32(op.b)}
    return emitted(b, type_, op.x, **parameters, p6=weight.count, **more)


@DeformConvView.export_rule("ncnn")
def export_deform_conv(b: Builder, op: DeformConvView) -> Value | None:
    if op.group != 1 or op.offset_group != 1 or _checked(b, op.x, op.w) != _PLANE:
        return None
    weight, around_ = constant_float32(op.w), op.pads or (0, 0, 0, 0)
    blobs = [op.x, op.offset, *([] if op.mask is None else [op.mask])]
    lengths_of(b, op.offset)
    parameters: dict[str, Any] = {
        "p0": weight.shape[0],
        **slides_parameters(weight.shape[2:], op.dilations or (1, 1), op.strides or (1, 1), around_[:2], around_[2:]),
        "p5": int(op.b is not None),
        "p6": weight.count,
    }
    bias = None if op.b is None else constant_float32(op.b)
    return emitted(b, "DeformableConv2D", *blobs, **parameters, w0=weight, w1=bias)
