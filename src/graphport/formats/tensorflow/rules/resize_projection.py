"""`ImageProjectiveTransform` of TensorFlow: each output pixel is read where a projective transform maps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Floor, Max, Min, Mul, Neg, Sub
from graphport.ops.definitions.comparison import And, GreaterOrEqual, Less, LessOrEqual, Where
from graphport.ops.definitions.indexing import GatherND, Slice
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Unsqueeze
from graphport.ops.lowering.extents import counted, extent, gather_index, joined
from graphport.ops.lowering.operands import as_int64, cast, dtype_of, reshaped, round_half_away, truncate

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_MODES = ("CONSTANT", "REFLECT", "WRAP", "NEAREST")
_METHODS = ("NEAREST", "BILINEAR")


@operator("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def projective_transform(
    b: Builder,
    x: Value,
    transforms: Value,
    size: Value,
    fill: Value | None = None,
    *,
    interpolation: str,
    fill_mode: str = "CONSTANT",
) -> Value:
    """Images [n, h, w, c] read at ((a0 x + a1 y + a2) / k, (a3 x + a4 y + a5) / k) with k = a6 x + a7 y + 1.

    Raises:
        ShapeError: the interpolation or the fill mode is unknown.
    """
    for given, known in ((interpolation, _METHODS), (fill_mode, _MODES)):
        if given not in known:
            message = f"{given!r} is not one of {', '.join(known)}"
            raise ShapeError(message)
    empty = b.like(x, 0) if fill is None else cast(b, fill, dtype_of(x))
    size = as_int64(b, size)
    rows, columns, is_defined = _positions(b, transforms, size)
    height, width = (_float(b, extent(b, x, axis)) for axis in (1, 2))
    rows, columns = _inside(b, rows, height, fill_mode), _inside(b, columns, width, fill_mode)
    pixels = _Pixels(b, x, empty, size)
    if interpolation == "NEAREST":
        y = pixels.at(round_half_away(b, rows), round_half_away(b, columns))
    else:
        y = _bilinear(b, pixels, rows, columns)
    return b(Where, b(Unsqueeze, is_defined, [3]), cast(b, y, dtype_of(x)), empty)


def _float(b: Builder, count: Value) -> Value:
    return cast(b, reshaped(b, count, ()), DType.FLOAT32)


def _positions(b: Builder, transforms: Value, size: Value) -> tuple[Value, Value, Value]:
    """The rows and columns that are read for each output pixel, [n or 1, h, w], and whether they are finite."""
    ys, xs = (cast(b, counted(b, b(Slice, size, [i], [i + 1])), DType.FLOAT32) for i in (0, 1))
    ys = reshaped(b, ys, (-1, 1))
    a = [reshaped(b, gather_index(b, transforms, place), (-1, 1, 1)) for place in range(8)]
    k = b(Add, b(Add, b(Mul, a[6], xs), b(Mul, a[7], ys)), 1)
    is_defined = b(Less, b.like(transforms, 0), b(Abs, k))
    divisor = b(Where, is_defined, k, 1)
    columns, rows = (b(Div, b(Add, b(Add, b(Mul, a[i], xs), b(Mul, a[i + 1], ys)), a[i + 2]), divisor) for i in (0, 3))
    return rows, columns, is_defined


def _inside(b: Builder, at: Value, count: Value, fill_mode: str) -> Value:
    """Positions along an axis, mapped into the image unless pixels outside are constant."""
    if fill_mode == "CONSTANT":
        return at
    zero, one = b.like(at, 0), b.like(at, 1)
    last = b(Sub, count, one)
    if fill_mode == "NEAREST":
        return b(Min, b(Max, at, zero), last)
    if fill_mode == "REFLECT":
        low, high = _reflected(b, at, count)
    else:
        span = b(Max, last, one)
        low = b(Add, at, b(Mul, count, b(Add, truncate(b, b(Div, b(Neg, at), span)), one)))
        high = b(Sub, at, b(Mul, count, truncate(b, b(Div, at, span))))
    moved = b(Where, b(Less, at, zero), low, b(Where, b(Less, last, at), high, at))
    return b(Min, b(Max, moved, zero), last)


def _reflected(b: Builder, at: Value, count: Value) -> tuple[Value, Value]:
    """Reflect positions < 0 and positions >= `count`: d c b a | a b c d | d c b a."""
    one, period = b.like(at, 1), b(Add, count, count)
    low = b(Add, b(Mul, period, truncate(b, b(Div, b(Neg, at), period))), at)
    low = b(Where, b(Less, low, b(Neg, count)), b(Add, low, period), b(Sub, b(Neg, low), one))
    high = b(Sub, at, b(Mul, period, truncate(b, b(Div, at, period))))
    high = b(Where, b(GreaterOrEqual, high, count), b(Sub, b(Sub, period, high), one), high)
    return low, high


class _Pixels:
    """Images that are read at computed rows and columns."""

    def __init__(self, b: Builder, x: Value, empty: Value, size: Value) -> None:
        self._b = b
        self._empty = empty
        self._height, self._width = extent(b, x, 1), extent(b, x, 2)
        pixels = joined(b, extent(b, x, 0), -1, extent(b, x, 3))
        self._flat = b(Reshape, x, pixels)
        self._shape = b(Concat, extent(b, x, 0), size, axis=0)
        self._result = b(Concat, self._shape, extent(b, x, 3), axis=0)

    def at(self, rows: Value, columns: Value) -> Value:
        """The pixels at integer positions [n or 1, h, w], and the fill value outside of the image."""
        b = self._b
        ends = _float(b, self._height), _float(b, self._width)
        zero = b.like(rows, 0)
        is_inside = [
            b(And, b(LessOrEqual, zero, at), b(Less, at, end)) for at, end in zip((rows, columns), ends, strict=True)
        ]
        inside = b(And, *is_inside)
        row, column = (cast(b, b(Where, inside, at, zero), DType.INT64) for at in (rows, columns))
        flat = b(Expand, b(Add, b(Mul, row, self._width), column), self._shape)
        index = b(Reshape, flat, joined(b, b(Slice, self._shape, [0], [1]), -1, 1))
        y = b(Reshape, b(GatherND, self._flat, index, batch_dims=1), self._result)
        return b(Where, b(Unsqueeze, inside, [3]), y, self._empty)


def _bilinear(b: Builder, pixels: _Pixels, rows: Value, columns: Value) -> Value:
    """The four pixels around a position, weighted by their nearness, in float32."""
    one = b.like(rows, 1)
    row, column = b(Floor, rows), b(Floor, columns)
    below, right = b(Add, row, one), b(Add, column, one)
    weights = [b(Unsqueeze, each, [3]) for each in (b(Sub, right, columns), b(Sub, columns, column))]
    lines = [
        b(
            Add,
            *(
                b(Mul, w, cast(b, pixels.at(at, c), DType.FLOAT32))
                for w, c in zip(weights, (column, right), strict=True)
            ),
        )
        for at in (row, below)
    ]
    shares = [b(Unsqueeze, each, [3]) for each in (b(Sub, below, rows), b(Sub, rows, row))]
    return b(Add, *(b(Mul, share, line) for share, line in zip(shares, lines, strict=True)))
