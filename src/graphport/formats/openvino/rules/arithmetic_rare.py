"""Rare arithmetic operators of OpenVINO: inverse error function, color conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.reshape_spaces import Length, lengths, parted, shaped, times
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Round, Sub
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Concat, Tile
from graphport.ops.lowering.operands import cast, dtype_of, scalar, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04, -1.25372503e-03)
_NEAR_END = (-4.17768164e-03, 2.46640727e-01, 1.50140941)
_FAR = (-2.00214257e-04, 1.00950558e-04, 1.34934322e-03, -3.67342844e-03, 5.73950773e-03, -7.6224613e-03)
_FAR_END = (9.43887047e-03, 1.00167406, 2.83297682)
"""M. Giles, Approximating the erfinv function (2010): single precision over the whole range, in two pieces."""


def _polynomial(b: Builder, x: Value, factors: Sequence[float]) -> Value:
    total: Value = b.like(x, factors[0])
    for factor in factors[1:]:
        total = b(Add, b(Mul, total, x), b.like(x, factor))
    return total


RULES.having(
    near=lambda b, x: _polynomial(b, x, (*_NEAR, *_NEAR_END)), far=lambda b, x: _polynomial(b, x, (*_FAR, *_FAR_END))
).lower("""
# A polynomial in the logarithm of `1 - x²`; infinite at -1 and 1.
opset17.ErfInv(x)
    -> y = cast(x, float32); w = Sub(0, Log(Mul(Sub(1, y), Add(1, y))));
       inside = Mul(Where(Less(w, 5), near(Sub(w, 2.5)), far(Sub(Sqrt(w), 3))), y);
       cast(Where(Equal(y, -1), -math.inf, Where(Equal(y, 1), math.inf, inside)), dtype(x))
