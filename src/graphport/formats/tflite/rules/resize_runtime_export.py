"""Export rule of Resize with computed scales, sizes or region, or of open dims to TFLite.

Coordinates and weights are computed at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.emitting import cast_to, extent, ints, shaped
from graphport.ir.graph import Value
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.resize_by_axes import Sampling, multiply_axis
from graphport.ops.lowering.emitting import emit

if TYPE_CHECKING:
    from graphport.ops.builder import Builder

Size: TypeAlias = "float | Value"
"""Size of an axis: a number, or a float32 scalar if it is computed."""


@dataclass(frozen=True, slots=True)
class Region:
    """The region of the source that Resize samples (`roi`), and the value outside of the source."""

    roi: Value | None
    extrapolation_value: float


def resized_later(
    b: Builder,
    x: Value,
    given: Value,
    axes: tuple[int, ...] | None,
    stated: Sampling,
    region: Region,
    *,
    is_scale: bool,
) -> Value:
    """Resample one axis after the other with computed indices or weight matrices."""
    rank = len(b.dims(x))
    chosen = [axis % rank for axis in axes] if axes is not None else list(range(rank))
    outside: Value | None = None
    for place, axis in enumerate(chosen):
        n = _extent(b, x, axis)
        requested = _float_element(b, given, place)
        # float32 may represent a scale slightly too low, which must not reduce the output size.
        out = emit(b, "FLOOR", emit(b, "MUL", requested, n)) if is_scale else requested
        scale = requested if is_scale else emit(b, "DIV", requested, n)
        numbers = emit(b, "RANGE", b.like(out, 0), out, b.like(out, 1))
        ends = (
            None
            if region.roi is None
            else (_float_element(b, region.roi, place), _float_element(b, region.roi, place + len(chosen)))
        )
        at = _source(b, numbers, out, scale, n, stated.coordinates, ends)
        if ends is not None:
            is_out = emit(b, "LOGICAL_OR", emit(b, "LESS", at, 0.0), emit(b, "GREATER", at, _subtract_one(b, n)))
            is_out = shaped(b, is_out, (-1, *[1] * (rank - axis - 1)))
            outside = is_out if outside is None else emit(b, "LOGICAL_OR", outside, is_out)
        if stated.mode == "nearest":
            x = emit(b, "GATHER", x, _nearest(b, at, n, stated.nearest), axis=axis)
            continue
        x = multiply_axis(b, x, _weights(b, at, n, scale, stated), axis)
    return x if outside is None else emit(b, "SELECT_V2", outside, b.like(x, region.extrapolation_value), x)


def _extent(b: Builder, x: Value, axis: int) -> Size:
    """Return the size of an axis as a float, computed at run time if it is dynamic."""
    n = extent(b, x, axis)
    return float(n) if isinstance(n, int) else cast_to(b, n, DType.FLOAT32)


def _subtract_one(b: Builder, n: Size) -> Size:
    return emit(b, "SUB", n, 1.0) if isinstance(n, Value) else n - 1


def _clip_index(b: Builder, at: Value, n: Size) -> Value:
    """Clip coordinates to 0 … n - 1."""
    return emit(b, "MINIMUM", emit(b, "MAXIMUM", at, 0.0), _subtract_one(b, n))


def _float_element(b: Builder, given: Value, place: int) -> Value:
    return cast_to(b, shaped(b, emit(b, "GATHER", given, ints(b, [place]), axis=0), ()), DType.FLOAT32)


def _source(
    b: Builder,
    numbers: Value,
    out: Value,
    scale: Value,
    n: Size,
    coordinates: str,
    ends: tuple[Value, Value] | None,
) -> Value:
    """Return the source coordinates of the output elements."""

    def centred(shift: Value | None = None) -> Value:
        at = emit(b, "SUB", emit(b, "DIV", emit(b, "ADD", numbers, 0.5), scale), 0.5)
        return at if shift is None else emit(b, "ADD", at, shift)

    match coordinates:
        case "half_pixel":
            return centred()
        case "asymmetric":
            return emit(b, "DIV", numbers, scale)
        case "pytorch_half_pixel":
            return emit(b, "SELECT_V2", emit(b, "GREATER", out, 1.0), centred(), emit(b, "MUL", numbers, 0.0))
        case "align_corners":
            gaps = emit(b, "MAXIMUM", emit(b, "SUB", emit(b, "MUL", scale, n), 1.0), 1e-6)
            at = emit(b, "DIV", emit(b, "MUL", numbers, _subtract_one(b, n)), gaps)
            return emit(b, "SELECT_V2", emit(b, "GREATER", out, 1.0), at, emit(b, "MUL", numbers, 0.0))
        case "half_pixel_symmetric":
            exact = emit(b, "DIV", out, emit(b, "MUL", scale, n))
            return centred(emit(b, "MUL", emit(b, "MUL", emit(b, "SUB", b.like(exact, 1), exact), 0.5), n))
        case "tf_crop_and_resize" if ends is not None:
            return _cropped(b, numbers, out, scale, n, ends)
        case _:
            message = f"{coordinates} with computed sizes"
            raise UnsupportedError(message)


def _cropped(b: Builder, numbers: Value, out: Value, scale: Value, n: Size, ends: tuple[Value, Value]) -> Value:
    """Return coordinates between relative start and end of a region; for one element, the middle."""
    begin, end = ends
    last = _subtract_one(b, n)
    gaps = emit(b, "SUB", emit(b, "MUL", scale, n), 1.0)
    # A single element is not divided, but the branch that is not selected is computed, too.
    gaps = emit(b, "SELECT_V2", emit(b, "GREATER", out, 1.0), gaps, b.like(gaps, 1))
    steps = emit(b, "DIV", emit(b, "MUL", emit(b, "MUL", numbers, emit(b, "SUB", end, begin)), last), gaps)
    many = emit(b, "ADD", emit(b, "MUL", begin, last), steps)
    middle = emit(b, "MUL", emit(b, "MUL", emit(b, "ADD", begin, end), 0.5), last)
    one = emit(b, "ADD", emit(b, "MUL", numbers, 0.0), middle)
    return emit(b, "SELECT_V2", emit(b, "GREATER", out, 1.0), many, one)


def _nearest(b: Builder, at: Value, n: Size, mode: str) -> Value:
    match mode:
        case "floor":
            found = emit(b, "FLOOR", at)
        case "ceil":
            found = emit(b, "CEIL", at)
        case "round_prefer_ceil":
            found = emit(b, "FLOOR", emit(b, "ADD", at, 0.5))
        case _:
            found = emit(b, "CEIL", emit(b, "SUB", at, 0.5))
    return cast_to(b, _clip_index(b, found, n), DType.INT32)


def _weights(b: Builder, at: Value, n: Size, scale: Value, stated: Sampling) -> Value:
    """Return the weight of each element of the source axis in each output element: [n, out]."""
    row = emit(b, "EXPAND_DIMS", at, ints(b, 0))
    if stated.antialias:
        if isinstance(n, Value):
            message = "an antialiased dim must be static"
            raise UnsupportedError(message)
        return _smoothed(b, row, int(n), scale, stated)
    column = _column(b, n)
    if stated.mode == "linear":
        return _tent(b, emit(b, "ABS", emit(b, "SUB", _clip_index(b, row, n), column)))
    base = emit(b, "FLOOR", row)
    parts: list[Value] = []
    for tap in range(-1, 3):
        place = emit(b, "ADD", base, float(tap))
        weight = _cubic(b, emit(b, "ABS", emit(b, "SUB", row, place)), stated.a)
        kept = place if stated.excludes_outside else _clip_index(b, place, n)
        parts.append(emit(b, "MUL", cast_to(b, emit(b, "EQUAL", kept, column), DType.FLOAT32), weight))
    total = reduce(partial(emit, b, "ADD"), parts)
    return total if not stated.excludes_outside else _normalize_weights(b, total)


def _column(b: Builder, n: Size) -> Value:
    """Return the integers 0 … n - 1 as a column."""
    if isinstance(n, Value):
        return shaped(b, emit(b, "RANGE", b.like(n, 0), n, b.like(n, 1)), (-1, 1))
    return b.constant(np.arange(reserve(int(n)), dtype=np.float32).reshape(-1, 1))


def _smoothed(b: Builder, row: Value, n: int, scale: Value, stated: Sampling) -> Value:
    """Weights of an antialiasing kernel, which is widened by the downscaling factor.

    An output element covers at most `n` elements, so that the kernel's width is n or 2n.
    """
    reach = 0 if stated.excludes_outside else n * (1 if stated.mode == "linear" else 2)
    positions = np.arange(-reach, reserve(n + 2 * reach) - reach, dtype=np.float32).reshape(-1, 1)
    gaps = emit(b, "ABS", emit(b, "SUB", row, b.constant(positions)))
    gaps = emit(b, "MUL", gaps, emit(b, "MINIMUM", scale, 1.0))
    shares = _normalize_weights(b, _tent(b, gaps) if stated.mode == "linear" else _cubic(b, gaps, stated.a))
    if not reach:
        return shares
    reserve(n, n + 2 * reach)
    ends = np.clip(positions[:, 0], 0, n - 1) == np.arange(n)[:, None]  # indices outside count for the border element
    return emit(b, "BATCH_MATMUL", b.constant(ends.astype(np.float32)), shares)


def _normalize_weights(b: Builder, weights: Value) -> Value:
    return emit(b, "DIV", weights, emit(b, "SUM", weights, ints(b, [0]), keep_dims=True))


def _tent(b: Builder, t: Value) -> Value:
    """Linear kernel at a distance."""
    return emit(b, "RELU", emit(b, "SUB", b.like(t, 1), t))


def _cubic(b: Builder, t: Value, a: float) -> Value:
    """Cubic convolution kernel (Keys) at a distance."""

    def polynomial(*factors: float) -> Value:
        total = b.like(t, factors[0])
        for factor in factors[1:]:
            total = emit(b, "ADD", emit(b, "MUL", total, t), factor)
        return total

    near, far = polynomial(a + 2, -(a + 3), 0.0, 1.0), polynomial(a, -5 * a, 8 * a, -4 * a)
    outer = emit(b, "SELECT_V2", emit(b, "LESS", t, 2.0), far, emit(b, "MUL", t, 0.0))
    return emit(b, "SELECT_V2", emit(b, "LESS_EQUAL", t, 1.0), near, outer)
