"""Export rules of convolutions to ATen."""

from __future__ import annotations

from typing import Any

from graphport.core.dims import Dim, Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import length
from graphport.formats.pytorch.rules.emitting import DIALECT, aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Sub
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.convolution.transposed import transposed_window
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.quantization import DequantizeLinear, QuantizeLinear
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes
from graphport.ops.lowering.windows import window_of, window_options
from graphport.ops.views.convolution import ConvIntegerView, ConvTransposeView, ConvView, QLinearConvView

_MAX_AXES = 3
_ANY_LENGTH = 64


def padded(b: Builder, x: Value, pairs: list[tuple[int, int]]) -> tuple[Value, tuple[int, ...]]:
    """Apply the asymmetric part of the padding to `x`; return it and the symmetric remainder."""
    if all(p == q and p >= 0 for p, q in pairs):
        return x, tuple(p for p, _ in pairs)
    begins, ends = zip(*pairs, strict=True)
    rank = len(b.dims(x)) - len(pairs)
    return b(Pad, x, [*[0] * rank, *begins, *[0] * rank, *ends]), (0,) * len(pairs)


@ConvView.export_rule(DIALECT)
def export_conv(b: Builder, op: ConvView) -> Value:
    """Export Conv; asymmetric padding is a separate Pad."""
    count = len(b.dims(op.w)) - 2
    if not 1 <= count <= _MAX_AXES:
        message = f"PyTorch has no convolution over {count} spatial axes"
        raise UnsupportedError(message)
    slid = window_of(op)
    begins, ends = (sizes(side, "padding") for side in zip(*slid.pads, strict=True))
    x, padding = padded(b, op.x, list(zip(begins, ends, strict=True)))
    own = dtype_of(op.x)
    operands = [x, op.w, op.b]
    if not own.is_floating:
        operands = [each if each is None else cast(b, each, DType.FLOAT64) for each in operands]
    y = aten(b, f"conv{count}d", *operands, slid.strides, padding, slid.dilations, op.group)
    return y if own.is_floating else cast(b, y, own)


@ConvTransposeView.export_rule(DIALECT)
def export_conv_transpose(b: Builder, op: ConvTransposeView) -> Value:
    """Export ConvTranspose; asymmetric padding is a slice of the unpadded result."""
    dims, shape = b.dims(op.x), b.dims(op.w)
    count = len(shape) - 2
    if not 1 <= count <= _MAX_AXES:
        message = f"PyTorch has no transposed convolution over {count} spatial axes"
        raise UnsupportedError(message)
    kernel = tuple(length(shape, axis) for axis in range(2, 2 + count))
    lengths = [_known_or_any(dim, is_fixed=bool(op.output_shape)) for dim in dims[2:]]
    geometry = transposed_window(lengths, kernel, **window_options(op))
    pads = [(p, q) for p, q in geometry.pads if isinstance(p, int) and isinstance(q, int)]
    sizes_after = [m for m in geometry.lengths if isinstance(m, int)]
    if len(pads) < count or len(sizes_after) < count:
        message = "the padding is not constant"
        raise UnsupportedError(message)
    begins = tuple(p for p, _ in pads)
    axes = zip(lengths, sizes_after, kernel, geometry.strides, geometry.dilations, begins, strict=True)
    extra = tuple(m - ((n - 1) * s + (k - 1) * d + 1 - 2 * p) for n, m, k, s, d, p in axes)
    steps = zip(extra, geometry.strides, geometry.dilations, strict=True)
    name = f"conv_transpose{count}d" + (".input" if count > 1 else "")
    rest: tuple[Any, ...] = (op.group, geometry.dilations)
    if min(begins) >= 0 and all(0 <= more < max(s, d) for more, s, d in steps):
        return aten(b, name, op.x, op.w, op.b, geometry.strides, begins, extra, *rest)
    # Convolve without padding, then crop or pad: negative pads crop.
    zeros = (0,) * count
    y = aten(b, name, op.x, op.w, None, geometry.strides, zeros, zeros, *rest)
    flat: list[int] = []
    for p, more in zip(reversed(begins), reversed(extra), strict=True):
        flat += [-p, more - p]
    y = aten(b, "constant_pad_nd", y, flat)
    if op.b is None:
        return y
    return aten(b, "add.Tensor", y, reshaped(b, op.b, [-1, *[1] * count]))


def _known_or_any(dim: Dim, *, is_fixed: bool) -> int:
    """Return a static size; an arbitrary one for open dims, because only `output_shape` makes padding depend on it."""
    if not isinstance(dim, Symbolic):
        return dim
    if is_fixed:
        message = "the spatial size of the input is not constant"
        raise UnsupportedError(message)
    return _ANY_LENGTH


@ConvIntegerView.export_rule(DIALECT)
def export_conv_integer(b: Builder, op: ConvIntegerView) -> Value:
    """Export ConvInteger in float64, in which sums of products of 8-bit integers are exact."""

    def centered(value: Value, zero: Value | None, axis: int | None) -> Value:
        wide = cast(b, value, DType.FLOAT64)
        if zero is None:
            return wide
        offset = cast(b, zero, DType.FLOAT64)
        if axis is not None and len(b.dims(zero)) == 1:
            shape = [1] * len(b.dims(value))
            shape[axis] = -1
            offset = reshaped(b, offset, shape)
        elif b.dims(zero):
            offset = reshaped(b, offset, [])
        return b(Sub, wide, offset)

    x = centered(op.x, op.x_zero_point, None)
    w = centered(op.w, op.w_zero_point, 0)
    y = b(
        Conv,
        x,
        w,
        auto_pad=op.auto_pad,
        dilations=op.dilations,
        group=op.group,
        kernel_shape=op.kernel_shape,
        pads=op.pads,
        strides=op.strides,
    )
    return cast(b, y, DType.INT32)


@QLinearConvView.export_rule(DIALECT)
def export_qlinear_conv(b: Builder, op: QLinearConvView) -> Value:
    """Export QLinearConv in float64: integer products are exact, and results rounded once."""
    x = b(DequantizeLinear, op.x, cast(b, op.x_scale, DType.FLOAT32), op.x_zero_point)
    w = b(DequantizeLinear, op.w, op.w_scale, op.w_zero_point, axis=0)
    bias = None
    if op.b is not None:
        from graphport.ops.definitions.arithmetic import Mul

        bias = b(Mul, cast(b, op.b, DType.FLOAT32), b(Mul, op.x_scale, op.w_scale))
    y = b(
        Conv,
        x,
        w,
        bias,
        auto_pad=op.auto_pad,
        dilations=op.dilations,
        group=op.group,
        kernel_shape=op.kernel_shape,
        pads=op.pads,
        strides=op.strides,
    )
    return b(QuantizeLinear, y, op.y_scale, op.y_zero_point)
