"""Resampling of one axis at a time: source elements and weights of each output element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.ops.types import Tensor

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)

NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def nearest_entries(at: Tensor, nearest_mode: str) -> Tensor:
    """Round coordinates to integer positions by a rounding mode."""
    match nearest_mode:
        case "round_prefer_floor":
            return np.ceil(at - at.dtype.type(0.5))
        case "round_prefer_ceil":
            return np.floor(at + at.dtype.type(0.5))
        case "floor":
            return np.floor(at)
        case _:
            return np.ceil(at)


@dataclass(frozen=True, slots=True)
class Axis:
    """Resampling of one axis: `length` to `out` elements, `ratio` = new per old, from a region of interest."""

    axis: int
    length: int
    out: int
    ratio: float
    start: float = 0.0
    end: float = 1.0


def resampled(
    x: Tensor,
    axes: Sequence[Axis],
    *,
    mode: str,
    coordinates: str,
    nearest: str,
    a: float,
    excludes_outside: bool,
    antialiases: bool,
    extrapolation: float,
) -> Tensor:
    """`x` with every axis of `axes` sampled anew; the arguments are `Resize`'s attributes."""
    crops = coordinates == "tf_crop_and_resize"
    changed = [axis for axis in axes if axis.length != axis.out or axis.ratio != 1 or crops]
    y = x if mode == "nearest" else x.astype(np.float64)
    outside: list[tuple[int, Tensor]] = []
    for axis in changed:
        # The nearest entry and the ends of a region hang on the last bit: like the runtimes, count in float32 there.
        at = source_coordinates(axis, coordinates, np.dtype(np.float32 if crops or mode == "nearest" else np.float64))
        if crops:
            outside.append((axis.axis, (at < 0) | (at > axis.length - 1)))
        if mode == "nearest":
            y = np.take(y, np.clip(nearest_entries(at, nearest), 0, axis.length - 1).astype(np.int64), axis.axis)
            continue
        indices, weights = taps(at, axis, mode, a, antialiases=antialiases)
        if excludes_outside:
            inside = (indices >= 0) & (indices < axis.length)
            weights = np.where(inside, weights, 0)
            weights = weights / weights.sum(axis=1, keepdims=True)
        y = _mixed(y, axis.axis, np.clip(indices, 0, axis.length - 1), weights)
    y = rounded(y, x.dtype)
    for axis, mask in outside:
        y = np.where(mask.reshape(-1, *[1] * (x.ndim - axis - 1)), np.asarray(extrapolation).astype(x.dtype), y)
    return y


def source_coordinates(axis: Axis, coordinates: str, dtype: np.dtype[Any]) -> Tensor:
    """Return the source coordinate of each output element, computed in `dtype`."""
    real = dtype.type
    n, ratio, out = real(axis.length), real(axis.ratio), real(axis.out)
    one, half = real(1), real(0.5)
    y = np.arange(reserve(axis.out), dtype=dtype)
    width = ratio * n
    match coordinates:
        case "asymmetric":
            return y / ratio
        case "align_corners":
            return y * (n - one) / (width - one) if axis.out > 1 else y * real(0)
        case "tf_crop_and_resize":
            start, end, last = real(axis.start), real(axis.end), n - one
            if axis.out == 1:
                return y + (start + end) * last * half
            return start * last + y * (end - start) * last / (width - one)
        case "pytorch_half_pixel":
            return (y + half) / ratio - half if axis.out > 1 else y * real(0)
        case "half_pixel_symmetric":
            return n * half * (one - out / width) + (y + half) / ratio - half
        case _:
            return (y + half) / ratio - half


def taps(at: Tensor, axis: Axis, mode: str, a: float, *, antialiases: bool) -> tuple[Tensor, Tensor]:
    """Indices that each new entry reads, and their weights: [out, taps] twice; indices may lie outside."""
    left = np.ceil(at) - 1
    scale = min(axis.ratio, 1.0) if antialiases else 1.0
    half = 1 if mode == "linear" else 2
    start = int(np.floor(-half / scale) + 1)
    steps = np.arange(start, 2 - start)
    indices = (left[:, None] + steps).astype(np.int64)
    distances = np.abs(steps - (at - left)[:, None]) * scale
    weights = np.clip(1 - distances, 0, 1) if mode == "linear" else cubic(distances, a)
    if antialiases:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return indices, weights


def cubic(distance: Tensor, a: float) -> Tensor:
    """Keys' cubic convolution kernel with the coefficient `a`."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _mixed(x: Tensor, axis: int, indices: Tensor, weights: Tensor) -> Tensor:
    shape = (-1, *[1] * (x.ndim - axis - 1))
    total: Any = 0
    for tap in range(indices.shape[1]):
        total = total + np.take(x, indices[:, tap], axis) * weights[:, tap].reshape(shape)
    return total


def rounded(y: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Convert `y` to another type; integers are rounded half to even and saturated."""
    if y.dtype == dtype:
        return y
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.clip(np.rint(y), limits.min, limits.max).astype(dtype)
    return y.astype(dtype)
