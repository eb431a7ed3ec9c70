"""Convolutions of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    bounded,
    called,
    emits,
    integers,
    length,
    scalar_of,
    weight_of,
)
from graphport.formats.pytorch.rules.functions.convolution_integers import integer_convolution
from graphport.formats.pytorch.rules.functions.padding import padded
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.convolution import Conv, ConvTranspose, DeformConv
from graphport.ops.definitions.convolution.transposed import transposed_window
from graphport.ops.definitions.convolution.window import window
from graphport.ops.definitions.reshape import Reshape, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.lowering.windows import window_options
from graphport.ops.views.convolution import ConvTransposeView, ConvView

_ANY_LENGTH = 1024
_SIZES = ("in_channels", "out_channels", "kernel_size")


def _op_types(name: str, *, functional: str) -> list[str]:
    return [
        op_type for n in (1, 2, 3) for op_type in (f"nn.{name}{n}d", f"F.{functional}{n}d", f"aten::{functional}{n}d")
    ]


def batched(b: Builder, x: Value, rank: int) -> tuple[Value, bool]:
    """Add a batch axis of size 1 if `x` has none; return `x`, and whether the axis was added."""
    if len(b.dims(x)) != rank - 1:
        return x, False
    return b(Unsqueeze, x, [0]), True


def unbatched(b: Builder, y: Value, *, is_added: bool) -> Value:
    """Remove the batch axis that `batched` added."""
    return b(Squeeze, y, [0]) if is_added else y


@emits(*_op_types("Conv", functional="conv"), ignores=_SIZES)
def conv(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
    padding_mode: str = "zeros",
) -> Value:
    kernel = [length(b.dims(weight), axis) for axis in range(2, len(b.dims(weight)))]
    count = len(kernel)
    dilations, strides = integers(dilation, count), integers(stride, count)
    if isinstance(padding, str):
        reach = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, kernel, strict=True)]
        pairs = [(each // 2, each - each // 2) for each in reach]
    else:
        pairs = [(p, p) for p in integers(padding, count)]
    x, is_added = batched(b, input, count + 2)
    if padding_mode != "zeros":
        x, pairs = padded(b, x, pairs, padding_mode), [(0, 0)] * count
    if dtype_of(x).is_integer:
        y = integer_convolution(
            b, x, weight, bias, strides=strides, dilations=dilations, pads=pairs, groups=int(scalar_of(groups))
        )
        return unbatched(b, y, is_added=is_added)
    y = b(
        Conv,
        x,
        weight,
        bias,
        strides=_unless(strides, 1),
        dilations=_unless(dilations, 1),
        pads=_unless((*(p for p, _ in pairs), *(q for _, q in pairs)), 0),
        group=_group(groups),
    )
    return unbatched(b, y, is_added=is_added)


def _group(groups: Any) -> int | None:
    return None if scalar_of(groups) == 1 else int(scalar_of(groups))


def _unless(numbers: tuple[int, ...], default: int) -> tuple[int, ...] | None:
    """Return the numbers, or `None` if all equal the default."""
    return None if all(n == default for n in numbers) else numbers


@emits(*_op_types("ConvTranspose", functional="conv_transpose"), ignores=_SIZES)
def conv_transpose(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: Any = 1,
    dilation: Any = 1,
    padding_mode: str = "zeros",
    output_size: Any = None,
) -> Value:
    if padding_mode != "zeros" or output_size is not None:
        message = f"unsupported: padding_mode={padding_mode}, output_size={output_size}; expected zeros and None"
        raise UnsupportedError(message)
    if dtype_of(input).is_integer:
        message = "transposed convolution of integers"
        raise UnsupportedError(message)
    count = len(b.dims(weight)) - 2
    pads, extra = integers(padding, count), integers(output_padding, count)
    strides = integers(stride, count)
    x, is_added = batched(b, input, count + 2)
    attributes: dict[str, Any] = {
        "strides": _unless(strides, 1),
        "dilations": _unless(integers(dilation, count), 1),
        "group": _group(groups),
    }
    if all(more < step for more, step in zip(extra, strides, strict=True)):
        attributes |= {"pads": _unless(pads * 2, 0), "output_padding": _unless(extra, 0)}
        return unbatched(b, b(ConvTranspose, x, weight, bias, **attributes), is_added=is_added)
    # Runtimes refuse output_padding >= stride; it is replaced by less cropping or by elements equal to the bias.
    ends = tuple(max(p - more, 0) for p, more in zip(pads, extra, strict=True))
    y = b(ConvTranspose, x, weight, pads=(*pads, *ends), **attributes)
    y = padded(b, y, [(0, max(more - p, 0)) for p, more in zip(pads, extra, strict=True)])
    if bias is not None:
        y = b(Add, y, b(Unsqueeze, bias, range(1, count + 1)))
    return unbatched(b, y, is_added=is_added)


@emits("aten::convolution", "aten::_convolution", ignores=("benchmark", "deterministic", "cudnn_enabled", "allow_tf32"))
def convolution(
    b: Builder,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    output_padding: Any,
    groups: Any,
    benchmark: Any = None,
    deterministic: Any = None,
    cudnn_enabled: Any = None,
    allow_tf32: Any = None,
) -> Value:
    del benchmark, deterministic, cudnn_enabled, allow_tf32
    if scalar_of(transposed):
        return conv_transpose(b, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(b, input, weight, bias, stride, padding, dilation, groups)


@emits("aten::_convolution_mode")
def convolution_mode(
    b: Builder, input: Value, weight: Value, bias: Value | None, stride: Any, padding: str, dilation: Any, groups: Any
) -> Value:
    """Convolution with padding `"same"` or `"valid"`."""
    return conv(b, input, weight, bias, stride, padding, dilation, groups)


@emits("torchvision.ops.DeformConv2d", "torchvision.ops.deform_conv2d", ignores=(*_SIZES,))
def deform_conv(
    b: Builder,
    input: Value,
    offset: Value,
    mask: Value | None = None,
    weight: Value | None = None,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
) -> Value:
    if weight is None:
        message = "the weight is missing"
        raise ShapeError(message)
    kernel = [length(b.dims(weight), axis) for axis in (2, 3)]
    return b(
        DeformConv,
        input,
        weight,
        offset,
        bias,
        mask,
        strides=integers(stride, 2),
        pads=integers(padding, 2) * 2,
        dilations=integers(dilation, 2),
        group=_group(groups),
        offset_group=length(b.dims(offset), 1) // (2 * kernel[0] * kernel[1]),
    )


@emits("nn.Unfold", "F.unfold", "aten::im2col")
def unfold(b: Builder, input: Value, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Value:
    """unfold (im2col) as a convolution with one-hot kernels."""
    height, width = integers(kernel_size, 2)
    x, is_added = batched(b, input, 4)
    channels = length(b.dims(x), 1)
    area = height * width
    bounded(area * area * channels)
    kernels = np.tile(np.eye(area).reshape(area, 1, height, width), (channels, 1, 1, 1))
    y = b(
        Conv,
        x,
        b.constant(kernels, dtype_of(x)),
        strides=integers(stride, 2),
        dilations=integers(dilation, 2),
        pads=integers(padding, 2) * 2,
        group=channels,
    )
    return unbatched(b, b(Reshape, y, [0, channels * area, -1]), is_added=is_added)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────

Axes = tuple[int, ...]


@ConvView.export_rule(DIALECT)
def export_conv(b: Builder, op: ConvView) -> Value | None:
    """Export Conv as a module for constant weights, else as a function; asymmetric padding is separate."""
    x = op.x
    dims, shape = b.dims(x), b.dims(op.w)
    count = len(shape) - 2
    if not 1 <= count <= 3:
        return None
    kernel = tuple(length(shape, axis) for axis in range(2, 2 + count))
    slid = window(dims[2:], kernel, **window_options(op))
    pairs = slid.padding
    if pairs is None:
        return None
    even = tuple(p for p, _ in pairs)
    if any(p != q or p < 0 for p, q in pairs):
        flat = tuple(n for pair in reversed(pairs) for n in pair)
        grown = [n + p + q for n, (p, q) in zip(dims[2:], pairs, strict=True)]
        x = called(
            b, "F.pad", TensorFact(dtype_of(x), (*dims[:2], *grown)), input=x, mode="constant", pad=flat, value_=None
        )
        even = (0,) * count
    stated: dict[str, Any] = {
        "stride": slid.strides,
        "padding": even,
        "dilation": slid.dilations,
        "groups": op.group,
    }
    return _module(b, f"Conv{count}d", f"conv{count}d", x, op.w, op.b, stated, op.group)


def _module(
    b: Builder, module: str, function: str, x: Value, w: Value, bias: Value | None, stated: dict[str, Any], group: int
) -> Value:
    weight, vector_ = weight_of(w), weight_of(bias)
    if weight is None or (bias is not None and vector_ is None):
        return called(b, f"F.{function}", input=x, weight=w, bias=bias, **stated)
    first, second, *kernel = weight.shape
    is_transposed = module.startswith("ConvTranspose")
    sizes = (first, second * group) if is_transposed else (second * group, first)
    weights: dict[str, Any] = {"@weight": weight} | ({} if vector_ is None else {"@bias": vector_})
    return called(
        b,
        f"nn.{module}",
        input=x,
        in_channels=sizes[0],
        out_channels=sizes[1],
        kernel_size=tuple(kernel),
        bias=bias is not None,
        padding_mode="zeros",
        **stated,
        **weights,
    )


@ConvTransposeView.export_rule(DIALECT)
def export_conv_transpose(b: Builder, op: ConvTransposeView) -> Value | None:
    """Export ConvTranspose with padding and output padding."""
    dims, shape = b.dims(op.x), b.dims(op.w)
    count = len(shape) - 2
    if not 1 <= count <= 3:
        return None
    kernel = tuple(length(shape, axis) for axis in range(2, 2 + count))
    # The cropping depends on the size only if the output shape is set.
    is_open = [isinstance(dim, Symbolic) and not op.output_shape for dim in dims[2:]]
    lengths = [_ANY_LENGTH if each else length(dims, axis) for axis, each in enumerate(is_open, 2)]
    geometry = transposed_window(lengths, kernel, **window_options(op))
    begin = tuple(p for p, _ in geometry.pads if isinstance(p, int))
    axes = zip(lengths, geometry.lengths, kernel, geometry.strides, geometry.dilations, begin, strict=False)
    extra = tuple(m - ((n - 1) * s + (k - 1) * d + 1 - 2 * p) for n, m, k, s, d, p in axes if isinstance(m, int))
    steps = zip(extra, geometry.strides, geometry.dilations, strict=False)
    if len(extra) < count or min(begin) < 0 or any(not 0 <= e < max(s, d) for e, s, d in steps):
        return None
    stated: dict[str, Any] = {
        "stride": geometry.strides,
        "padding": begin,
        "output_padding": extra,
        "dilation": geometry.dilations,
        "groups": op.group,
    }
    return _module(b, f"ConvTranspose{count}d", f"conv_transpose{count}d", op.x, op.w, op.b, stated, op.group)
