"""Transposed convolutions in OpenVINO, and columns added up to an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.convolution_windows import (
    Sliding,
    biased,
    check_entries,
    check_space,
    emitted_by_group,
    joined_groups,
    steps,
    window_words,
)
from graphport.formats.openvino.rules.emitting import emitted_pad
from graphport.ops.constant_folding import folded
from graphport.ops.declare import lower
from graphport.ops.definitions.convolution import ConvTranspose
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Squeeze, Unsqueeze
from graphport.ops.definitions.reshape.columns import Col2Im
from graphport.ops.lowering.operands import as_int64, cast, check_counts, dtype_of, integers, needed, sizes
from graphport.ops.lowering.windows import transposed_window_of
from graphport.ops.views.convolution import ConvTransposeView
from graphport.ops.views.reshape import Col2ImView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient(Sliding):
    """Attributes of a transposed convolution."""

    output_padding: tuple[int, ...] = ()


@Gradient.lower("openvino", "opset1.ConvolutionBackpropData")
def convolution_backprop(
    b: Builder, op: Gradient, x: Value, filters: Value, output_shape: Value | None = None
) -> Value:
    """Transposed convolution: the gradient of Convolution with respect to its data."""
    return _conv_transpose(b, op, x, filters, 1, output_shape)


@Gradient.lower("openvino", "opset1.GroupConvolutionBackpropData")
def group_convolution_backprop(
    b: Builder, op: Gradient, x: Value, filters: Value, output_shape: Value | None = None
) -> Value:
    """Grouped transposed convolution; filters have a leading axis of groups."""
    group, *_ = sizes(b.dims(filters, at_least=1)[:1], "the number of groups")
    return _conv_transpose(b, op, x, joined_groups(b, filters), group, output_shape)


def _conv_transpose(b: Builder, op: Gradient, x: Value, w: Value, group: int, output_shape: Value | None) -> Value:
    kernel = sizes(b.dims(w)[2:], "the kernel")
    rank = len(kernel)
    check_entries(rank, strides=op.strides, dilations=op.dilations, output_padding=op.output_padding)
    ones, zeros = (1,) * rank, (0,) * rank
    strides, dilations, extra = op.strides or ones, op.dilations or ones, op.output_padding or zeros
    cut = [(0, 0)] * rank
    if op.auto_pad in ("explicit", "notset"):
        check_entries(rank, pads_begin=op.pads_begin, pads_end=op.pads_end)
        cut = list(zip(op.pads_begin or zeros, op.pads_end or zeros, strict=True))
    if output_shape is not None:
        wanted = needed(output_shape, "output_shape of a transposed convolution")
        dims = sizes(b.dims(x)[2:], "the dims of a transposed convolution with output_shape")
        check_counts(rank, output_shape=wanted, input=dims)
        full = [
            (n - 1) * s + (k - 1) * d + 1 + e
            for n, s, k, d, e in zip(dims, strides, kernel, dilations, extra, strict=True)
        ]
        cut = [_cut(n - out, op.auto_pad, pair) for n, out, pair in zip(full, wanted, cut, strict=True)]
    return _trimmed(b, x, w, group, kernel, strides, dilations, cut, extra)


def _cut(total: int, auto_pad: str, explicit: tuple[int, int]) -> tuple[int, int]:
    """Return how much to crop at the begin and end; with explicit padding, the end takes the remainder."""
    if total < 0 and auto_pad in ("same_upper", "same_lower"):
        return 0, total
    match auto_pad:
        case "same_upper":
            return total - total // 2, total // 2
        case "same_lower":
            return total // 2, total - total // 2
        case "valid":
            return 0, total
        case _:
            return explicit[0], total - explicit[0]


def _trimmed(
    b: Builder,
    x: Value,
    w: Value,
    group: int,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    cut: Sequence[tuple[int, int]],
    extra: Sequence[int],
) -> Value:
    """Emit a cropped transposed convolution with `extra` elements at the end.

    ONNX limits `output_padding` to less than a stride.
    """
    ends = [end - more for (_, end), more in zip(cut, extra, strict=True)]
    more = [max(-end, 0) for end in ends]
    begins = [begin for begin, _ in cut]
    stated = steps(strides, dilations) | {"group": group, "kernel_shape": tuple(kernel)}
    if min(begins) < 0 or any(n >= max(s, d) for n, s, d in zip(more, strides, dilations, strict=True)):
        edges = [-n for n in (0, 0, *begins, 0, 0, *ends)]
        return b(Pad, b(ConvTranspose, x, w, **stated), edges)
    pads = (*begins, *(max(end, 0) for end in ends))
    stated |= {"pads": pads if any(pads) else None, "output_padding": tuple(more) if any(more) else None}
    return b(ConvTranspose, x, w, **stated)


@ConvTransposeView.export_rule("openvino")
def export_conv_transpose(b: Builder, op: ConvTransposeView) -> Exported:
    kernel = sizes(b.dims(op.w)[2:], "the kernel")
    check_space(len(kernel))
    geometry = transposed_window_of(op)
    words = window_words(geometry, "NOTSET") | {"output_padding": op.output_padding or (0,) * len(kernel)}
    begins, ends, extra = words["pads_begin"], words["pads_end"], words["output_padding"]
    axes = zip(b.dims(op.x)[2:], geometry.strides, kernel, geometry.dilations, extra, begins, ends, strict=True)
    full = [(n - 1) * s + (k - 1) * d + 1 + e - p - q for n, s, k, d, e, p, q in axes]
    if full != list(geometry.lengths):
        # An output shape larger than the result is padded with zeros at the end.
        missing = [out - n for n, out in zip(sizes(full), sizes(geometry.lengths), strict=True)]
        words["output_padding"] = tuple(e + m for e, m in zip(extra, missing, strict=True))
    x, edges = op.x, None
    around = _zeros_around(b, op.x) if max(geometry.strides) > 1 else None
    if around is not None:
        x = around.data
        kept = [
            [q - s * p for p, q, s in zip(*sides, geometry.strides, strict=True)]
            for sides in ((around.begins, begins), (around.ends, ends))
        ]
        words["pads_begin"], words["pads_end"] = (tuple(max(n, 0) for n in side) for side in kept)
        edges = [[0, 0, *(max(-n, 0) for n in side)] for side in kept]
    y = emitted_by_group(b, "ConvolutionBackpropData", x, op.w, op.group, words)
    if edges is not None and any(map(any, edges)):
        y = emitted_pad(b, y, *edges)
    return (biased(b, y, op.b, len(b.dims(op.w)) - 2),)


class _ZeroPadded(NamedTuple):
    """A value before zero padding, and its padding at begin and end of each spatial axis."""

    data: Value
    begins: tuple[int, ...]
    ends: tuple[int, ...]


def _zeros_around(b: Builder, x: Value) -> _ZeroPadded | None:
    """Return the operand and amounts of a zero Pad before a transposed convolution, if there is one.

    OpenVINO's plugin fuses such a Pad and shrinks the result by one per zero, independent of the stride. Zeros inserted
    around the image give the same result without the fusion.
    """
    b.looks_around = True
    pad = x.producer
    if (
        pad is None
        or pad.dialect != "openvino"
        or not pad.op_type.endswith(".Pad")
        or pad.attributes["pad_mode"] != "constant"
    ):
        return None
    data, fill = pad.operands[0], pad.operand(3)
    begins, ends = (integers(value) for value in pad.operands[1:3])
    zero = None if fill is None else folded(fill)
    if begins is None or ends is None or any((*begins[:2], *ends[:2])) or min((*begins, *ends)) < 0:
        return None
    if fill is not None and (zero is None or zero.numpy().any()):
        return None
    return _ZeroPadded(data, tuple(begins[2:]), tuple(ends[2:]))


# Other windows


@lower("openvino", "opset15.Col2Im")
def col2im(
    b: Builder,
    x: Value,
    output_size: Value,
    kernel_size: Value,
    *,
    strides: tuple[int, ...] = (),
    dilations: tuple[int, ...] = (),
    pads_begin: tuple[int, ...] = (),
    pads_end: tuple[int, ...] = (),
) -> Value:
    """Add the columns of sliding windows into an image (Col2Im); operands without a batch axis have rank 2."""
    dtype, is_single = dtype_of(x), len(b.dims(x)) == 2
    wide = dtype if dtype.is_floating and dtype.bits >= 32 else DType.FLOAT32
    columns = cast(b, b(Unsqueeze, x, [0]) if is_single else x, wide)
    pads = (*(pads_begin or (0, 0)), *(pads_end or (0, 0)))
    stated: dict[str, Any] = steps(strides or (1, 1), dilations or (1, 1)) | {"pads": pads if any(pads) else None}
    image = cast(b, b(Col2Im, columns, as_int64(b, output_size), as_int64(b, kernel_size), **stated), dtype)
    return b(Squeeze, image, [0]) if is_single else image


@Col2ImView.export_rule("openvino")
def export_col2im(b: Builder, op: Col2ImView) -> Exported:
    """Export Col2Im for images with two spatial axes, the only ones that OpenVINO has."""
    if b.dims(op.image_shape) != (2,):
        return None
    edges = op.pads or (0, 0, 0, 0)
    words: dict[str, Any] = {"strides": op.strides or (1, 1), "dilations": op.dilations or (1, 1)}
    words |= {"pads_begin": tuple(edges[:2]), "pads_end": tuple(edges[2:])}
    return b.emit("opset15.Col2Im", op.input, op.image_shape, op.block_shape, **words)
