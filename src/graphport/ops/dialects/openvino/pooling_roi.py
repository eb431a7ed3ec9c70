"""Pooling of regions in OpenVINO that looks between entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.dialects.extents import entry, extent, joined
from graphport.ops.dialects.operands import cast, dtype_of, vector
from graphport.ops.pages.arithmetic import Add, Div, Max, Mul, Sub
from graphport.ops.pages.comparison import Greater, Less, Or, Where
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.reshape import Concat, Expand, Unsqueeze
from graphport.ops.pages.resize import GridSample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def bilinear_roi_pooling(b: Builder, x: Value, rois: Value, shape: Sequence[int]) -> Value:
    """What is between the entries of regions, given in parts of the picture, at the points of a grid over each."""
    own = b(Gather, x, cast(b, entry(b, rois, 0), DType.INT64), axis=0)
    size = joined(b, extent(b, rois, 0), *shape)
    sides: list[Value] = []
    outside: list[Value] = []
    for axis, count, place in ((3, shape[1], 1), (2, shape[0], 2)):
        last = b(Sub, cast(b, extent(b, x, axis), dtype_of(rois)), b.like(rois, 1))
        first, end = (b(Unsqueeze, entry(b, rois, column), vector(b, [1])) for column in (place, place + 2))
        steps = np.arange(count) / (count - 1) if count > 1 else np.full(1, 0.5)
        at = b(Mul, b(Add, first, b(Mul, b(Sub, end, first), b.like(rois, steps))), last)
        outside.append(b(Or, b(Less, at, b.like(rois, 0)), b(Greater, at, last)))
        spread = b(Sub, b(Div, b(Mul, at, b.like(rois, 2)), b(Max, last, b.like(rois, 1))), b.like(rois, 1))
        sides.append(b(Unsqueeze, spread, vector(b, [1 if axis == 3 else 2])))
    grid = b(Concat, *(b(Unsqueeze, b(Expand, side, size), vector(b, [3])) for side in sides), axis=3)
    found = b(GridSample, own, cast(b, grid, dtype_of(x)), mode="linear", padding_mode="border", align_corners=1)
    beyond = b(Or, b(Unsqueeze, outside[0], vector(b, [1])), b(Unsqueeze, outside[1], vector(b, [2])))
    return b(Where, b(Unsqueeze, beyond, vector(b, [1])), b.like(x, 0), found)
