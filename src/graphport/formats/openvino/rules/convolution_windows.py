"""Convolutions in OpenVINO: sums of products under a sliding window, of signs, too."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN
from graphport.formats.openvino.rules.convolution_extents import Vectors, same_padding, spatial
from graphport.formats.openvino.rules.emitting import emitted_cast, emitted_reshape
from graphport.formats.openvino.rules.matmul import check_exact, requantized, shifted
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Mul, Sub
from graphport.ops.definitions.comparison import Greater, Where
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.convolution.window import Window, window
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, vector
from graphport.ops.lowering.windows import Convolution, padding_of, window_options
from graphport.ops.view import Attributes
from graphport.ops.views.convolution import ConvIntegerView, ConvView, QLinearConvView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported

_AUTO = {"valid": "VALID", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER"}


def borders(
    rank: int,
    strides: Sequence[int],
    pads_begin: Sequence[int],
    pads_end: Sequence[int],
    dilations: Sequence[int],
    auto_pad: str,
) -> dict[str, Any]:
    """Return a window's attributes in ONNX's form; defaults are `None`.

    Raises:
        ShapeError: an attribute has not one entry per axis.
        UnsupportedError: unknown `auto_pad`.
    """
    is_explicit = auto_pad in ("explicit", "notset")
    check_entries(rank, strides=strides, dilations=dilations)
    if is_explicit:
        check_entries(rank, pads_begin=pads_begin, pads_end=pads_end)
    stated = steps(strides, dilations)
    if is_explicit:
        pads = (*(pads_begin or (0,) * rank), *(pads_end or (0,) * rank))
        return stated | {"pads": pads if any(pads) else None}
    if auto_pad not in _AUTO:
        message = f"auto_pad is {auto_pad!r}"
        raise UnsupportedError(message)
    return stated | {"auto_pad": _AUTO[auto_pad]}


def steps(strides: Sequence[int], dilations: Sequence[int]) -> dict[str, Any]:
    """Return strides and dilations as ONNX attributes, `None` where all are 1."""
    return {
        "strides": tuple(strides) if any(s != 1 for s in strides) else None,
        "dilations": tuple(dilations) if any(d != 1 for d in dilations) else None,
    }


def check_entries(rank: int, **lists: Sequence[int]) -> None:
    """Refuse window attributes whose length is not the number of spatial axes; an empty list is the default.

    Raises:
        ShapeError: one has.
    """
    for name, given in lists.items():
        if given and len(given) != rank:
            message = f"{name} {tuple(given)} has {len(given)} entries for {rank} spatial axes"
            raise ShapeError(message, f"give {rank} values")


def convolved(b: Builder, x: Value, w: Value, group: int, stated: dict[str, Any]) -> Value:
    """Convolve with a window given as ONNX attributes; negative padding is cropped first.

    For integers the plugin sums in float32 and saturates to the type.
    """
    dtype = dtype_of(x)
    if dtype in _INTEGERS:
        real = convolved(b, cast(b, x, DType.FLOAT32), cast(b, w, DType.FLOAT32), group, stated)
        return cast(b, _within(b, real, dtype), dtype)
    kernel = tuple(dim for dim in b.dims(w)[2:] if isinstance(dim, int))
    known = kernel if len(kernel) == len(b.dims(w)) - 2 else None
    if stated.get("auto_pad") in ("SAME_UPPER", "SAME_LOWER") and stated["dilations"]:
        # Not every runtime supports automatic padding with dilations.
        stated = with_numbers(b, x, b.dims(w)[2:], stated) or stated
        if stated["auto_pad"] and known is not None:
            x, stated = _padded(b, x, known, stated), stated | {"auto_pad": None}
    pads = stated.get("pads")
    if pads and min(pads) < 0:
        x, stated = cropped(b, x, pads), stated | {"pads": None}
    return b(Conv, x, w, group=group, kernel_shape=known, **stated)


_INTEGERS = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.INT64)


def _within(b: Builder, real: Value, dtype: DType) -> Value:
    if dtype.bits > _EXACT:
        return real
    limits = np.iinfo(dtype.numpy)
    return b(Clip, real, b.like(real, int(limits.min)), b.like(real, int(limits.max)))


_EXACT = 16
"""Bits of integers that float32 has all of."""


def with_numbers(b: Builder, x: Value, kernel: Sequence[Dim], stated: dict[str, Any]) -> dict[str, Any] | None:
    """Replace automatic padding by explicit pads; `None` if the sizes are not static."""
    slid = window(b.dims(x)[2:], kernel, **stated)
    pads = [pad for pair in zip(*slid.pads, strict=True) for pad in pair]
    known = tuple(pad for pad in pads if isinstance(pad, int))
    return stated | {"auto_pad": None, "pads": known} if len(known) == len(pads) else None


def _padded(b: Builder, x: Value, kernel: Sequence[int], stated: dict[str, Any]) -> Value:
    """Pad `x` by amounts computed at run time."""
    rank = len(kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, stated["dilations"], strict=True)]
    strides, is_upper = stated["strides"] or (1,) * rank, stated["auto_pad"] == "SAME_UPPER"
    sides = same_padding(b, spatial(b, x, len(reach)), reach, strides, is_upper=is_upper)
    none, values = vector(b, [0, 0]), [Vectors(b).value(side) for side in sides]
    return b(Pad, x, b(Concat, none, values[0], none, values[1], axis=0))


def cropped(b: Builder, x: Value, pads: Sequence[int]) -> Value:
    """Pad `x` with zeros, or crop it where pads are negative; order (begins…, ends…)."""
    rank = len(pads) // 2
    return b(Pad, x, [0, 0, *pads[:rank], 0, 0, *pads[rank:]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding(Attributes):
    """Window attributes of all convolutions."""

    strides: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    dilations: tuple[int, ...]
    auto_pad: str = "explicit"

    def borders(self, rank: int) -> dict[str, Any]:
        """Return the window's attributes in ONNX's form."""
        return borders(rank, self.strides, self.pads_begin, self.pads_end, self.dilations, self.auto_pad)


@Sliding.lower("openvino", "opset1.Convolution", reads_facts_alone=True)
def convolution(b: Builder, op: Sliding, x: Value, filters: Value) -> Value:
    """Convolution without groups."""
    return convolved(b, x, filters, 1, op.borders(len(b.dims(filters)) - 2))


@Sliding.lower("openvino", "opset1.GroupConvolution")
def group_convolution(b: Builder, op: Sliding, x: Value, filters: Value) -> Value:
    """Grouped convolution; filters have a leading axis of groups."""
    group, *_ = sizes(b.dims(filters, at_least=1)[:1], "the number of groups")
    return convolved(b, x, joined_groups(b, filters), group, op.borders(len(b.dims(filters)) - 3))


def joined_groups(b: Builder, filters: Value) -> Value:
    """Merge the axis of groups into the first axis: [G, A, B, *k] to [G * A, B, *k]."""
    group, first, *rest = sizes(b.dims(filters, at_least=2), "the shape of grouped filters")
    return reshaped(b, filters, [group * first, *rest])


def window_words(slid: Window, auto_pad: str) -> dict[str, Any]:
    """Return a window's attributes in OpenVINO's form.

    Raises:
        UnsupportedError: the window has more than three axes, or padding that is not static.
    """
    rank = len(slid.strides)
    check_space(rank)
    words: dict[str, Any] = {"strides": slid.strides, "dilations": slid.dilations}
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return words | {"pads_begin": (0,) * rank, "pads_end": (0,) * rank, "auto_pad": auto_pad.lower()}
    begins, ends = padding_of(slid)
    return words | {"pads_begin": begins, "pads_end": ends, "auto_pad": "explicit"}


def biased(b: Builder, y: Value, bias: Value | None, rank: int) -> Value:
    """Add a per-channel bias to `y`, which has `rank` spatial axes."""
    if bias is None:
        return y
    return emit(b, "opset1.Add", y, emitted_reshape(b, bias, (1, -1, *[1] * rank)))


def check_space(rank: int) -> None:
    """Refuse windows over more than three axes.

    Raises:
        UnsupportedError: there are more than three.
    """
    if rank > 3:
        message = f"a window over {rank} axes; OpenVINO supports 1 to 3"
        raise UnsupportedError(message)


def slid_over(x: Value, rank: int) -> Sequence[Dim]:
    """Return the spatial dims of `x`, symbolic if the rank is unknown."""
    known = x.shape
    return (OPEN,) * rank if known is None else known[2:]


def _emitted_conv(b: Builder, x: Value, w: Value, op: Convolution) -> Value:
    rank = len(b.dims(w)) - 2
    slid = window(slid_over(x, rank), b.dims(w)[2:], **window_options(op))
    return emitted_by_group(b, "Convolution", x, w, op.group, window_words(slid, op.auto_pad))


def emitted_by_group(b: Builder, op_type: str, x: Value, w: Value, group: int, words: dict[str, Any]) -> Value:
    """Emit a convolution, or its Group variant, whose filters have a leading group axis."""
    if group == 1:
        return emit(b, f"opset1.{op_type}", x, w, **words)
    maps, *rest = sizes(b.dims(w, at_least=1), "the shape of grouped filters")
    return emit(b, f"opset1.Group{op_type}", x, emitted_reshape(b, w, [group, maps // group, *rest]), **words)


@ConvView.export_rule("openvino")
def export_conv(b: Builder, op: ConvView) -> Exported:
    return (biased(b, _emitted_conv(b, op.x, op.w, op), op.b, len(b.dims(op.w)) - 2),)


@ConvIntegerView.export_rule("openvino")
def export_conv_integer(b: Builder, op: ConvIntegerView) -> Exported:
    """Export ConvInteger in float32, which represents sums of a few hundred byte products exactly."""
    check_exact(b.dims(op.w)[1:])
    left, right = shifted(b, op.x, op.x_zero_point), shifted(b, op.w, _per_map(b, op.w_zero_point, op.w))
    return (emitted_cast(b, _emitted_conv(b, left, right, op), DType.INT32),)


def _per_map(b: Builder, parameter: Value | None, w: Value) -> Value | None:
    """Reshape one element per output channel to broadcast with the filters."""
    if parameter is None or b.dims(parameter) in ((), (1,)):
        return parameter
    return emitted_reshape(b, parameter, (-1, *[1] * (len(b.dims(w)) - 1)))


@QLinearConvView.export_rule("openvino")
def export_qlinear_conv(b: Builder, op: QLinearConvView) -> Exported:
    if not dtype_of(op.y_zero_point).is_integer:
        return None
    check_exact(b.dims(op.w)[1:])
    right = shifted(b, op.w, _per_map(b, op.w_zero_point, op.w))
    total = _emitted_conv(b, shifted(b, op.x, op.x_zero_point), right, op)
    if op.b is not None:
        total = biased(b, total, emitted_cast(b, op.b, DType.FLOAT32), len(b.dims(op.w)) - 2)
    scale = op.w_scale
    if b.dims(scale) not in ((), (1,)):
        scale = emitted_reshape(b, scale, (1, -1, *[1] * (len(b.dims(op.w)) - 2)))
    factor = emit(b, "opset1.Divide", emit(b, "opset1.Multiply", scale, op.x_scale), op.y_scale)
    return (requantized(b, emit(b, "opset1.Multiply", total, factor), op.y_zero_point),)


@Sliding.lower("openvino", "opset1.BinaryConvolution")
def binary_convolution(b: Builder, op: Sliding, x: Value, filters: Value, *, mode: str, pad_value: float) -> Value:
    """Binary convolution: the sum of products of values and filters in {1, -1}.

    A number above 0 is 1, any other -1; padding contributes 0.

    Raises:
        UnsupportedError: the mode is another, or the filters do not fill their last byte.
    """
    if mode != "xnor-popcount":
        message = f"a binary convolution of mode {mode!r}"
        raise UnsupportedError(message)
    dtype = dtype_of(x)
    # One byte per value: only floats can be negative.
    signs = b(Where, b(Greater, x, 0), b.constant(np.float32(1)), b.constant(np.float32(-1)))
    bits = cast(b, _lowest_first(b, filters), DType.FLOAT32)
    weights = b(Sub, b(Mul, bits, 2), 1)
    stated = op.borders(len(b.dims(filters)) - 2)
    if pad_value != 0:
        slid = window(b.dims(x)[2:], b.dims(filters)[2:], **stated)
        starts, stops = padding_of(slid)
        edge = b.constant(np.float32(1 if pad_value == 1 else -1))
        signs = b(Pad, signs, [0, 0, *starts, 0, 0, *stops], edge)
        stated |= {"pads": None, "auto_pad": None}
    return cast(b, b(Conv, signs, weights, **stated), dtype)


def _lowest_first(b: Builder, filters: Value) -> Value:
    """Reverse the bits of each filter byte.

    All other operations count `u1` from the highest bit; the plugin's convolution counts from the lowest, in every
    kernel.
    """
    shape = sizes(b.dims(filters), "the shape of binary filters")
    count = prod(shape)
    if count % 8:
        message = f"binary filters of {count} bits, expected a multiple of 8"
        raise UnsupportedError(message)
    swapped = b(Gather, reshaped(b, filters, [count // 8, 8]), range(7, -1, -1), axis=1)
    return reshaped(b, swapped, shape)