""")


@lower("openvino", "opset13.FakeConvert")
def fake_convert(
    b: Builder, x: Value, scale: Value, shift: Value | None = None, *, destination_type: DType = DType.FLOAT8E4M3FN
) -> Value:
    """Emulate an 8-bit float: scale, shift, round to the type, and undo shift and scale."""
    scaled = b(Mul, x, scale)
    moved = scaled if shift is None else b(Sub, scaled, shift)
    # They are rounded to float16 first, which determines the direction of ties.
    half = moved if dtype_of(x) is DType.BFLOAT16 else cast(b, moved, DType.FLOAT16)
    narrow = cast(b, cast(b, half, destination_type), dtype_of(x))
    return b(Div, narrow if shift is None else b(Add, narrow, shift), scale)


_COLOURS = {"R": (0.0, 1.596), "G": (-0.391, -0.813), "B": (2.018, 0.0)}
"""Coefficients of U - 128 and V - 128 for each color; 1.164 * (Y - 16) is added to all."""


def _rows(b: Builder, x: Value, start: Length, stop: Length) -> Value:
    ends = (vector(b, [end]) if isinstance(end, int) else end for end in (start, stop))
    return b(Slice, x, *ends, vector(b, [1]))


def _picture(b: Builder, y: Value, *, is_single: bool) -> tuple[Length, Length, Length]:
    """Return batch, height and width of an image whose planes are stacked vertically."""
    n, rows, width, *_ = lengths(b, y, 4)
    height = parted(b, times(b, rows, 2), 3) if is_single else rows
    if any(isinstance(side, int) and side % 2 for side in (height, width)):
        message = f"an image of {height} by {width} pixels"
        raise UnsupportedError(message)
    return n, height, width


def _nv12(b: Builder, y: Value, uv: Value | None) -> tuple[Value, Value, Value]:
    """Return Y and, at half resolution, U and V from interleaved chroma (NV12)."""
    n, height, width = _picture(b, y, is_single=uv is None)
    pairs = _rows(b, y, height, parted(b, times(b, height, 3), 2)) if uv is None else uv
    bright = _rows(b, y, 0, height) if uv is None else y
    pairs = shaped(b, pairs, [n, parted(b, height, 2), parted(b, width, 2), 2])
    u, v = (b(Gather, pairs, [place], axis=3) for place in (0, 1))
    return bright, u, v


def _i420(b: Builder, y: Value, u: Value | None, v: Value | None) -> tuple[Value, Value, Value]:
    """Return Y and, at half resolution, U and V from planar chroma (I420)."""
    if u is not None and v is not None:
        return y, u, v
    n, height, width = _picture(b, y, is_single=True)
    quarter = parted(b, height, 2), parted(b, width, 2)
    # Both chroma planes follow Y, each with a quarter of its size.
    both = shaped(b, _rows(b, y, height, parted(b, times(b, height, 3), 2)), [n, 2, *quarter, 1])
    u, v = (b(Gather, both, place, axis=1) for place in (0, 1))
    return _rows(b, y, 0, height), u, v


def _coloured(b: Builder, parts: tuple[Value, Value, Value], colours: str) -> Value:
    """Convert to RGB or BGR [N, H, W, 3] by the channel letters; integers are rounded."""
    y, u, v = parts
    dtype = dtype_of(y)
    number = [scalar(b, n, DType.FLOAT32) for n in (16, 128, 1.164, 0, 255)]
    bright = b(Mul, b(Sub, cast(b, y, DType.FLOAT32), number[0]), number[2])
    chroma = [b(Sub, _doubled(b, cast(b, each, DType.FLOAT32)), number[1]) for each in (u, v)]
    planes: list[Value] = []
    for colour in colours:
        plane = bright
        for share, each in zip(_COLOURS[colour], chroma, strict=True):
            if share:
                plane = b(Add, plane, b(Mul, each, share))
        planes.append(b(Clip, plane, number[3], number[4]))
    whole = b(Concat, *planes, axis=3)
    return whole if dtype.is_floating else cast(b, b(Round, whole), dtype)


def _doubled(b: Builder, x: Value) -> Value:
    """Repeat each pixel of [N, h, w, 1] in a 2x2 block: [N, 2h, 2w, 1]."""
    n, h, w, *_ = lengths(b, x, 4)
    wide = shaped(b, x, [n, h, 1, w, 1, 1])
    spread = b(Tile, wide, [1, 1, 2, 1, 2, 1])
    return shaped(b, spread, [n, times(b, h, 2), times(b, w, 2), 1])


_BRIGHTNESS = (0.257, 0.504, 0.098)
_CHROMA = ((-0.148, -0.291, 0.439), (0.439, -0.368, -0.071))
"""Shares of red, green and blue in Y, before 16 is added, and in U and V, before 128 is."""


def _planes(b: Builder, x: Value, order: Sequence[int], single_plane: bool) -> tuple[Value, ...]:
    """Return Y of three colors [N, H, W, 3], and U and V, averaged over 2x2 blocks."""
    dtype = dtype_of(x)
    if not dtype.is_floating:
        message = f"RGB to YUV of {dtype}: the rounding of chroma means is not documented"
        raise UnsupportedError(message)
    n, height, width, *_ = lengths(b, x, 4)
    half = parted(b, height, 2), parted(b, width, 2)
    bright = _mixed(b, x, [_BRIGHTNESS[place] for place in order], 16)
    sides = [_mixed(b, x, [shares[place] for place in order], 128) for shares in _CHROMA]
    split = shaped(b, b(Concat, *sides, axis=3), [n, half[0], 2, half[1], 2, 2])
    pairs = b(ReduceMean, split, [2, 4], keepdims=0)
    if not single_plane:
        return bright, pairs
    return (b(Concat, bright, shaped(b, pairs, [n, half[0], width, 1]), axis=1),)


def _mixed(b: Builder, x: Value, shares: Sequence[float], shift: float) -> Value:
    total = b(ReduceSum, b(Mul, x, b.like(x, shares)), [3], keepdims=1)
    return b(Clip, b(Add, total, shift), 0, 255)


RULES.having(nv12=_nv12, i420=_i420, coloured=_coloured, planes=_planes).lower("""
opset8.NV12toRGB(y, uv=None) -> coloured(nv12(y, uv), "RGB")
opset8.NV12toBGR(y, uv=None) -> coloured(nv12(y, uv), "BGR")
opset8.I420toRGB(y, u=None, v=None) -> coloured(i420(y, u, v), "RGB")
opset8.I420toBGR(y, u=None, v=None) -> coloured(i420(y, u, v), "BGR")
opset17.RGBtoNV12(x, *, single_plane=True) -> planes(x, [0, 1, 2], single_plane)
opset17.BGRtoNV12(x, *, single_plane=True) -> planes(x, [2, 1, 0], single_plane)
""")
