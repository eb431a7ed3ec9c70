"""Export rules of convolutions and image operators to TFLite, which is channels-last."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dims import bounds, maximum
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.computed_sizes import size_table, size_vector
from graphport.formats.tflite.rules.emitting import (
    export_reals,
    ints,
    shaped,
    transposed_constant,
    zeros,
)
from graphport.formats.tflite.rules.rule_table import FLOAT_RULES
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.convolution import Conv, ConvTranspose
from graphport.ops.definitions.convolution.window import same_pads, window
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat
from graphport.ops.definitions.resize import GridSample
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of, reshaped, sizes, vector
from graphport.ops.lowering.windows import transposed_window_of, window_options
from graphport.ops.views.convolution import ConvTransposeView, ConvView, DeformConvView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


Exported: TypeAlias = "tuple[Value, ...] | None"
_IMAGE, _VOLUME = 4, 5
_MAX_GROUPS = 4096


def to_channels_last(b: Builder, x: Value) -> Value:
    return transposed_constant(b, x, (0, *range(2, len(b.dims(x))), 1))


def to_channels_first(b: Builder, x: Value) -> Value:
    rank = len(b.dims(x))
    return transposed_constant(b, x, (0, rank - 1, *range(1, rank - 1)))


def as_image(b: Builder, x: Value) -> tuple[Value, int]:
    """Return x [N, C, H, W] of a 1-D signal or an image, and its number of spatial axes.

    Raises:
        UnsupportedError: it has another rank.
    """
    rank = len(b.dims(x))
    if rank == _IMAGE - 1:
        batch, channels, length = b.dims(x, 3)
        return shaped(b, x, (batch, channels, 1, length)), 1
    if rank != _IMAGE:
        message = f"a window over {rank - 2} spatial axes, expected 1 or 2"
        raise UnsupportedError(message)
    return x, 2


def as_before(b: Builder, y: Value, count: int) -> Value:
    if count == 2:
        return y
    batch, channels, _, length = b.dims(y, 4)
    return shaped(b, y, (batch, channels, length))


def pair_of(numbers: Sequence[int], count: int, default: int = 1) -> tuple[int, int]:
    return (default, int(numbers[0])) if count == 1 else (int(numbers[0]), int(numbers[1]))


def slides(strides: Sequence[int], dilations: Sequence[int] = ()) -> dict[str, int]:
    """Return the TFLite options `stride_*` and `dilation_*_factor` of a window."""
    axes = "dhw"[-len(strides) :]
    gaps = {f"dilation_{axis}_factor": gap for axis, gap in zip(axes, dilations, strict=False)}
    return {f"stride_{axis}": step for axis, step in zip(axes, strides, strict=True)} | gaps


def as_image_window(b: Builder, x: Value, stated: dict[str, Any]) -> tuple[Value, int, dict[str, Any]]:
    """Return `x` as an image, the number of spatial axes, and the window attributes for an image."""
    x, count = as_image(b, x)
    pads = stated["pads"]
    pairs = {name: pair_of(stated[name] or (1, 1), count) for name in ("strides", "dilations")}
    return x, count, stated | pairs | {"pads": (0, pads[0], 0, pads[1]) if pads and count == 1 else pads}


def pad_window(b: Builder, x: Value, kernel: Sequence[int], stated: dict[str, Any], filler: float) -> tuple[Value, int]:
    """Return x [N, H, W, C], padded if no padding mode fits, and the padding mode: 0 SAME, 1 VALID."""
    if stated.get("auto_pad") == "SAME_UPPER" and not stated.get("ceil_mode"):
        # The padding modes are equal for all sizes.
        return x, 0
    dims = b.dims(x)[1:-1]
    slid = window(dims, kernel, **stated)
    pads = list(slid.pads)
    if stated.get("ceil_mode"):
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, slid.dilations, strict=True)]
        pads = [
            (begin, maximum(end, (out - 1) * s + r - n - begin))
            for (begin, end), out, s, r, n in zip(pads, slid.lengths, slid.strides, reach, dims, strict=True)
        ]
    if all(pair == (0, 0) for pair in pads):
        return x, 1
    axes = zip(dims, kernel, slid.strides, slid.dilations, strict=True)
    if pads == [same_pads(*each, "SAME_UPPER") for each in axes]:
        return x, 0
    if any((bounds(n)[0] or 0) < 0 for pair in pads for n in pair):
        message = "negative padding of a window, expected at least 0"
        raise UnsupportedError(message)
    table = size_table(b, [(0, 0), *pads, (0, 0)], x)
    if filler:
        return emit(b, "PADV2", x, table, b.like(x, filler)), 1
    return emit(b, "PAD", x, table), 1


@export_reals(ConvView)
def export_conv(b: Builder, op: ConvView) -> Exported:
    w, bias, stated = op.w, op.b, window_options(op)
    if dtype_of(op.x) is not DType.FLOAT32:
        return None
    if len(b.dims(op.x)) == _VOLUME and op.group == 1:
        x, count, stated = op.x, 2, stated | {"strides": op.strides or (1,) * 3, "dilations": op.dilations or (1,) * 3}
    else:
        x, count, stated = as_image_window(b, op.x, stated)
    if count == 1:
        maps, own, length = b.dims(w, 3)
        w = shaped(b, w, (maps, own, 1, length))
    maps, own, *kernel = sizes(b.dims(w), "the filters")
    if not maps:
        message = "no kernel supports zero-size results"
        raise UnsupportedError(message)
    (channels,) = sizes(b.dims(x)[1:2], "the channels")
    image, border = pad_window(b, to_channels_last(b, x), kernel, stated, 0)
    bias = bias if bias is not None else zeros(b, maps)
    options: dict[str, Any] = {"padding": border} | slides(stated["strides"], stated["dilations"])
    if op.group == channels and own == 1 and op.group > 1:
        op_type, perm, options = "DEPTHWISE_CONV_2D", (1, 2, 3, 0), {"depth_multiplier": maps // channels} | options
    else:
        op_type, perm = ("CONV_2D", (0, 2, 3, 1)) if len(kernel) == 2 else ("CONV_3D", (2, 3, 4, 1, 0))
    y = emit(b, op_type, image, transposed_constant(b, w, perm), bias, **options)
    return (as_before(b, to_channels_first(b, y), count),)


@export_reals(ConvTransposeView)
def export_conv_transpose(b: Builder, op: ConvTransposeView) -> Exported:
    """Export ConvTranspose: the full result, cropped by the padding."""
    x, w, bias = op.x, op.w, op.b
    if op.group != 1:
        return (_convolve_groups(b, (x, w, bias), op.group, window_options(op)),)
    if any(d != 1 for d in op.dilations or ()):
        w = _dilate_filters(b, w, op.dilations or ())
    if len(b.dims(x)) > _VOLUME or dtype_of(x) is not DType.FLOAT32:
        return None
    geometry = transposed_window_of(replace(op, w=w, dilations=None))
    given = b.dims(x)
    if len(given) == _IMAGE - 1:
        x, w = (shaped(b, each, (*b.dims(each)[:2], 1, *b.dims(each)[2:])) for each in (x, w))
    flat = len(b.dims(x)) - len(given)
    steps = (*[1] * flat, *geometry.strides)
    cut = [*[(0, 0)] * flat, *geometry.pads]
    _, maps, *kernel = sizes(b.dims(w), "the filters")
    batch, space = b.dims(x, at_least=1)[0], b.dims(x)[2:]
    lengths = [*[1] * flat, *geometry.lengths]
    full = [(n - 1) * s + k for n, s, k in zip(space, steps, kernel, strict=True)]
    whole = [maximum(f, out + first + last) for f, out, (first, last) in zip(full, lengths, cut, strict=True)]
    bias = bias if bias is not None else zeros(b, maps)
    image = to_channels_last(b, x)
    shape = size_vector(b, [batch, *whole, maps], x)
    op_type, perm = ("TRANSPOSE_CONV", (1, 2, 3, 0)) if len(kernel) == 2 else ("CONV_3D_TRANSPOSE", (2, 3, 4, 1, 0))
    options = {"padding": 1} | slides(steps, (1, 1, 1) if len(kernel) == 3 else ())
    y = emit(b, op_type, shape, transposed_constant(b, w, perm), image, bias, **options)
    if y.shape is None:
        y.fact = TensorFact(DType.FLOAT32, (batch, *whole, maps))
    if whole != lengths:
        begins = [first for first, _ in cut]
        every = batch if isinstance(batch, int) else -1
        y = emit(b, "SLICE", y, size_vector(b, [0, *begins, 0], x), size_vector(b, [every, *lengths, maps], x))
    y = to_channels_first(b, y)
    return (shaped(b, y, (*b.dims(y)[:2], *b.dims(y)[3:])) if flat else y,)


def _convolve_groups(
    b: Builder, operands: tuple[Value, Value, Value | None], group: int, stated: dict[str, Any]
) -> Value:
    """Convolve each group of channels with its own filters."""
    x, w, bias = operands
    (channels, own) = (*sizes(b.dims(w)[:1], "the filters"), *sizes(b.dims(w)[1:2], "the filters"))
    parts: list[Value] = []
    if group > _MAX_GROUPS:
        message = f"{group} groups as separate convolutions"
        raise UnsupportedError(message)
    for place in range(group):
        rows = place * channels // group, (place + 1) * channels // group
        taken = [b(Slice, each, rows[:1], rows[1:], [axis]) for each, axis in ((x, 1), (w, 0))]
        if bias is not None:
            maps = vector(b, [place * own]), vector(b, [(place + 1) * own])
            taken.append(b(Slice, bias, *maps, vector(b, [0])))
        parts.append(b(ConvTranspose, *taken, **stated))
    return b(Concat, *parts, axis=1)


def _dilate_filters(b: Builder, w: Value, gaps: Sequence[int]) -> Value:
    """Insert gaps[i] - 1 zeros between filter elements along spatial axis i.

    One axis at a time, because pad kernels support few axes.
    """
    dims = list(sizes(b.dims(w), "the filters"))
    for axis, gap in enumerate(gaps, len(dims) - len(gaps)):
        before, n, behind = prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :])
        padded = emit(b, "PAD", shaped(b, w, (before, n, 1, behind)), ints(b, [[0, 0], [0, 0], [0, gap - 1], [0, 0]]))
        dims[axis] = n * gap
        w = shaped(b, padded, dims)
    lengths = [*dims[: -len(gaps)], *(n - gap + 1 for n, gap in zip(dims[-len(gaps) :], gaps, strict=True))]
    return emit(b, "SLICE", w, ints(b, [0] * len(dims)), ints(b, lengths))


def _blocks_to_space(b: Builder, x: Value, blocksize: int) -> Value:
    """DepthToSpace with the block offsets before the channels (`DCR`/`CRD` reordering)."""
    batch, channels, height, width = b.dims(x, 4)
    (c,) = sizes((channels // blocksize**2,), "the channels")
    parts = shaped(b, x, (batch, c, blocksize, blocksize, height, width))
    moved = transposed_constant(b, parts, (0, 1, 4, 2, 5, 3))
    return shaped(b, moved, (batch, c, height * blocksize, width * blocksize))


FLOAT_RULES.having(by_channels=_blocks_to_space, first=to_channels_first, last=to_channels_last).export_rules("""
DepthToSpace
    -> mode == "DCR": first(DEPTH_TO_SPACE(last(input), block_size=blocksize))
    -> by_channels(input, blocksize)
