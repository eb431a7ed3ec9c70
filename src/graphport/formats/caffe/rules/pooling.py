"""Pooling in Caffe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.formats.caffe.rules.binding import Layer, in_caffe, layer
from graphport.formats.caffe.rules.rule_table import RULES
from graphport.formats.caffe.rules.windows import Frame, emitted_window, frame
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.decompositions.pooling_by_position import position_sensitive_mean
from graphport.ops.definitions.arithmetic import Add, Mod
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.convolution.window import integer_dims
from graphport.ops.definitions.pooling import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from graphport.ops.definitions.pooling.regions import MaxUnpool
from graphport.ops.definitions.reshape import Flatten
from graphport.ops.definitions.reshape.pieces import Concat
from graphport.ops.lowering.operands import sizes
from graphport.ops.lowering.windows import window_of
from graphport.ops.views.pooling import AveragePoolView, MaxPoolView

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


@layer("Pooling", "pooling_param")
def pooling(
    at: Layer,
    *,
    pool: str = "MAX",
    kernel_size: int | None = None,
    kernel_h: int | None = None,
    kernel_w: int | None = None,
    pad: int | None = None,
    pad_h: int | None = None,
    pad_w: int | None = None,
    stride: int | None = None,
    stride_h: int | None = None,
    stride_w: int | None = None,
    global_pooling: bool = False,
    round_mode: str = "CEIL",
    ceil_mode: bool = True,
) -> tuple[Value, ...]:
    """Max or average pooling; with ceiling, the last window may be partial. A second top has the indices of maxima."""
    dims = at.dims()
    if pool not in ("MAX", "AVE"):
        message = f"pooling method {pool}"
        raise UnsupportedError(message)
    if len(dims) != 4:
        message = f"pooling over {len(dims)} axes"
        raise ShapeError(message, "4: batch, channels, height, width")
    if global_pooling:
        if kernel_size or kernel_h or kernel_w:
            message = "global_pooling with kernel_size"
            raise ShapeError(message, "remove kernel_size: the window covers the whole image")
        if any((pad, pad_h, pad_w)) or any(step not in (None, 1) for step in (stride, stride_h, stride_w)):
            message = "global_pooling with padding or a stride"
            raise ShapeError(message, "pad: 0 and stride: 1")
        if at.tops == 1:
            return (at.b(GlobalMaxPool if pool == "MAX" else GlobalAveragePool, at.x),)
        height, width = sizes(dims[2:], "an image")
        kernel_size, kernel_h, kernel_w = None, height, width
    window = frame(
        2,
        kernel=(_as_tuple(kernel_size), kernel_h, kernel_w),
        pad=(_as_tuple(pad), pad_h, pad_w),
        stride=(_as_tuple(stride), stride_h, stride_w),
    )
    return _pooled(at, pool, window, is_ceil=round_mode != "FLOOR" and ceil_mode)


def _as_tuple(entry: int | None) -> tuple[int, ...]:
    return () if entry is None else (entry,)


def _pooled(at: Layer, pool: str, window: Frame, *, is_ceil: bool) -> tuple[Value, ...]:
    if any(pad >= kernel for pad, kernel in zip(window.pad, window.kernel, strict=True)):
        message = f"pad {window.pad} is not less than the kernel {window.kernel}"
        raise ShapeError(message)
    if is_ceil and not any(window.pad):
        _check_overhang(at.dims()[2:], window)
    stated = window.attributes() | {"dilations": None, "ceil_mode": 1 if is_ceil else None}
    if pool == "AVE":
        counts = 1 if any(window.pad) else None
        return (at.b(AveragePool, at.x, count_include_pad=counts, **stated),)
    if at.tops == 1:
        return (at.b(MaxPool, at.x, **stated),)
    y, indices = at.b.results(MaxPool, 2, at.x, **stated)
    height, width = sizes(at.dims()[2:], "an image")
    # ONNX's indices refer to the whole tensor, Caffe's to one feature map.
    within = at.b(Mod, indices, height * width)
    return y, at.b(Cast, within, to=DType.FLOAT32)


def _check_overhang(dims: tuple[Dim, ...], window: Frame) -> None:
    """Refuse windows that begin after the last element, which Caffe creates without padding."""
    for n, kernel, stride in zip(dims, window.kernel, window.stride, strict=True):
        if stride <= kernel:
            continue
        if not isinstance(n, int) or -(-(n - kernel) // stride) * stride >= n:
            message = f"a window of {kernel} with stride {stride} that may be outside of the {n} elements"
            raise UnsupportedError(message)


@layer("SPP", "spp_param")
def spatial_pyramid_pooling(at: Layer, *, pyramid_height: int, pool: str = "MAX") -> Value:
    """Spatial pyramid pooling to 1, 4, 16, … cells, concatenated."""
    if pool not in ("MAX", "AVE"):
        message = f"pooling method {pool}"
        raise UnsupportedError(message)
    dims = sizes(at.dims()[2:], "an image")
    parts: list[Value] = []
    for level in range(pyramid_height):
        count = 1 << level
        kernel = tuple(-(-n // count) for n in dims)
        pads = tuple((k * count - n + 1) // 2 for k, n in zip(kernel, dims, strict=True))
        (y,) = _pooled(at, pool, Frame(kernel, pads, kernel, (1, 1)), is_ceil=True)
        parts.append(at.b(Flatten, y))
    return parts[0] if len(parts) == 1 else at.b(Concat, *parts, axis=1)


RULES.lower(
    """
