"""Export rule of GridSample to TFLite: gather and weight the neighbours of each sample."""

from __future__ import annotations

from functools import partial, reduce
from itertools import product
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.decompositions.affine_grid import affine_grid_by_matrix
from graphport.ops.definitions.arithmetic import Abs, Add, Floor, Max, Min, Mod, Mul, Round, Sub
from graphport.ops.definitions.comparison import And, Less, LessOrEqual, Where
from graphport.ops.definitions.indexing import GatherND, Slice
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.definitions.resize import AffineGrid
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, transposed
from graphport.ops.views.resize import GridSampleView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"
_CUBIC = -0.75


@GridSampleView.export_rule("tflite")
def export_grid_sample(b: Builder, op: GridSampleView) -> Exported:
    """Sum of the weighted neighbours of each sample."""
    if dtype_of(op.x) is not DType.FLOAT32 or dtype_of(op.grid) is not DType.FLOAT32:
        return None
    batch, channels, *space = sizes(b.dims(op.x), "the image")
    _, *spatial, count = sizes(b.dims(op.grid), "the grid")
    rows = reshaped(b, transposed(b, op.x, (0, *range(2, len(space) + 2), 1)), (batch, prod(space), channels))
    # The last image axis is first in the grid.
    columns = [_column(b, op.grid, (batch, prod(spatial)), count - 1 - axis) for axis in range(count)]
    spots = [
        _pixels(b, column, n, op.padding_mode, aligned=bool(op.align_corners))
        for column, n in zip(columns, space, strict=True)
    ]
    reads = [_neighbour_weights(b, spot, op.mode) for spot in spots]
    parts: list[Value] = []
    for corner in product(*reads):
        picked = _read(b, rows, [place for place, _ in corner], space, op.padding_mode, aligned=bool(op.align_corners))
        shares = [part for _, part in corner if part is not None]
        if shares:
            picked = b(Mul, picked, b(Unsqueeze, reduce(partial(b, Mul), shares), [2]))
        parts.append(picked)
    total = reduce(partial(b, Add), parts)
    y = reshaped(b, total, (batch, *spatial, channels))
    return (transposed(b, y, (0, len(spatial) + 1, *range(1, len(spatial) + 1))),)


def _column(b: Builder, grid: Value, shape: Sequence[int], place: int) -> Value:
    last = len(b.dims(grid)) - 1
    found = b(Slice, grid, [place], [place + 1], [last])
    return reshaped(b, found, shape)


def _pixels(b: Builder, spot: Value, n: int, padding: str, *, aligned: bool) -> Value:
    """Convert grid coordinates (-1 to 1) to pixel coordinates, mapped into the image by the padding mode."""
    half = (n - 1) / 2 if aligned else n / 2
    pixels = b(Add, b(Mul, spot, half), half - (0 if aligned else 0.5))
    return pixels if padding != "reflection" else _reflected(b, pixels, n, aligned=aligned)


def _reflected(b: Builder, coordinates: Value, n: int, *, aligned: bool) -> Value:
    low, high = (0.0, n - 1.0) if aligned else (-0.5, n - 0.5)
    span = high - low
    if span <= 0:
        return b(Mul, coordinates, 0)
    ahead = b(Mod, b(Abs, b(Sub, coordinates, low)), 2 * span, fmod=1)
    back = b(Sub, 2 * span, ahead)
    return b(Add, b(Min, ahead, back), low)


def _neighbour_weights(b: Builder, spot: Value, mode: str) -> list[tuple[Value, Value | None]]:
    """Return pairs of integer coordinate and interpolation weight along an axis; weight `None` for nearest mode."""
    if mode == "nearest":
        return [(b(Round, spot), None)]
    first = b(Floor, spot)
    t = b(Sub, spot, first)
    if mode == "linear":
        return [(first, b(Sub, 1, t)), (b(Add, first, 1), t)]
    found: list[tuple[Value, Value | None]] = []
    for offset in (-1, 0, 1, 2):
        gap = b(Abs, b(Sub, t, offset))
        found.append((b(Add, first, offset), _cubic(b, gap, is_far=offset in (-1, 2))))
    return found


def _cubic(b: Builder, x: Value, *, is_far: bool) -> Value:
    """Cubic convolution kernel (Keys) for distances below 1, and between 1 and 2."""
    a = _CUBIC
    terms = (a, -5 * a, 8 * a, -4 * a) if is_far else (a + 2, -(a + 3), 0.0, 1.0)
    y = b.like(x, terms[0])
    for term in terms[1:]:
        y = b(Add, b(Mul, y, x), term)
    return y


def _read(
    b: Builder, rows: Value, coordinates: Sequence[Value], space: Sequence[int], padding: str, *, aligned: bool
) -> Value:
    """Gather elements at integer coordinates [batch, count]; zeros outside, or the nearest element."""
    inside: list[Value] = []
    flat: list[Value] = []
    for spot, n in zip(coordinates, space, strict=True):
        place = _reflected(b, spot, n, aligned=aligned) if padding == "reflection" else spot
        inside.append(b(And, b(LessOrEqual, 0, place), b(Less, place, n - 0.5)))
        kept = cast(b, b(Max, b(Min, place, n - 1), 0), DType.INT64)
        flat = [b(Add, b(Mul, before, b.constant(np.asarray(n, np.int64))), kept) for before in flat] or [kept]
    found = b(GatherND, rows, b(Unsqueeze, flat[0], [2]), batch_dims=1)
    if padding != "zeros":
        return found
    return b(Where, b(Unsqueeze, reduce(partial(b, And), inside), [2]), found, 0)


AffineGrid.export_rule("tflite")(affine_grid_by_matrix)
