"""Pooling over regions or indices of another operand."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import check_rank, pairs, same_dim
from graphport.ops.types import FLOATS, INT64, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.pooling import MaxUnpoolView

T = Annotated[Tensor, Types("T", FLOATS)]
T1 = Annotated[Tensor, Types("T1", FLOATS)]
T2 = Annotated[Tensor, Types("T2", INT64)]


def _unpooled(
    dims: tuple[Dim, ...],
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
) -> tuple[Dim, ...]:
    """Return the spatial dims of the input of a pooling with output `dims`.

    Raises:
        ShapeError: an attribute has the wrong number of elements.
    """
    rank = len(dims)
    for what, found, length in (
        ("kernel_shape", kernel_shape, rank),
        ("strides", strides, rank),
        ("pads", pads, 2 * rank),
    ):
        if found is not None and len(found) != length:
            message = f"{what} {found} has {len(found)} entries for {rank} spatial axes"
            raise ShapeError(message, f"{length} are needed")
    steps, cut = strides or (1,) * rank, pairs(pads or (0,) * 2 * rank)
    axes = zip(dims, kernel_shape, steps, cut, strict=True)
    return tuple((n - 1) * s + k - p - q for n, k, s, (p, q) in axes)


@viewed
def _max_unpool_shape(op: MaxUnpoolView[TensorFact]) -> TensorFact:
    rank = check_rank(op.x, 3, "x")
    if op.i.shape is not None:
        if op.i.rank != rank:
            message = f"x has rank {rank}, i has rank {op.i.rank}"
            raise ShapeError(message, "the ranks must be equal: i has an index for each element of x")
        for axis, (a, b) in enumerate(zip(op.x.dims, op.i.dims, strict=True)):
            same_dim(a, b, f"axis {axis} of x and i")
    inferred = (*op.x.dims[:2], *_unpooled(op.x.dims[2:], op.kernel_shape, op.pads, op.strides))
    if op.output_shape is None:
        return op.x.with_shape(inferred)
    if op.output_shape.elements is None:
        return op.x.with_shape([OPEN] * rank)
    if len(op.output_shape.elements) != rank:
        message = f"output_shape has {len(op.output_shape.elements)} entries, x has rank {rank}"
        raise ShapeError(message)
    return op.x.with_shape(op.output_shape.elements)


@op(
    shape=_max_unpool_shape,
    since=9,
    outputs=("output",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("i", "output_shape"),
    ranks={"x": (3, None), "i": (3, None), "output_shape": 1},
)
def MaxUnpool(
    x: T1,
    i: T2,
    output_shape: T2 | None = None,
    *,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> T1:
    """Inverse of MaxPool: zeros, with the elements of `x` at the indices `i` that `MaxPool` returned.

    Indices refer to the flattened shape before pooling; a larger `output_shape` adds zeros at the ends.

    Shapes: x [N, C, *d], i [N, C, *d], output_shape [2 + rank] → [N, C, *((d-1)*stride + k - p - q)] or `output_shape`.

    Raises:
        ShapeError: the shapes of `x` and `i` differ, or an attribute has the wrong number of elements.
        IndexError: an index is out of range.

    Source: ONNX MaxUnpool-22.
    """
    shape = [int(n) for n in (*x.shape[:2], *_unpooled(x.shape[2:], kernel_shape, pads, strides)) if isinstance(n, int)]
    flat = np.zeros(prod(shape), x.dtype)
    flat[i.reshape(-1)] = x.reshape(-1)
    y = flat.reshape(shape)
    if output_shape is None:
        return y
    wanted = [int(n) for n in output_shape.reshape(-1)]
    kept = tuple(slice(0, min(a, b)) for a, b in zip(shape, wanted, strict=True))
    result = np.zeros(wanted, x.dtype)
    result[kept] = y[kept]
    return result


def _max_roi_pool_shape(
    x: TensorFact, rois: TensorFact, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0
) -> TensorFact:
    if len(pooled_shape) != 2 or any(n < 1 for n in pooled_shape):
        message = f"pooled_shape is {pooled_shape}"
        raise ShapeError(message, "expected two positive integers: rows and columns")
    if spatial_scale <= 0:
        message = f"spatial_scale is {spatial_scale}"
        raise ShapeError(message, "expected a positive number")
    if x.shape is not None and x.rank != 4:
        message = f"x has rank {x.rank}"
        raise ShapeError(message, "expected rank 4: [N, C, H, W]")
    if rois.shape is not None and rois.rank != 2:
        message = f"rois has rank {rois.rank}"
        raise ShapeError(message, "expected rank 2: rows of batch index, left, top, right, bottom")
    if rois.shape is not None:
        same_dim(5, rois.dims[1], "numbers that describe a region")
    count = OPEN if rois.shape is None else rois.dims[0]
    channels = OPEN if x.shape is None else x.dims[1]
    return x.with_shape([count, channels, *pooled_shape])


@op(
    shape=_max_roi_pool_shape,
    since=1,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("rois",),
    ranks={"x": 4, "rois": 2},
)
def MaxRoiPool(x: T, rois: T, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0) -> T:
    """Maximum of each cell of a grid over each region; 0 for a cell without elements.

    A region is (batch index, left, top, right, bottom), both ends included, times `spatial_scale` in entries of `x`.

    Shapes: x [N, C, H, W], rois [R, 5] → [R, C, *pooled_shape].

    Raises:
        ShapeError: a shape or attribute has the wrong number of entries.
        IndexError: a batch index is outside of `x`.

    Source: ONNX MaxRoiPool-22.
    """
    rows, columns = pooled_shape
    y = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
    for number, roi in enumerate(rois.astype(np.float64)):
        image = x[int(roi[0])]
        left, top, right, bottom = (_rounded(edge * spatial_scale) for edge in roi[1:])
        vertical = _cells(top, bottom, rows, x.shape[2])
        horizontal = _cells(left, right, columns, x.shape[3])
        for row, (y0, y1) in enumerate(vertical):
            for column, (x0, x1) in enumerate(horizontal):
                if y0 < y1 and x0 < x1:
                    y[number, :, row, column] = image[:, y0:y1, x0:x1].max(axis=(1, 2))
    return y


def _rounded(x: float) -> int:
    """Round to the nearest integer, ties away from zero."""
    return int(np.copysign(np.floor(abs(x) + 0.5), x))


def _cells(begin: int, end: int, count: int, limit: int) -> list[tuple[int, int]]:
    """Divide the indices `begin` to `end` into `count` half-open ranges, clipped to [0, limit]."""
    size = max(end - begin + 1, 1) / count
    cells = [(int(np.floor(i * size)), int(np.ceil((i + 1) * size))) for i in range(count)]
    return [(min(max(a + begin, 0), limit), min(max(b + begin, 0), limit)) for a, b in cells]
