"""Windows and images in TFLite: what slides or is resized has its channels last there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.convolution import Conv, ConvTranspose
from graphport.ops.convolution.window import window
from graphport.ops.declare import UnsupportedError
from graphport.ops.inner import say
from graphport.ops.normalization.norms import LRN
from graphport.ops.operands import dtype_of, integers, reals, sizes
from graphport.ops.pooling import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from graphport.ops.reshape.blocks import DepthToSpace, SpaceToDepth
from graphport.ops.resize import Resize
from graphport.ops.tflite_words import ints, shaped, turned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_IMAGE, _VOLUME = 4, 5


def _last(b: Builder, x: Value) -> Value:
    return turned(b, x, (0, *range(2, len(b.dims(x))), 1))


def _first(b: Builder, x: Value) -> Value:
    rank = len(b.dims(x))
    return turned(b, x, (0, rank - 1, *range(1, rank - 1)))


def _as_image(b: Builder, x: Value) -> tuple[Value, int]:
    """x [N, C, H, W] of a signal or an image, and how many spatial axes it has.

    Raises:
        UnsupportedError: it has others.
    """
    rank = len(b.dims(x))
    if rank == _IMAGE - 1:
        batch, channels, length = b.dims(x)
        return shaped(b, x, (batch, channels, 1, length)), 1
    if rank != _IMAGE:
        message = f"a window over {rank - 2} axes"
        raise UnsupportedError(message)
    return x, 2


def _as_before(b: Builder, y: Value, count: int) -> Value:
    if count == 2:
        return y
    batch, channels, _, length = b.dims(y)
    return shaped(b, y, (batch, channels, length))


def _pair(numbers: Sequence[int], count: int, default: int = 1) -> tuple[int, int]:
    return (default, int(numbers[0])) if count == 1 else (int(numbers[0]), int(numbers[1]))


def _same(dims: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Any:
    """The padding that SAME stands for; `None` where an extent is open."""
    found: list[tuple[int, int]] = []
    for n, k, s, d in zip(dims, kernel, strides, dilations, strict=True):
        reach = (k - 1) * d + 1
        if not isinstance(n, int) and s != 1:
            return None
        total = reach - 1 if not isinstance(n, int) else max(0, (-(-n // s) - 1) * s + reach - n)
        found.append((total // 2, total - total // 2))
    return found


def _border(b: Builder, x: Value, kernel: Sequence[int], said: dict[str, Any], filler: float) -> tuple[Value, int]:
    """x [N, H, W, C], padded where there is no word for that, and the word for the rest: 0 SAME, 1 VALID."""
    dims = b.dims(x)[1:-1]
    slid = window(dims, kernel, **said)
    pads = [tuple(sizes(pair, "padding")) for pair in slid.pads]
    if said.get("ceil_mode"):
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, slid.dilations, strict=True)]
        lengths, extents = sizes(slid.lengths, "the result"), sizes(dims, "the image")
        pads = [
            (begin, max(end, (out - 1) * s + r - n - begin))
            for (begin, end), out, s, r, n in zip(pads, lengths, slid.strides, reach, extents, strict=True)
        ]
    if not any(map(any, pads)):
        return x, 1
    same = _same(dims, kernel, slid.strides, slid.dilations)
    if same is not None and [tuple(pair) for pair in same] == pads:
        return x, 0
    if min(min(pair) for pair in pads) < 0:
        message = "padding takes away"
        raise UnsupportedError(message)
    table = ints(b, [[0, 0], *map(list, pads), [0, 0]])
    if filler:
        return say(b, "PADV2", x, table, b.like(x, filler)), 1
    return say(b, "PAD", x, table), 1


@Conv.lift("tflite")
def lift_conv(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    del kernel_shape
    if dtype_of(x) is not DType.FLOAT32:
        return None
    if len(b.dims(x)) == _VOLUME and group == 1:
        said = {"auto_pad": auto_pad, "dilations": dilations, "pads": pads, "strides": strides}
        return _in_volumes(b, x, w, bias, said)
    x, count = _as_image(b, x)
    if count == 1:
        maps, own, length = b.dims(w)
        w = shaped(b, w, (maps, own, 1, length))
        pads = (0, pads[0], 0, pads[1]) if pads else None
    steps, gaps = _pair(strides or (1, 1), count), _pair(dilations or (1, 1), count)
    maps, own, *kernel = sizes(b.dims(w), "the filters")
    (channels,) = sizes(b.dims(x)[1:2], "the channels")
    said = {"auto_pad": auto_pad, "dilations": gaps, "pads": pads, "strides": steps}
    image, border = _border(b, _last(b, x), kernel, said, 0)
    bias = bias if bias is not None else b.constant(np.zeros(maps, np.float32))
    options: dict[str, Any] = {"padding": border, "stride_h": steps[0], "stride_w": steps[1]}
    options |= {"dilation_h_factor": gaps[0], "dilation_w_factor": gaps[1]}
    if group == channels and own == 1 and group > 1:
        filters = turned(b, w, (1, 2, 3, 0))
        y = say(b, "DEPTHWISE_CONV_2D", image, filters, bias, depth_multiplier=maps // channels, **options)
    else:
        y = say(b, "CONV_2D", image, turned(b, w, (0, 2, 3, 1)), bias, **options)
    return (_as_before(b, _first(b, y), count),)


def _in_volumes(b: Builder, x: Value, w: Value, bias: Value | None, said: dict[str, Any]) -> Lifted:
    """Filters [depth, height, width, channels, maps]."""
    maps, _, *kernel = sizes(b.dims(w), "the filters")
    image, border = _border(b, _last(b, x), kernel, said, 0)
    bias = bias if bias is not None else b.constant(np.zeros(maps, np.float32))
    options: dict[str, Any] = {"padding": border}
    for axis, step, gap in zip("dhw", said["strides"] or (1,) * 3, said["dilations"] or (1,) * 3, strict=True):
        options |= {f"stride_{axis}": step, f"dilation_{axis}_factor": gap}
    return (_first(b, say(b, "CONV_3D", image, turned(b, w, (2, 3, 4, 1, 0)), bias, **options)),)


@ConvTranspose.lift("tflite")
def lift_conv_transpose(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    """The whole result, of which the padding is cut off."""
    del kernel_shape
    if group != 1 or any(d != 1 for d in dilations or ()) or output_shape or auto_pad not in ("NOTSET", "VALID"):
        message = "groups, gaps or a shape that is asked for"
        raise UnsupportedError(message)
    x, count = _as_image(b, x)
    if count == 1:
        channels, maps, length = b.dims(w)
        w = shaped(b, w, (channels, maps, 1, length))
        pads = (0, pads[0], 0, pads[1]) if pads else None
    steps = _pair(strides or (1, 1), count)
    more = _pair(output_padding or (0, 0), count, 0)
    _, maps, *kernel = sizes(b.dims(w), "the filters")
    batch, _, *space = sizes(b.dims(x), "what a transposed convolution reads")
    full = [(n - 1) * s + k for n, s, k in zip(space, steps, kernel, strict=True)]
    begins, ends = (pads or (0,) * 4)[:2], (pads or (0,) * 4)[2:]
    whole = [max(f, f + m) for f, m in zip(full, more, strict=True)]
    bias = bias if bias is not None else b.constant(np.zeros(maps, np.float32))
    shape = ints(b, [batch, *whole, maps])
    y = say(
        b,
        "TRANSPOSE_CONV",
        shape,
        turned(b, w, (1, 2, 3, 0)),
        _last(b, x),
        bias,
        padding=1,
        stride_h=steps[0],
        stride_w=steps[1],
    )
    if any(begins) or any(ends):
        sized = [n - p - q for n, p, q in zip(whole, begins, ends, strict=True)]
        y = say(b, "SLICE", y, ints(b, [0, *begins, 0]), ints(b, [batch, *sized, maps]))
    return (_as_before(b, _first(b, y), count),)


def _pool(
    b: Builder, word: str, x: Value, kernel: Sequence[int], said: dict[str, Any], filler: float
) -> tuple[Value, int]:
    steps = said["strides"]
    image, border = _border(b, _last(b, x), kernel, said, filler)
    options = {"padding": border, "stride_h": steps[0], "stride_w": steps[1]}
    options |= {"filter_height": kernel[0], "filter_width": kernel[1]}
    return say(b, word, image, **options), border


def _pool_window(
    b: Builder, x: Value, kernel_shape: Sequence[int], said: dict[str, Any]
) -> tuple[Value, int, tuple[int, int], dict[str, Any]]:
    if any(d != 1 for d in said["dilations"] or ()):
        message = "a pool with gaps"
        raise UnsupportedError(message)
    x, count = _as_image(b, x)
    pads = said["pads"]
    pads = (0, pads[0], 0, pads[1]) if pads and count == 1 else pads
    steps = _pair(said["strides"] or (1, 1), count)
    return x, count, _pair(kernel_shape, count), said | {"pads": pads, "strides": steps, "dilations": None}


@MaxPool.lift("tflite")
def lift_max_pool(
    b: Builder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    storage_order: int = 0,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    del storage_order
    if b.count > 1 or dtype_of(x) is not DType.FLOAT32:
        return None
    said = {"auto_pad": auto_pad, "ceil_mode": ceil_mode, "dilations": dilations, "pads": pads, "strides": strides}
    x, count, kernel, said = _pool_window(b, x, kernel_shape, said)
    y, _ = _pool(b, "MAX_POOL_2D", x, kernel, said, float(np.finfo(np.float32).min))
    return (_as_before(b, _first(b, y), count),)


@AveragePool.lift("tflite")
def lift_average_pool(
    b: Builder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Lifted:
    """Where padding does not count and there is no word for it, divided by the share of the window that is inside."""
    if dtype_of(x) is not DType.FLOAT32 or (ceil_mode and count_include_pad):
        return None
    said = {"auto_pad": auto_pad, "ceil_mode": ceil_mode, "dilations": dilations, "pads": pads, "strides": strides}
    x, count, kernel, said = _pool_window(b, x, kernel_shape, said)
    if count_include_pad and any(said["pads"] or ()):
        pads4 = said["pads"]
        table = ints(b, [[0, 0], [0, 0], [pads4[0], pads4[2]], [pads4[1], pads4[3]]])
        x, said = say(b, "PAD", x, table), said | {"pads": None}
    y, border = _pool(b, "AVERAGE_POOL_2D", x, kernel, said, 0)
    is_padded = y.producer is not None and y.producer.operands[0].producer is not None
    before = y.producer.operands[0].producer if is_padded and y.producer is not None else None
    if border == 1 and before is not None and before.word == "PAD" and not count_include_pad:
        extents = sizes(b.dims(x)[2:], "the image")
        ones = b.constant(np.ones((1, 1, *extents), np.float32))
        share, _ = _pool(b, "AVERAGE_POOL_2D", ones, kernel, said, 0)
        y = say(b, "DIV", y, share)
    return (_as_before(b, _first(b, y), count),)


def _over_space(b: Builder, word: str, x: Value) -> Lifted:
    return (say(b, word, x, ints(b, list(range(2, len(b.dims(x))))), keep_dims=True),)


@GlobalAveragePool.lift("tflite")
def lift_global_average_pool(b: Builder, x: Value) -> Lifted:
    return _over_space(b, "MEAN", x)


@GlobalMaxPool.lift("tflite")
def lift_global_max_pool(b: Builder, x: Value) -> Lifted:
    return _over_space(b, "REDUCE_MAX", x)


@DepthToSpace.lift("tflite")
def lift_depth_to_space(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> Lifted:
    if mode != "DCR":
        batch, channels, height, width = sizes(b.dims(input), "the image")
        c = channels // blocksize**2
        parts = shaped(b, input, (batch, c, blocksize, blocksize, height, width))
        moved = turned(b, parts, (0, 1, 4, 2, 5, 3))
        return (shaped(b, moved, (batch, c, height * blocksize, width * blocksize)),)
    return (_first(b, say(b, "DEPTH_TO_SPACE", _last(b, input), block_size=blocksize)),)


@SpaceToDepth.lift("tflite")
def lift_space_to_depth(b: Builder, input: Value, *, blocksize: int) -> Lifted:
    return (_first(b, say(b, "SPACE_TO_DEPTH", _last(b, input), block_size=blocksize)),)


@LRN.lift("tflite")
def lift_lrn(
    b: Builder, x: Value, *, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0, size: int
) -> Lifted:
    if size % 2 == 0 or len(b.dims(x)) != _IMAGE:
        return None
    said = {"radius": size // 2, "alpha": alpha / size, "beta": beta, "bias": bias}
    return (_first(b, say(b, "LOCAL_RESPONSE_NORMALIZATION", _last(b, x), **said)),)


_COORDINATES = {"align_corners": (True, False), "half_pixel": (False, True), "asymmetric": (False, False)}
_NEAREST = {"asymmetric": "floor", "half_pixel": "round_prefer_ceil", "align_corners": "round_prefer_ceil"}


@Resize.lift("tflite")
def lift_resize(
    b: Builder,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    wanted: Value | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Lifted:
    """Along the two axes of an image, where the places are those that LiteRT computes."""
    del roi, cubic_coeff_a, exclude_outside, extrapolation_value
    coordinates = coordinate_transformation_mode
    if len(b.dims(x)) != _IMAGE or antialias or axes or coordinates not in _COORDINATES or mode == "cubic":
        return None
    extents = sizes(b.dims(x), "the image")
    told, factors = integers(wanted), reals(scales)
    if told is None and factors:
        told = tuple(int(np.floor(n * f)) for n, f in zip(extents, factors, strict=True))
        exact = all(abs(n * f - out) < 1e-6 for n, f, out in zip(extents, factors, told, strict=True))
        if not exact and coordinates != "align_corners":
            message = "its scales are not those of the sizes"
            raise UnsupportedError(message)
    if told is None or told[:2] != extents[:2] or keep_aspect_ratio_policy != "stretch":
        return None
    if mode == "nearest" and nearest_mode != _NEAREST[coordinates] and not _is_whole(extents, told, coordinates):
        message = f"{nearest_mode} of {coordinates}"
        raise UnsupportedError(message)
    corners, centers = _COORDINATES[coordinates]
    if corners and any(out == 1 for out in told[2:]):
        return None
    word = "RESIZE_NEAREST_NEIGHBOR" if mode == "nearest" else "RESIZE_BILINEAR"
    y = say(b, word, _last(b, x), ints(b, told[2:]), align_corners=corners, half_pixel_centers=centers)
    return (_first(b, y),)


def _is_whole(extents: Sequence[int], told: Sequence[int], coordinates: str) -> bool:
    """Whether halves never come up, so that it does not matter which way they are rounded."""
    return coordinates == "half_pixel" and all(out % n == 0 for n, out in zip(extents, told, strict=True))