SpaceToDepth -> first(SPACE_TO_DEPTH(last(input), block_size=blocksize))
LRN
    -> size % 2 == 1 and rank(x) == 4:
       first(LOCAL_RESPONSE_NORMALIZATION(last(x), radius=size // 2, alpha=alpha / size, beta=beta, bias=bias))
""")


@DeformConvView.export_rule("tflite")
def export_deform_conv(b: Builder, op: DeformConvView) -> Exported:
    """Export DeformConv: a 1x1 convolution over the samples of each window element, stacked as channels.

    Each offset group samples its channels as a separate image.
    """
    if len(b.dims(op.x)) != _IMAGE:
        message = f"a window over {len(b.dims(op.x)) - 2} spatial axes, expected 2"
        raise UnsupportedError(message)
    if dtype_of(op.x) is not DType.FLOAT32:
        return None
    batch, channels, height, width = sizes(b.dims(op.x), "the image")
    maps, own, *kernel = sizes(b.dims(op.w), "the filters")
    slid = window((height, width), kernel, dilations=op.dilations, pads=op.pads, strides=op.strides)
    out, taps, parts = sizes(slid.lengths, "the result"), prod(kernel), batch * op.offset_group
    moved = reshaped(b, op.offset, (parts, taps, 2, *out))
    spots: list[Value] = []
    # The grid has (x, y) order, offsets have (y, x) order.
    for axis in (1, 0):
        begin = sizes(slid.pads[axis], "padding")[0]
        along = np.arange(out[axis]) * slid.strides[axis] - begin
        first = along[None] + (np.indices(kernel)[axis].reshape(-1) * slid.dilations[axis])[:, None]
        positions = b.constant(first.astype(np.float32)[:, :, None] if axis == 0 else first.astype(np.float32)[:, None])
        at = b(Add, b(Gather, moved, axis, axis=2), positions)
        # Convert pixel positions to grid coordinates, in which the image spans -1 to 1.
        n = (height, width)[axis]
        unit = b(Add, b(Mul, at, b.like(at, 2 / n)), b.like(at, 1 / n - 1))
        spots.append(reshaped(b, unit, (parts, taps * out[0], out[1], 1)))
    grid = b(Concat, *spots, axis=-1)
    image = reshaped(b, op.x, (parts, channels // op.offset_group, height, width))
    seen = b(GridSample, image, grid, align_corners=0, mode="linear", padding_mode="zeros")
    if op.mask is not None:
        seen = b(Mul, seen, b(Unsqueeze, reshaped(b, op.mask, (parts, taps * out[0], out[1])), [1]))
    columns = reshaped(b, seen, (batch, channels * taps, *out))
    return (b(Conv, columns, reshaped(b, op.w, (maps, own * taps, 1, 1)), op.b, group=op.group, kernel_shape=(1, 1)),)
