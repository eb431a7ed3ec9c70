"""Resizing in NNEF, which supports integer factors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import decide_equal
from graphport.formats.nnef.rules.convolution_borders import fact_of
from graphport.formats.nnef.rules.padding_borders import padded
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.pooling import AveragePool
from graphport.ops.definitions.reshape import Identity
from graphport.ops.definitions.resize import Resize, target
from graphport.ops.definitions.resize.sampling import Axis, resampled
from graphport.ops.lowering.operands import dtype_of, transposed
from graphport.ops.lowering.operands import sizes as known
from graphport.ops.views.resize import ResizeView

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Factors = tuple[int, ...]
Resample: TypeAlias = "Callable[[Any, Axis], Any]"

_METHODS = {"symmetric": "half_pixel", "asymmetric": "asymmetric", "aligned": "align_corners"}


def _checked(b: Builder, input: Value, factor: Factors, *, divides: bool) -> tuple[Dim, ...]:
    """Return the spatial dims, after checking `factor` against them."""
    dims = b.dims(input)[2:]
    if len(factor) != len(dims) or any(f < 1 for f in factor):
        message = f"factor {list(factor)} for {len(dims)} spatial axes"
        raise ShapeError(message, "write one positive value per axis")
    if divides and any(decide_equal(n % f, 0) is False for n, f in zip(dims, factor, strict=True)):
        message = f"factor {list(factor)} does not divide the extents {list(dims)}"
        raise ShapeError(message)
    return dims


@lower("nnef", "nearest_downsample")
def nearest_downsample(b: Builder, input: Value, *, factor: Factors) -> Value:
    """Downsample to the first element of each block of size `factor`."""
    rank = len(_checked(b, input, factor, divides=True))
    axes = np.arange(2, 2 + rank)
    ends = np.full(rank, np.iinfo(np.int64).max)
    return b(Slice, input, b.constant([0] * rank), b.constant(ends), b.constant(axes), b.constant(factor))


@lower("nnef", "area_downsample")
def area_downsample(b: Builder, input: Value, *, factor: Factors) -> Value:
    """Downsample to the mean of each block of size `factor`."""
    _checked(b, input, factor, divides=True)
    return b(AveragePool, input, kernel_shape=factor, strides=factor)


@lower("nnef", "nearest_upsample")
def nearest_upsample(b: Builder, input: Value, *, factor: Factors) -> Value:
    """Repeat each element `factor` times."""
    _checked(b, input, factor, divides=False)
    return b(
        Resize,
        input,
        None,
        _scales(b, factor),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _scales(b: Builder, factor: Factors) -> Value:
    return b.constant(np.array((1, 1, *factor), np.float32))


@lower("nnef", "multilinear_upsample")
def multilinear_upsample(
    b: Builder, input: Value, *, factor: Factors, method: str = "symmetric", border: str = "replicate"
) -> Value:
    """Interpolate linearly between neighbors; the border is padded as specified."""
    if method not in _METHODS:
        message = f"method is {method!r}"
        raise ShapeError(message, ", ".join(_METHODS))
    rank = len(_checked(b, input, factor, divides=False))
    # With the corners aligned nothing beyond the border is ever read.
    bordered = border != "replicate" and method != "aligned"
    x = padded(b, input, ((0, 0), (0, 0), *[(1, 1)] * rank), border) if bordered else input
    y = b(
        Resize,
        x,
        None,
        _scales(b, factor),
        mode="linear",
        coordinate_transformation_mode=_METHODS[method],
    )
    return b(Pad, y, b.constant([0, 0, *(-f for f in factor)] * 2)) if bordered else y


@ResizeView.export_rule("nnef")
def export_resize(b: Builder, op: ResizeView) -> tuple[Value, ...] | None:
    """Export Resize by integer factors if possible, else by a matrix per axis."""
    coordinates = op.coordinate_transformation_mode
    if coordinates == "tf_crop_and_resize":
        message = "NNEF has no crop-and-resize"
        raise UnsupportedError(message)
    if not (op.antialias or op.exclude_outside or op.keep_aspect_ratio_policy != "stretch" or op.mode == "cubic"):
        stated = _by_factors(b, op.x, op.scales, op.sizes, op.axes, op.mode, coordinates, op.nearest_mode)
        if stated is not None:
            return stated

    def resample(entries: Any, axis: Axis) -> Any:
        return resampled(
            entries,
            [axis],
            mode=op.mode,
            coordinates=coordinates,
            nearest=op.nearest_mode,
            a=op.cubic_coeff_a,
            excludes_outside=bool(op.exclude_outside),
            antialiases=bool(op.antialias),
            extrapolation=op.extrapolation_value,
        )

    return _by_axes(
        b, op.x, op.scales, op.sizes, op.axes, op.keep_aspect_ratio_policy, resample, picks=op.mode == "nearest"
    )


def _by_factors(
    b: Builder,
    x: Value,
    scales: Value | None,
    sizes: Value | None,
    axes: tuple[int, ...] | None,
    mode: str,
    coordinates: str,
    nearest_mode: str,
) -> tuple[Value, ...] | None:
    """Export Resize by integer factors of the spatial axes; nearest mode also supports integer divisors."""
    ratios = _ratios(b, x, scales, sizes, axes)
    if ratios is None or ratios[:2] != [1, 1]:
        return None
    up = tuple(int(ratio) for ratio in ratios[2:])
    if all(ratio == f and f >= 1 for ratio, f in zip(ratios[2:], up, strict=True)):
        if mode == "nearest":
            return b.emit("nearest_upsample", x, factor=up) if _repeats(coordinates, nearest_mode) else None
        method = _method(coordinates, up)
        return (
            None if method is None else b.emit("multilinear_upsample", x, factor=up, method=method, border="replicate")
        )
    if any(ratio > 1 for ratio in ratios[2:]):
        return None
    if 0 in ratios:
        return None
    down = tuple(round(1 / ratio) for ratio in ratios[2:])
    exact = all(ratio * f == 1 for ratio, f in zip(ratios[2:], down, strict=True))
    divides = all(isinstance(n, int) and n % f == 0 for n, f in zip(b.dims(x)[2:], down, strict=True))
    if mode == "nearest" and coordinates == "asymmetric" and nearest_mode == "floor" and exact and divides:
        return b.emit("nearest_downsample", x, factor=down)
    return None


def _ratios(
    b: Builder, x: Value, scales: Value | None, sizes: Value | None, axes: tuple[int, ...] | None
) -> list[float] | None:
    """Return the scale of each axis; `None` if it is not static."""
    if fact_of(x).shape is None:
        return None
    dims = b.dims(x)
    chosen = tuple(range(len(dims))) if axes is None else tuple(axis % len(dims) for axis in axes)
    ratios = [1.0] * len(dims)
    reals = None if scales is None else fact_of(scales).reals
    if reals:
        for axis, ratio in zip(chosen, reals, strict=True):
            ratios[axis] = ratio
        return ratios
    wanted = None if sizes is None else fact_of(sizes).elements
    if not wanted:
        return None
    for axis, size in zip(chosen, wanted, strict=True):
        n = dims[axis]
        if size == n:
            continue
        if not isinstance(n, int) or not isinstance(size, int) or n == 0:
            return None
        ratios[axis] = size / n
    return ratios


def _repeats(coordinates: str, nearest_mode: str) -> bool:
    """Whether nearest interpolation by an integer factor repeats each element."""
    if coordinates == "asymmetric":
        return nearest_mode == "floor"
    centred = coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
    return centred and nearest_mode.startswith("round")


def _method(coordinates: str, factor: Factors) -> str | None:
    if coordinates in ("half_pixel", "half_pixel_symmetric"):
        return "symmetric"
    # PyTorch's formula differs from the plain one where there is a single new entry, which a factor of 1 alone gives.
    if coordinates == "pytorch_half_pixel" and all(f > 1 for f in factor):
        return "symmetric"
    return {"asymmetric": "asymmetric", "align_corners": "aligned"}.get(coordinates)


def _by_axes(
    b: Builder,
    x: Value,
    scales: Value | None,
    sizes: Value | None,
    axes: tuple[int, ...] | None,
    policy: str,
    resample: Resample,
    *,
    picks: bool,
) -> tuple[Value, ...]:
    """Any resizing, an axis at a time: entries that are picked, or sums of entries, which are products.

    `resample` gives a new axis for an old one that an array has in front.
    """
    if not picks and not dtype_of(x).is_floating:
        message = "NNEF has no interpolation of integers"
        raise UnsupportedError(message)
    dims = b.dims(x)
    chosen = tuple(range(len(dims))) if axes is None else tuple(axis % len(dims) for axis in axes)
    by = None if scales is None or (stored := folded(scales)) is None else stored.numpy().reshape(-1)
    to = None if sizes is None else fact_of(sizes).elements
    if to is None and sizes is not None and (stored := folded(sizes)) is not None:
        to = tuple(int(size) for size in stored.numpy().reshape(-1))
    is_scaled = by is not None and by.size > 0
    given = list(by) if by is not None and is_scaled else list(to or ())
    if not given:
        message = "the new shape must be known"
        raise UnsupportedError(message)
    if policy == "stretch" and len(given) == len(chosen):  # other axes may be open
        resized = [(axis, n) for axis, n in zip(chosen, given, strict=True) if n != (1 if is_scaled else dims[axis])]
        chosen, given = tuple(axis for axis, _ in resized), [n for _, n in resized]
    lengths = list(known([dims[axis] for axis in chosen], "the shape of the resized tensor"))
    numbers = np.array(given) if is_scaled else np.array(known(given, "the new shape"), np.int64)
    wanted, ratios = target(lengths, numbers if is_scaled else None, None if is_scaled else numbers, policy)

    y = x
    for axis, n, out, ratio in zip(chosen, lengths, wanted, ratios, strict=True):
        if n == out and ratio == 1:
            continue
        plan = Axis(0, n, out, ratio)
        if picks:
            y = b(Gather, y, resample(np.arange(reserve(max(n, out))), plan), axis=axis)
        else:
            reserve(n, max(n, out))
            y = _mixed(b, y, axis, resample(np.eye(n), plan))
    return (b(Identity, y) if y is x else y,)


def _mixed(b: Builder, x: Value, axis: int, weights: Any) -> Value:
    """Multiply an axis by a weight matrix [out, in]."""
    rank = len(b.dims(x))
    if axis == rank - 2:
        return b(MatMul, b.like(x, weights), x)
    order = [place for place in range(rank) if place != axis] + [axis]
    mixed = b(MatMul, transposed(b, x, order), b.like(x, weights.T))
    return transposed(b, mixed, [order.index(place) for place in range(rank)])
