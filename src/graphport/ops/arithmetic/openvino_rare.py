"""Rare arithmetic in OpenVINO: the inverse of the error function, colours of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.activation import Clip
from graphport.ops.arithmetic import Add, Div, Log, Mul, Round, Sqrt, Sub
from graphport.ops.comparison import Equal, Less, Where
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.indexing import Gather, Slice
from graphport.ops.operands import cast, dtype_of, reshaped, scalar, sizes, vector
from graphport.ops.reshape import Concat, Expand, Unsqueeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04, -1.25372503e-03)
_NEAR_END = (-4.17768164e-03, 2.46640727e-01, 1.50140941)
_FAR = (-2.00214257e-04, 1.00950558e-04, 1.34934322e-03, -3.67342844e-03, 5.73950773e-03, -7.6224613e-03)
_FAR_END = (9.43887047e-03, 1.00167406, 2.83297682)
"""M. Giles, Approximating the erfinv function (2010): single precision over the whole range, in two pieces."""


@lower("openvino", "opset17.ErfInv")
def erf_inv(b: Builder, x: Value) -> Value:
    """The number whose error function is `x`: a polynomial in the logarithm of `1 - x²`; infinite at -1 and 1."""
    dtype = dtype_of(x)
    one, wide = scalar(b, 1, DType.FLOAT32), cast(b, x, DType.FLOAT32)
    w = b(Sub, scalar(b, 0, DType.FLOAT32), b(Log, b(Mul, b(Sub, one, wide), b(Add, one, wide))))
    is_near = b(Less, w, scalar(b, 5, DType.FLOAT32))
    near = _polynomial(b, b(Sub, w, scalar(b, 2.5, DType.FLOAT32)), (*_NEAR, *_NEAR_END))
    far = _polynomial(b, b(Sub, b(Sqrt, w), scalar(b, 3, DType.FLOAT32)), (*_FAR, *_FAR_END))
    found = b(Mul, b(Where, is_near, near, far), wide)
    for end in (1, -1):
        limit = scalar(b, end, DType.FLOAT32)
        found = b(Where, b(Equal, wide, limit), scalar(b, end * np.inf, DType.FLOAT32), found)
    return cast(b, found, dtype)


def _polynomial(b: Builder, x: Value, factors: Sequence[float]) -> Value:
    total: Value = scalar(b, factors[0], DType.FLOAT32)
    for factor in factors[1:]:
        total = b(Add, b(Mul, total, x), scalar(b, factor, DType.FLOAT32))
    return total


@lower("openvino", "opset13.FakeConvert")
def fake_convert(
    b: Builder, x: Value, scale: Value, shift: Value | None = None, *, destination_type: DType = DType.FLOAT8E4M3FN
) -> Value:
    """What is left of numbers, scaled and shifted, in eight bits."""
    scaled = b(Mul, x, scale)
    moved = scaled if shift is None else b(Sub, scaled, shift)
    # They are rounded to float16 first, which tells where what is then a tie goes.
    half = moved if dtype_of(x) is DType.BFLOAT16 else cast(b, moved, DType.FLOAT16)
    narrow = cast(b, cast(b, half, destination_type), dtype_of(x))
    return b(Div, narrow if shift is None else b(Add, narrow, shift), scale)


_RED, _GREEN, _BLUE = ((0.0, 1.596), (-0.391, -0.813), (2.018, 0.0))
"""Shares of U and V, after 128 is taken away, in each colour; 1.164 times Y, after 16, is in all of them."""


@lower("openvino", "opset8.NV12toRGB")
def nv12_to_rgb(b: Builder, y: Value, uv: Value | None = None) -> Value:
    """Red, green and blue [N, H, W, 3] of brightness and, at half the size, both chroma side by side."""
    return _coloured(b, *_nv12(b, y, uv), (_RED, _GREEN, _BLUE))


@lower("openvino", "opset8.NV12toBGR")
def nv12_to_bgr(b: Builder, y: Value, uv: Value | None = None) -> Value:
    """Blue, green and red of the same."""
    return _coloured(b, *_nv12(b, y, uv), (_BLUE, _GREEN, _RED))


@lower("openvino", "opset8.I420toRGB")
def i420_to_rgb(b: Builder, y: Value, u: Value | None = None, v: Value | None = None) -> Value:
    """Red, green and blue [N, H, W, 3] of brightness and, at half the size, both chroma one after the other."""
    return _coloured(b, *_i420(b, y, u, v), (_RED, _GREEN, _BLUE))


@lower("openvino", "opset8.I420toBGR")
def i420_to_bgr(b: Builder, y: Value, u: Value | None = None, v: Value | None = None) -> Value:
    """Blue, green and red of the same."""
    return _coloured(b, *_i420(b, y, u, v), (_BLUE, _GREEN, _RED))


def _rows(b: Builder, x: Value, start: int, stop: int) -> Value:
    return b(Slice, x, vector(b, [start]), vector(b, [stop]), vector(b, [1]))


def _picture(b: Builder, y: Value, *, is_single: bool) -> tuple[int, int, int]:
    """Batch, height and width of the picture whose planes stand one below the other."""
    n, rows, width, _ = sizes(b.dims(y), "the size of a picture")
    height = rows * 2 // 3 if is_single else rows
    if height % 2 or width % 2:
        message = f"a picture of {height} by {width} places"
        raise UnsupportedError(message)
    return n, height, width


def _nv12(b: Builder, y: Value, uv: Value | None) -> tuple[Value, Value, Value]:
    n, height, width = _picture(b, y, is_single=uv is None)
    pairs = _rows(b, y, height, height * 3 // 2) if uv is None else uv
    bright = _rows(b, y, 0, height) if uv is None else y
    pairs = reshaped(b, pairs, [n, height // 2, width // 2, 2])
    u, v = (b(Gather, pairs, b.constant(np.array([place], np.int64)), axis=3) for place in (0, 1))
    return bright, u, v


def _i420(b: Builder, y: Value, u: Value | None, v: Value | None) -> tuple[Value, Value, Value]:
    if u is not None and v is not None:
        return y, u, v
    n, height, width = _picture(b, y, is_single=True)
    shape = [n, height // 2, width // 2, 1]
    whole = reshaped(b, y, [n, height * 3 // 2 * width])
    count = height // 2 * (width // 2)
    first = height * width
    planes = [
        reshaped(b, b(Slice, whole, vector(b, [at]), vector(b, [at + count]), vector(b, [1])), shape)
        for at in (first, first + count)
    ]
    return _rows(b, y, 0, height), planes[0], planes[1]


def _coloured(b: Builder, y: Value, u: Value, v: Value, colours: Sequence[tuple[float, float]]) -> Value:
    dtype = dtype_of(y)
    number = [scalar(b, n, DType.FLOAT32) for n in (16, 128, 1.164, 0, 255)]
    bright = b(Mul, b(Sub, cast(b, y, DType.FLOAT32), number[0]), number[2])
    chroma = [b(Sub, _doubled(b, cast(b, each, DType.FLOAT32)), number[1]) for each in (u, v)]
    planes: list[Value] = []
    for shares in colours:
        plane = bright
        for share, each in zip(shares, chroma, strict=True):
            if share:
                plane = b(Add, plane, b(Mul, each, scalar(b, share, DType.FLOAT32)))
        planes.append(b(Clip, plane, number[3], number[4]))
    whole = b(Concat, *planes, axis=3)
    return whole if dtype.is_floating else cast(b, b(Round, whole), dtype)


def _doubled(b: Builder, x: Value) -> Value:
    """Each place [N, h, w, 1] four times: [N, 2h, 2w, 1]."""
    n, h, w, _ = sizes(b.dims(x), "the size of a plane")
    spread = b(Expand, b(Unsqueeze, x, vector(b, [2, 4])), vector(b, [n, h, 2, w, 2, 1]))
    return reshaped(b, spread, [n, 2 * h, 2 * w, 1])