# Maxima of regions; a region is the picture's number and two corners.
ROIPooling(x, regions, *, pooled_h=0, pooled_w=0, spatial_scale=1.0)
    -> MaxRoiPool(x, regions, pooled_shape=(pooled_h, pooled_w), spatial_scale=spatial_scale)
""",
    fields=("roi_pooling_param",),
)


@layer("PSROIPooling", "psroi_pooling_param", bottoms=2)
def psroi_pooling(at: Layer, *, spatial_scale: float, output_dim: int, group_size: int) -> Value:
    """Position-sensitive ROI pooling: each output cell is the mean of one cell of the region in its own channel."""
    channels = at.dims()[1] if len(at.dims()) == 4 else None
    if output_dim < 1 or group_size < 1 or channels != output_dim * group_size**2:
        message = f"{channels} feature maps, expected {output_dim} times {group_size} by {group_size}"
        raise ShapeError(message, "output_dim * group_size * group_size maps")
    return position_sensitive_mean(
        at.b, at.x, at.bottoms[1], output_dim=output_dim, group_size=group_size, spatial_scale=spatial_scale
    )


def unpooled(at: Layer, height: int, width: int) -> Value:
    """Scatter the first bottom into zeros by the indices in the second bottom."""
    batch, channels, *small = sizes(at.dims(), "an image")
    maps = np.arange(at.bounded(batch * channels), dtype=np.int64).reshape(batch, channels, 1, 1) * (height * width)
    indices = at.b(Add, at.b(Cast, at.bottoms[1], to=DType.INT64), at.b.constant(maps))
    scale = tuple(max(1, big // n) for big, n in zip((height, width), small, strict=True))
    shape = at.integers(batch, channels, height, width)
    return at.b(MaxUnpool, at.bottoms[0], indices, shape, kernel_shape=scale, strides=scale)


@MaxPoolView.export_rule("caffe")
def export_max_pool(b: Builder, op: MaxPoolView) -> tuple[Value, ...] | None:
    """Export MaxPool without indices."""
    if b.count > 1:
        return None
    return _emitted_pooling(b, op, "MAX")


@AveragePoolView.export_rule("caffe")
def export_average_pool(b: Builder, op: AveragePoolView) -> tuple[Value, ...]:
    """Export AveragePool whose mean includes padding."""
    if not op.count_include_pad and (any(op.pads or ()) or op.auto_pad in ("SAME_UPPER", "SAME_LOWER")):
        message = "average pooling that excludes the padding"
        raise UnsupportedError(message)
    return _emitted_pooling(b, op, "AVE")


def _emitted_pooling(b: Builder, op: AveragePoolView | MaxPoolView, pool: str) -> tuple[Value, ...]:
    kernel = op.kernel_shape
    if len(b.dims(op.x)) != 4 or any(step != 1 for step in op.dilations or ()):
        message = "only 2-D pooling without dilations is supported"
        raise UnsupportedError(message)
    slid = window_of(op)
    stated = emitted_window(slid)
    if any(p >= k for p, k in zip(integer_dims([begin for begin, _ in slid.pads]), kernel, strict=True)):
        message = "padding of at least the kernel size"
        raise UnsupportedError(message)
    ceiled = window_of(replace(op, ceil_mode=1))
    same = all(decide_equal(a, c) is True for a, c in zip(slid.lengths, ceiled.lengths, strict=True))
    if not any(stated["pad"] or ()) and any(s > k for s, k in zip(slid.strides, kernel, strict=True)):
        # Caffe rounds up to windows without elements here, ONNX does not.
        same = False
    rounded = None if same else "FLOOR"
    if rounded and op.ceil_mode:
        message = "a partial last window with a stride larger than the kernel"
        raise UnsupportedError(message)
    named = {name: stated[f"{name}_size" if name == "kernel" else name] for name in ("kernel", "pad", "stride")}
    parameters: dict[str, Any] = {}
    for name, entries in named.items():
        if entries is not None and len(entries) == 1:
            parameters["kernel_size" if name == "kernel" else name] = entries[0]
        elif entries is not None:
            parameters |= {f"{name}_h": entries[0], f"{name}_w": entries[1]}
    return in_caffe(b, "Pooling", op.x, pool=pool, round_mode=rounded, **parameters)


RULES.export_rules("""
GlobalAveragePool -> rank(x) == 4: Pooling(x, pool="AVE", global_pooling=True)
GlobalMaxPool -> rank(x) == 4: Pooling(x, pool="MAX", global_pooling=True)
""")
