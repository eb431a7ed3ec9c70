"""Resize whose scales, sizes, region or image are known at run time only: computed coordinates and weights."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import Size, aten, element_of, size_of
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.operands import cast

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.decompositions.resize_by_axes import Sampling

_TAPS = range(-1, 3)
_TINY = 1e-6


def resized_at_run_time(
    b: Builder,
    x: Value,
    given: Value,
    axes: tuple[int, ...] | None,
    stated: Sampling,
    roi: Value | None,
    extrapolation: float,
    *,
    policy: str,
    is_scale: bool,
) -> Value:
    """Resample one axis after the other by computed indices, or by a computed matrix of weights."""
    rank = len(b.dims(x))
    chosen = [axis % rank for axis in axes] if axes is not None else list(range(rank))
    outside: Value | None = None
    lengths = [aten(b, "full", (), size_of(b, x, axis), dtype=DType.FLOAT32) for axis in chosen]
    requests = [_element(b, given, place) for place in range(len(chosen))]
    scales = requests if is_scale else [aten(b, "div.Tensor", r, n) for r, n in zip(requests, lengths, strict=True)]
    if policy != "stretch" and not is_scale:
        name = "minimum" if policy == "not_larger" else "maximum"
        shared = reduce(partial(aten, b, name), scales)
        scales = [shared] * len(chosen)
        requests = [aten(b, "floor", aten(b, "add.Tensor", aten(b, "mul.Tensor", n, shared), 0.5)) for n in lengths]
    elif is_scale:
        # float32 may represent a scale slightly too low, which must not reduce the output size.
        wide = [aten(b, "mul.Tensor", n, scale) for n, scale in zip(lengths, scales, strict=True)]
        requests = [aten(b, "floor", aten(b, "add.Tensor", size, _TINY)) for size in wide]
    for place, axis in enumerate(chosen):
        n, out, scale = lengths[place], requests[place], scales[place]
        count = element_of(b, aten(b, "to.dtype", out, DType.INT64))
        numbers = aten(b, "arange.start_step", 0, count, 1, dtype=DType.FLOAT32)
        ends = None if roi is None else (_element(b, roi, place), _element(b, roi, place + len(chosen)))
        at = _source(b, numbers, out, scale, n, stated.coordinates, ends)
        last = aten(b, "sub.Tensor", n, 1.0)
        if ends is not None:
            beyond = aten(b, "gt.Tensor", at, last)
            is_out = aten(b, "logical_or", aten(b, "lt.Scalar", at, 0), beyond)
            is_out = aten(b, "reshape", is_out, (-1, *[1] * (rank - axis - 1)))
            outside = is_out if outside is None else aten(b, "logical_or", outside, is_out)
        if stated.mode == "nearest":
            x = aten(b, "index_select", x, axis, _nearest(b, at, last, stated.nearest))
            continue
        weights = _weights(b, at, size_of(b, x, axis), last, scale, stated)
        moved = aten(b, "movedim.int", x, axis, -1)
        x = aten(b, "movedim.int", aten(b, "matmul", moved, weights), -1, axis)
    if outside is None:
        return x
    return aten(b, "where.self", outside, b.like(x, extrapolation), x)


def _element(b: Builder, given: Value, place: int) -> Value:
    return cast(b, aten(b, "select.int", given, 0, place), DType.FLOAT32)


def _source(
    b: Builder, numbers: Value, out: Value, scale: Value, n: Value, coordinates: str, ends: tuple[Value, Value] | None
) -> Value:
    """Return the source coordinates of the output elements."""
    centered = aten(b, "sub.Tensor", aten(b, "div.Tensor", aten(b, "add.Tensor", numbers, 0.5), scale), 0.5)
    zeros = aten(b, "zeros_like", numbers)
    is_many = aten(b, "gt.Scalar", out, 1)
    last = aten(b, "sub.Tensor", n, 1.0)
    wanted = aten(b, "mul.Tensor", scale, n)
    gaps = aten(b, "clamp", aten(b, "sub.Tensor", wanted, 1.0), _TINY)
    match coordinates:
        case "half_pixel":
            return centered
        case "asymmetric":
            return aten(b, "div.Tensor", numbers, scale)
        case "pytorch_half_pixel":
            return aten(b, "where.self", is_many, centered, zeros)
        case "align_corners":
            at = aten(b, "div.Tensor", aten(b, "mul.Tensor", numbers, last), gaps)
            return aten(b, "where.self", is_many, at, zeros)
        case "half_pixel_symmetric":
            exact = aten(b, "div.Tensor", out, wanted)
            half = aten(b, "mul.Tensor", n, 0.5)
            shift = aten(b, "mul.Tensor", aten(b, "rsub.Scalar", exact, 1.0), half)
            return aten(b, "add.Tensor", centered, shift)
        case "tf_crop_and_resize" if ends is not None:
            begin, end = ends
            reach = aten(b, "mul.Tensor", aten(b, "sub.Tensor", end, begin), last)
            steps = aten(b, "div.Tensor", aten(b, "mul.Tensor", numbers, reach), gaps)
            many = aten(b, "add.Tensor", aten(b, "mul.Tensor", begin, last), steps)
            middle = aten(b, "mul.Tensor", aten(b, "mul.Tensor", aten(b, "add.Tensor", begin, end), last), 0.5)
            return aten(b, "where.self", is_many, many, aten(b, "add.Tensor", zeros, middle))
        case _:
            message = f"{coordinates} with computed sizes"
            raise UnsupportedError(message)


def _nearest(b: Builder, at: Value, last: Value, mode: str) -> Value:
    match mode:
        case "floor":
            found = aten(b, "floor", at)
        case "ceil":
            found = aten(b, "ceil", at)
        case "round_prefer_ceil":
            found = aten(b, "floor", aten(b, "add.Tensor", at, 0.5))
        case _:
            found = aten(b, "ceil", aten(b, "sub.Tensor", at, 0.5))
    kept = aten(b, "minimum", aten(b, "clamp", found, 0.0), last)
    return aten(b, "to.dtype", kept, DType.INT64)


def _weights(b: Builder, at: Value, count: Size, last: Value, scale: Value, stated: Sampling) -> Value:
    """Return the weight of each element of the source axis in each output element: [n, out]."""
    row = aten(b, "unsqueeze", at, 0)
    if stated.antialias:
        return _smoothed(b, row, count, last, scale, stated)
    column = aten(b, "unsqueeze", aten(b, "arange.start_step", 0, count, 1, dtype=DType.FLOAT32), 1)
    if stated.mode == "linear":
        inside = aten(b, "minimum", aten(b, "clamp", row, 0.0), last)
        return _tent(b, aten(b, "sub.Tensor", inside, column))
    base = aten(b, "floor", row)
    total: Value | None = None
    for tap in _TAPS:
        place = aten(b, "add.Tensor", base, float(tap))
        weight = _cubic(b, aten(b, "abs", aten(b, "sub.Tensor", row, place)), stated.a)
        kept = place
        if not stated.excludes_outside:
            kept = aten(b, "minimum", aten(b, "clamp", place, 0.0), last)
        hit = aten(b, "to.dtype", aten(b, "eq.Tensor", kept, column), DType.FLOAT32)
        part = aten(b, "mul.Tensor", hit, weight)
        total = part if total is None else aten(b, "add.Tensor", total, part)
    if total is None:
        raise UnsupportedError
    return _normalized(b, total) if stated.excludes_outside else total


def _smoothed(b: Builder, row: Value, count: Size, last: Value, scale: Value, stated: Sampling) -> Value:
    """Weights of an antialiasing kernel, which is widened by the downscaling factor."""
    if not isinstance(count, int):
        message = "antialiasing of an axis whose size is not constant"
        raise UnsupportedError(message)
    reach = 0 if stated.excludes_outside else count * (1 if stated.mode == "linear" else 2)
    places = aten(b, "arange.start_step", -reach, count + reach, 1, dtype=DType.FLOAT32)
    column = aten(b, "unsqueeze", places, 1)
    gaps = aten(b, "mul.Tensor", aten(b, "abs", aten(b, "sub.Tensor", row, column)), aten(b, "clamp", scale, None, 1.0))
    shares = _normalized(b, _tent(b, gaps) if stated.mode == "linear" else _cubic(b, gaps, stated.a))
    if not reach:
        return shares
    kept = aten(b, "minimum", aten(b, "clamp", places, 0.0), last)
    own = aten(b, "unsqueeze", aten(b, "arange.start_step", 0, count, 1, dtype=DType.FLOAT32), 1)
    ends = aten(b, "to.dtype", aten(b, "eq.Tensor", kept, own), DType.FLOAT32)
    return aten(b, "matmul", ends, shares)


def _normalized(b: Builder, weights: Value) -> Value:
    return aten(b, "div.Tensor", weights, aten(b, "sum.dim_IntList", weights, (0,), True))


def _tent(b: Builder, distance: Value) -> Value:
    """Linear kernel."""
    return aten(b, "clamp", aten(b, "rsub.Scalar", aten(b, "abs", distance), 1.0), 0.0)


def _cubic(b: Builder, t: Value, a: float) -> Value:
    """Cubic convolution kernel (Keys) at a distance."""

    def polynomial(*factors: float) -> Value:
        total = aten(b, "full_like", t, factors[0])
        for factor in factors[1:]:
            total = aten(b, "add.Tensor", aten(b, "mul.Tensor", total, t), factor)
        return total

    near, far = polynomial(a + 2, -(a + 3), 0.0, 1.0), polynomial(a, -5 * a, 8 * a, -4 * a)
    outer = aten(b, "where.self", aten(b, "lt.Scalar", t, 2), far, aten(b, "zeros_like", t))
    return aten(b, "where.self", aten(b, "le.Scalar", t, 1), near, outer)
