"""Export rule of Resize with computed scales, sizes or region to TFLite: coordinates and weights are computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.emitting import cast_to, ints, shaped
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.resize_by_axes import Sampling, multiply_axis
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import sizes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@dataclass(frozen=True, slots=True)
class Region:
    """Region of x that is resampled, and the value outside of x."""

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
    own = b.dims(x)
    outside: Value | None = None
    for place, axis in enumerate(chosen):
        (n,) = sizes(own[axis : axis + 1], "the image")
        requested = _float_element(b, given, place)
        # float32 may represent a scale slightly too low, which must not reduce the output size.
        out = emit(b, "FLOOR", emit(b, "MUL", requested, float(n))) if is_scale else requested
        scale = requested if is_scale else emit(b, "DIV", requested, b.like(requested, n))
        numbers = emit(b, "RANGE", b.like(out, 0), out, b.like(out, 1))
        ends = (
            None
            if region.roi is None
            else (_float_element(b, region.roi, place), _float_element(b, region.roi, place + len(chosen)))
        )
        at = _source(b, numbers, out, scale, n, stated.coordinates, ends)
        if ends is not None:
            is_out = emit(b, "LOGICAL_OR", emit(b, "LESS", at, 0.0), emit(b, "GREATER", at, float(n - 1)))
            is_out = shaped(b, is_out, (-1, *[1] * (rank - axis - 1)))
            outside = is_out if outside is None else emit(b, "LOGICAL_OR", outside, is_out)
        if stated.mode == "nearest":
            x = emit(b, "GATHER", x, _nearest(b, at, n, stated.nearest), axis=axis)
            continue
        x = multiply_axis(b, x, _weights(b, at, n, scale, stated), axis)
    return x if outside is None else emit(b, "SELECT_V2", outside, b.like(x, region.extrapolation_value), x)


def _float_element(b: Builder, given: Value, place: int) -> Value:
    return cast_to(b, shaped(b, emit(b, "GATHER", given, ints(b, [place]), axis=0), ()), DType.FLOAT32)


def _source(
    b: Builder,
    numbers: Value,
    out: Value,
    scale: Value,
    n: int,
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
            gaps = emit(b, "MAXIMUM", emit(b, "SUB", emit(b, "MUL", scale, float(n)), 1.0), 1e-6)
            at = emit(b, "DIV", emit(b, "MUL", numbers, float(n - 1)), gaps)
            return emit(b, "SELECT_V2", emit(b, "GREATER", out, 1.0), at, emit(b, "MUL", numbers, 0.0))
        case "half_pixel_symmetric":
            exact = emit(b, "DIV", out, emit(b, "MUL", scale, float(n)))
            return centred(emit(b, "MUL", emit(b, "SUB", b.like(exact, 1), exact), n / 2))
        case "tf_crop_and_resize" if ends is not None:
            return _cropped(b, numbers, out, scale, n, ends)
        case _:
            message = f"{coordinates} with computed sizes"
            raise UnsupportedError(message)


def _cropped(b: Builder, numbers: Value, out: Value, scale: Value, n: int, ends: tuple[Value, Value]) -> Value:
    """Return coordinates between relative start and end of a region; for one element, the middle."""
    begin, end = ends
    last = float(n - 1)
    gaps = emit(b, "SUB", emit(b, "MUL", scale, float(n)), 1.0)
    # A single element is not divided, but the branch that is not selected is computed, too.
    gaps = emit(b, "SELECT_V2", emit(b, "GREATER", out, 1.0), gaps, b.like(gaps, 1))
    steps = emit(b, "DIV", emit(b, "MUL", emit(b, "MUL", numbers, emit(b, "SUB", end, begin)), last), gaps)
    many = emit(b, "ADD", emit(b, "MUL", begin, last), steps)
    middle = emit(b, "MUL", emit(b, "ADD", begin, end), last / 2)
    one = emit(b, "ADD", emit(b, "MUL", numbers, 0.0), middle)
    return emit(b, "SELECT_V2", emit(b, "GREATER", out, 1.0), many, one)


def _nearest(b: Builder, at: Value, n: int, mode: str) -> Value:
    match mode:
        case "floor":
            found = emit(b, "FLOOR", at)
        case "ceil":
            found = emit(b, "CEIL", at)
        case "round_prefer_ceil":
            found = emit(b, "FLOOR", emit(b, "ADD", at, 0.5))
        case _:
            found = emit(b, "CEIL", emit(b, "SUB", at, 0.5))
    kept = emit(b, "MINIMUM", emit(b, "MAXIMUM", found, 0.0), float(n - 1))
    return cast_to(b, kept, DType.INT32)


def _weights(b: Builder, at: Value, n: int, scale: Value, stated: Sampling) -> Value:
    """Weight of each element of x in each output element: [n, out]."""
    row = emit(b, "EXPAND_DIMS", at, ints(b, 0))
    if stated.antialias:
        return _smoothed(b, row, n, scale, stated)
    column = b.constant(np.arange(reserve(n), dtype=np.float32).reshape(n, 1))
    if stated.mode == "linear":
        inside = emit(b, "MINIMUM", emit(b, "MAXIMUM", row, 0.0), float(n - 1))
        return _tent(b, emit(b, "ABS", emit(b, "SUB", inside, column)))
    base = emit(b, "FLOOR", row)
    parts: list[Value] = []
    for tap in range(-1, 3):
        place = emit(b, "ADD", base, float(tap))
        weight = _cubic(b, emit(b, "ABS", emit(b, "SUB", row, place)), stated.a)
        kept = place if stated.excludes_outside else emit(b, "MINIMUM", emit(b, "MAXIMUM", place, 0.0), float(n - 1))
        parts.append(emit(b, "MUL", cast_to(b, emit(b, "EQUAL", kept, column), DType.FLOAT32), weight))
    total = reduce(partial(emit, b, "ADD"), parts)
    return total if not stated.excludes_outside else _normalize_weights(b, total)


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
