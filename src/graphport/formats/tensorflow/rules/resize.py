"""Resizing of images in TensorFlow, channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import from_channels_first, operator, to_channels_first
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Floor, Max, Min, Mul, Round, Sub, Sum
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, LessOrEqual, Where
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Concat, Unsqueeze
from graphport.ops.definitions.resize import Resize
from graphport.ops.lowering.extents import counted, extent, joined, mixed
from graphport.ops.lowering.operands import as_int64, as_vector, cast, dtype_of, transposed

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder

_LAST = "NHWC"


def coordinates(*, align_corners: bool, half_pixel_centers: bool) -> str:
    """Return the ONNX coordinate transformation mode."""
    return "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"


def _resized(b: Builder, x: Value, size: Value, **attributes: Attribute) -> Value:
    first = to_channels_first(b, x, _LAST)
    shape = joined(b, extent(b, first, 0), extent(b, first, 1), as_vector(b, size))
    return from_channels_first(b, b(Resize, first, None, None, shape, **attributes), _LAST)


@operator("ResizeBilinear")
def resize_bilinear(
    b: Builder, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Linear between the nearest pixels, in float32."""
    places = coordinates(align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    wide = x if dtype_of(x) is DType.FLOAT32 else cast(b, x, DType.FLOAT32)
    return _resized(b, wide, size, mode="linear", coordinate_transformation_mode=places)


@operator("ResizeNearestNeighbor")
def resize_nearest(
    b: Builder, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Nearest pixel: rounded down, or with aligned corners half up."""
    places = coordinates(align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    # floor((i + 0.5) * s) is the pixel nearest to (i + 0.5) * s - 0.5, half up.
    nearest = "floor" if places == "asymmetric" else "round_prefer_ceil"
    return _resized(b, x, size, mode="nearest", coordinate_transformation_mode=places, nearest_mode=nearest)


@operator("ResizeBicubic")
def resize_bicubic(
    b: Builder, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Cubic between the nearest pixels, with weights from a table of 1024 entries.

    With half-pixel centers, pixels outside have weight 0, and the weights are scaled to a sum of 1.
    """
    places = coordinates(align_corners=align_corners, half_pixel_centers=half_pixel_centers)

    def cubic_weights(spot: Value, length: Value) -> list[tuple[Value, Value]]:
        first = b(Floor, spot)
        steps = b(Div, b(Round, b(Mul, b(Sub, spot, first), _TABLE)), _TABLE)
        a = -0.5 if places == "half_pixel" else -0.75
        found = []
        for offset in (-1, 0, 1, 2):
            gap = b(Abs, b(Sub, steps, offset))
            found.append((b(Add, first, offset), _cubic(b, gap, a, is_far=offset in (-1, 2))))
        last = b(Sub, length, 1)
        if places != "half_pixel":
            return [(b(Max, b(Min, at, last), 0), share) for at, share in found]
        inside = [b(And, b(GreaterOrEqual, at, 0), b(LessOrEqual, at, last)) for at, _ in found]
        kept = [b(Where, test, share, 0) for test, (_, share) in zip(inside, found, strict=True)]
        total = b(Sum, *kept)
        return [(at, b(Div, share, total)) for (at, _), share in zip(found, kept, strict=True)]

    return _by_matrices(b, x, size, lambda n, m: _spots(b, n, m, places), cubic_weights)


_TABLE = 1024
"""Steps of TensorFlow's table of cubic weights."""


def _cubic(b: Builder, x: Value, a: float, *, is_far: bool) -> Value:
    """Keys' kernel at distances below 1, or from 1 to 2."""
    terms = (a, -5 * a, 8 * a, -4 * a) if is_far else (a + 2, -(a + 3), 0.0, 1.0)
    y = b.like(x, terms[0])
    for term in terms[1:]:
        y = b(Add, b(Mul, y, x), term)
    return y


def _spots(b: Builder, n: Value, m: Value, places: str) -> Value:
    """Return the input coordinate of each of `m` output pixels on an axis of length `n` (both float32 of rank 1)."""
    steps = cast(b, counted(b, as_int64(b, m)), DType.FLOAT32)
    if places == "align_corners":
        last = b(Sub, m, 1)
        scale = b(Where, b(GreaterOrEqual, last, 1), b(Div, b(Sub, n, 1), b(Max, last, 1)), b(Div, n, m))
        return b(Mul, steps, scale)
    scale = b(Div, n, m)
    if places == "half_pixel":
        return b(Sub, b(Mul, b(Add, steps, 0.5), scale), 0.5)
    return b(Mul, steps, scale)


def _by_matrices(
    b: Builder,
    x: Value,
    size: Value,
    spots: Callable[[Value, Value], Value],
    shares: Callable[[Value, Value], list[tuple[Value, Value]]],
) -> Value:
    """Multiply height and width by interpolation matrices [output, input]."""
    y = x if dtype_of(x) is DType.FLOAT32 else cast(b, x, DType.FLOAT32)
    wanted = cast(b, as_vector(b, size), DType.FLOAT32)
    for place, axis in enumerate((1, 2)):
        n = cast(b, extent(b, x, axis), DType.FLOAT32)
        m = b(Slice, wanted, [place], [place + 1])
        columns = cast(b, counted(b, extent(b, x, axis)), DType.FLOAT32)
        parts = [_placed(b, at, share, columns) for at, share in shares(spots(n, m), n)]
        y = mixed(b, y, axis, transposed(b, b(Sum, *parts), (1, 0)))
    return y


def _placed(b: Builder, at: Value, share: Value, columns: Value) -> Value:
    """Return a matrix with `share` in column `at` of each row, else 0; `columns` are the column indices."""
    is_here = b(Equal, b(Unsqueeze, at, [1]), columns)
    return b(Where, is_here, b(Unsqueeze, share, [1]), 0)


@operator("ResizeArea")
def resize_area(b: Builder, x: Value, size: Value, *, align_corners: bool = False) -> Value:
    """The mean of the pixels that a pixel of the result covers, in float32."""
    places = "align_corners" if align_corners else "asymmetric"
    y = x if dtype_of(x) is DType.FLOAT32 else cast(b, x, DType.FLOAT32)
    wanted = cast(b, as_vector(b, size), DType.FLOAT32)
    for place, axis in enumerate((1, 2)):
        n = cast(b, extent(b, x, axis), DType.FLOAT32)
        m = b(Slice, wanted, [place], [place + 1])
        start = b(Unsqueeze, _spots(b, n, m, places), [1])
        scale = _spots(b, n, b(Add, m, 0), places)
        width = b(Div, n, m) if places == "asymmetric" else _second(b, scale, n)
        columns = cast(b, counted(b, extent(b, x, axis)), DType.FLOAT32)
        # Beyond the border the last pixel repeats.
        end = b(Where, b(Equal, columns, b(Sub, n, 1)), np.inf, b(Add, columns, 1))
        overlap = b(Sub, b(Min, b(Add, start, width), end), b(Max, start, columns))
        matrix = b(Div, b(Max, overlap, 0), width)
        y = mixed(b, y, axis, transposed(b, matrix, (1, 0)))
    return y


def _second(b: Builder, spots: Value, n: Value) -> Value:
    """Return the distance of two pixels; the size of the axis for a single pixel."""
    padded = b(Concat, spots, n, axis=0)
    return b(Slice, padded, [1], [2])


@operator("CropAndResize")
def crop_and_resize(
    b: Builder,
    x: Value,
    boxes: Value,
    indices: Value,
    size: Value,
    *,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Value:
    """Regions of images in one size: y = (y1 + i * (y2 - y1) / (m - 1)) * (n - 1), outside a constant."""
    images = b(Gather, x if dtype_of(x) is DType.FLOAT32 else cast(b, x, DType.FLOAT32), as_int64(b, indices), axis=0)
    wanted = as_vector(b, size)
    matrices, insides = [], []
    for place, axis in enumerate((1, 2)):
        begin, end = (b(Slice, boxes, [k], [k + 1], [1]) for k in (place, place + 2))
        count = b(Slice, wanted, [place], [place + 1])
        last = b(Sub, cast(b, extent(b, x, axis), DType.FLOAT32), 1)
        gaps = cast(b, b(Sub, count, [1]), DType.FLOAT32)
        steps = cast(b, counted(b, count), DType.FLOAT32)
        scale = b(Div, b(Mul, b(Sub, end, begin), last), b(Max, gaps, 1))
        many = b(Add, b(Mul, begin, last), b(Mul, steps, scale))
        middle = b(Mul, b(Mul, 0.5, b(Add, begin, end)), last)
        spots = b(Where, b(GreaterOrEqual, gaps, 1), many, middle)
        insides.append(b(And, b(GreaterOrEqual, spots, 0), b(LessOrEqual, spots, last)))
        columns = cast(b, counted(b, extent(b, x, axis)), DType.FLOAT32)
        spots = b(Max, b(Min, spots, last), 0)
        at = b(Unsqueeze, spots if method == "bilinear" else _half_away(b, spots), [2])
        distance = b(Abs, b(Sub, at, columns))
        matrices.append(b(Max, b(Sub, 1, distance), 0))
    first = transposed(b, images, (0, 3, 1, 2))
    rows, columns = (b(Unsqueeze, each, [1]) for each in matrices)
    y = b(MatMul, b(MatMul, rows, first), transposed(b, columns, (0, 1, 3, 2)))
    inside = b(And, b(Unsqueeze, insides[0], [1, 3]), b(Unsqueeze, insides[1], [1, 2]))
    return transposed(b, b(Where, inside, y, extrapolation_value), (0, 2, 3, 1))


def _half_away(b: Builder, x: Value) -> Value:
    """Round non-negative floats to the nearest integer, half up."""
    return b(Floor, b(Add, x, 0.5))
