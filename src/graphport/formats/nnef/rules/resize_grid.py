"""GridSample and AffineGrid in NNEF: weighted sums over all rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.ops.declare import UnsupportedError, export_rule
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import needed, sizes
from graphport.ops.views.resize import GridSampleView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_PLANE = 2
_LINEAR, _NEAREST = frozenset(("linear", "bilinear")), frozenset(("nearest",))


@GridSampleView.export_rule("nnef")
def export_grid_sample(b: Builder, op: GridSampleView) -> Any:
    """y[c, p] = sum over h of v[h, p] * (sum over w of x[c, h, w] * u[w, p]), where u and v are 0 but next to p."""
    if op.mode not in (*_LINEAR, *_NEAREST) or op.padding_mode not in ("zeros", "border"):
        message = f"mode {op.mode} with padding_mode {op.padding_mode}"
        raise UnsupportedError(message)
    batch, channels, *plane = sizes(b.dims(op.x))
    points = sizes(b.dims(op.grid))[1:-1]
    if len(plane) != _PLANE or 0 in (*plane, *points):
        return None
    count = points[0] * points[1]
    reserve(batch, channels, plane[0], count, what="interpolation weights")
    emit, is_near = OpBuilder(b), op.mode in _NEAREST
    flat = emit("Reshape", op.grid, [batch, count, _PLANE])
    columns, rows = (
        _weights(b, flat, at, plane[1 - at], bool(op.align_corners), is_near, op.padding_mode == "border")
        for at in (0, 1)
    )
    over = emit("MatMul", emit("Reshape", op.x, [batch, channels * plane[0], plane[1]]), columns)
    over = emit("Reshape", over, [batch, channels, plane[0], count])
    weighted = emit("Mul", over, emit("Unsqueeze", rows, [1]))
    y = emit("ReduceSum", weighted, [2], keepdims=0)
    return (emit("Reshape", y, [batch, channels, *points]),)


def _weights(b: Builder, grid: Value, axis: int, length: int, aligned: bool, is_near: bool, is_held: bool) -> Value:
    """Return the weight of each element of an axis in each sample point: [batch, length, points]."""
    emit = OpBuilder(b)
    ends = [b.integers([axis]), b.integers([axis + 1]), b.integers([2])]
    place = emit("Transpose", emit("Slice", grid, *ends), perm=(0, 2, 1))
    # From -1 to 1 lie the middles of the outer entries, or their far edges.
    scale, shift = ((length - 1) / 2, (length - 1) / 2) if aligned else (length / 2, (length - 1) / 2)
    place = emit("Add", emit("Mul", place, b.like(grid, scale)), b.like(grid, shift))
    if is_held:
        place = emit("Clip", place, 0.0, float(length - 1))
    every = b.like(grid, np.arange(length).reshape(1, length, 1))
    if is_near:
        same = emit("Equal", emit("Round", place), every)
        return emit("Where", same, b.like(grid, 1.0), b.like(grid, 0.0))
    return emit("Relu", emit("Sub", b.like(grid, 1.0), emit("Abs", emit("Sub", place, every))))


@export_rule("nnef", "AffineGrid")
def export_affine_grid(b: Builder, theta: Value, size: Value, *, align_corners: int = 0) -> Any:
    """Export AffineGrid: multiply the stored identity grid by the matrix."""
    extents = needed(size, "the size")
    plane = extents[2:]
    axes = len(plane)
    reserve(*plane, axes + 1, what="places")
    ends = [1.0 if align_corners else (n - 1) / n for n in plane]
    lines = [np.linspace(-end, end, n) if n > 1 else np.zeros(1) for end, n in zip(ends, plane, strict=True)]
    coordinates = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(plane)], -1)
    emit = OpBuilder(b)
    flat = b.like(theta, coordinates.reshape(1, -1, axes + 1))
    y = emit("MatMul", flat, emit("Transpose", theta, perm=(0, 2, 1)))
    return (emit("Reshape", y, [extents[0], *plane, axes]),)
