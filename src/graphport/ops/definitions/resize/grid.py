"""Sampling at coordinates given by an operand, and generation of such coordinates."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any

import numpy as np

from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.resize.sampling import cubic, rounded
from graphport.ops.shapes import same_dim
from graphport.ops.types import ALL_4, FLOATS, INT64, Tensor, Types

T1 = Annotated[Tensor, Types("T1", ALL_4)]
T2 = Annotated[Tensor, Types("T2", FLOATS)]
Theta = Annotated[Tensor, Types("T1", FLOATS)]
Int64 = Annotated[Tensor, Types("T2", INT64)]

PADDING = ("zeros", "border", "reflection")


def _grid_sample_shape(
    x: TensorFact, grid: TensorFact, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> TensorFact:
    for what, found, allowed in (
        ("mode", mode, ("linear", "nearest", "cubic")),
        ("padding_mode", padding_mode, PADDING),
    ):
        if found not in allowed:
            message = f"{what} is {found!r}"
            raise ShapeError(message, ", ".join(allowed))
    if x.rank != grid.rank:
        message = f"x has rank {x.rank}, grid has rank {grid.rank}"
        raise ShapeError(message, "the ranks must be equal")
    if x.rank < 3:
        message = f"x has rank {x.rank}"
        raise ShapeError(message, "expected rank 3 or more: batch, channels, and at least one axis to sample")
    same_dim(x.rank - 2, grid.dims[-1], "spatial axes and numbers of a place")
    batch = same_dim(x.dims[0], grid.dims[0], "batch")
    return x.with_shape([batch, x.dims[1], *grid.dims[1:-1]])


@op(
    shape=_grid_sample_shape,
    since=20,
    exactness="accumulation",
    role="passive",
    index_operands=("grid",),
    ranks={"x": (3, None), "grid": (3, None)},
)
def GridSample(x: T1, grid: T2, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros") -> T1:
    """Sample `x` at the coordinates in `grid`, which range from -1 to 1 over each axis, last axis first.

    -1 and 1 are the centres of the first and last element if `align_corners`, else their outer edges. Outside are
    zeros, the edge element (`border`), or mirrored elements (`reflection`). `mode` selects the nearest element, ties to
    even, or interpolates between two or four elements per axis.

    Shapes: x [N, C, *d], grid [N, *out, rank of d] → [N, C, *out].

    Raises:
        ShapeError: ranks, batch or the number of coordinates do not fit, or a mode is unknown.

    Source: ONNX GridSample-22.
    """
    if x.dtype == object and mode != "nearest":
        message = f"strings have no {mode} interpolation"
        raise ShapeError(message, "set mode to nearest")
    dims = x.shape[2:]
    wide = np.result_type(grid.dtype, np.float32)
    # The grid names the last axis first.
    at = [_unnormalized(grid[..., -1 - i].astype(wide), n, align_corners) for i, n in enumerate(dims)]
    if mode == "nearest":
        found = [np.rint(place) for place in at]
        return _read(x, found, padding_mode, align_corners)
    if mode == "linear" and padding_mode != "zeros":
        at = [_inside(place, n, padding_mode, align_corners) for place, n in zip(at, dims, strict=True)]
    low = [np.floor(place) for place in at]
    steps = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
    weigh = _linear if mode == "linear" else _cubic
    total: Any = 0
    for corner in product(steps, repeat=len(dims)):
        entries = _read(x, [place + step for place, step in zip(low, corner, strict=True)], padding_mode, align_corners)
        weight: Any = 1.0
        for place, base, step in zip(at, low, corner, strict=True):
            weight = weight * weigh(np.abs(place - base - step))
        total = total + entries.astype(np.result_type(x.dtype, wide)) * weight[:, None]
    return rounded(total, x.dtype)


def _linear(distance: Tensor) -> Tensor:
    return np.clip(1 - distance, 0, 1)


def _cubic(distance: Tensor) -> Tensor:
    return cubic(distance, -0.75)


def _unnormalized(coordinate: Tensor, n: int, align_corners: int) -> Tensor:
    """Convert a coordinate in [-1, 1] to an index coordinate on an axis of length `n`."""
    return (coordinate + 1) / 2 * (n - 1) if align_corners else ((coordinate + 1) * n - 1) / 2


def _inside(coordinate: Tensor, n: int, padding: str, align_corners: int) -> Tensor:
    """Map coordinates outside the axis into it: clamp (`border`) or reflect."""
    if padding == "border":
        return np.clip(coordinate, 0, n - 1)
    low, high = (0.0, n - 1.0) if align_corners else (-0.5, n - 0.5)
    span = high - low
    if span == 0:
        return np.zeros_like(coordinate)
    # A triangle wave: forth over the axis, and back.
    back = np.mod(coordinate - low, 2 * span)
    return np.clip(np.where(back > span, 2 * span - back, back) + low, 0, n - 1)


def _read(x: Tensor, coordinates: list[Tensor], padding: str, align_corners: int) -> Tensor:
    """Return the elements of x [N, C, *d] at integer positions [N, *out], with padding outside: [N, C, *out]."""
    batch, channels, *dims = x.shape
    out = coordinates[0].shape[1:]
    flat = x.reshape(batch, channels, -1)
    index = np.zeros(coordinates[0].shape, np.int64)
    inside = np.ones(coordinates[0].shape, np.bool_)
    for place, n in zip(coordinates, dims, strict=True):
        known = np.nan_to_num(place, nan=-1.0)
        inside &= (known >= 0) & (known < n)
        wrapped = known if padding == "zeros" else _inside(known, n, padding, align_corners)
        index = index * n + np.clip(np.rint(wrapped), 0, n - 1).astype(np.int64)
    entries = np.take_along_axis(flat, index.reshape(batch, 1, -1), axis=2).reshape(batch, channels, *out)
    if padding != "zeros":
        return entries
    return np.where(inside[:, None], entries, "" if x.dtype == object else x.dtype.type(0)).astype(x.dtype)


def _affine_grid_shape(theta: TensorFact, size: TensorFact, *, align_corners: int = 0) -> TensorFact:
    if size.elements is None:
        if theta.shape is None or not isinstance(theta.shape[-1], int):
            return theta.with_shape(None)
        rank = theta.shape[-1] - 1
        return theta.with_shape([theta.dims[0], *[OPEN] * rank, rank])
    rank = len(size.elements) - 2
    if rank not in (2, 3):
        message = f"size has {rank + 2} entries"
        raise ShapeError(message, "expected 4 or 5 elements: (N, C, H, W) or (N, C, D, H, W)")
    if theta.shape is not None:
        if len(theta.shape) != 3:
            message = f"theta has rank {len(theta.shape)}"
            raise ShapeError(message, "expected rank 3: one matrix per sample")
        for what, found, wanted in zip(
            ("batch", "rows", "columns"), theta.shape, (size.elements[0], rank, rank + 1), strict=True
        ):
            same_dim(found, wanted, f"{what} of theta")
    return theta.with_shape([size.elements[0], *size.elements[2:], rank])


@op(
    shape=_affine_grid_shape,
    since=20,
    outputs=("grid",),
    exactness="accumulation",
    role="passive",
    index_operands=("size",),
    ranks={"theta": 3, "size": 1},
)
def AffineGrid(theta: Theta, size: Int64, *, align_corners: int = 0) -> Theta:
    """Return the coordinates, in the convention of `GridSample`, of an image transformed by the affine maps `theta`.

    Shapes: theta [N, r, r + 1], size [2 + r] = (N, C, *d) with r 2 or 3 → [N, *d, r].

    Raises:
        ShapeError: `theta` and `size` do not fit each other.

    Source: ONNX AffineGrid-20.
    """
    dims = [int(n) for n in size.reshape(-1)[2:]]
    wide = np.result_type(theta.dtype, np.float32)
    axes = [_centres(n, align_corners).astype(wide) for n in dims]
    grids = np.meshgrid(*axes, indexing="ij")
    # Coordinates list the last axis first; the constant 1 multiplies the translation.
    points = np.stack([*reversed(grids), np.ones(dims, wide)], axis=-1)
    moved = np.matmul(points.reshape(1, -1, len(dims) + 1), np.swapaxes(theta.astype(wide), 1, 2))
    return moved.reshape(theta.shape[0], *dims, len(dims)).astype(theta.dtype)


def _centres(n: int, align_corners: int) -> Tensor:
    """Return the coordinates in [-1, 1] of the `n` elements of an axis."""
    if align_corners:
        # An axis of length 1 has its only element in the centre, as in PyTorch.
        return np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
    return (2 * np.arange(n) + 1) / n - 1
