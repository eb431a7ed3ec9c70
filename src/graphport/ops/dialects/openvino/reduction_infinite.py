"""The largest of infinite numbers alone, which OpenVINO's plugin makes the lowest finite one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.infinities import infinities

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_KEEPS = frozenset(
    (
        *("Select", "Add", "Convert", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Broadcast", "Tile", "Concat"),
        *("Slice", "StridedSlice", "Gather", "Pad", "Maximum", "Minimum", "VariadicSplit", "Split", "ScatterNDUpdate"),
    )
)
"""What gives numbers that it is given."""
_FLOATS = frozenset({DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64})


def with_infinities(b: Builder, y: Value, data: Value, axes: Value, *, largest: bool, keepdims: int) -> Value:
    """`y`, the largest or least along some axes; infinite where a mask may have left nothing else there."""
    infinity = -np.inf if largest else np.inf
    dtype = getattr(data.fact, "dtype", None)
    if dtype not in _FLOATS or infinity not in infinities(data, _KEEPS):
        return y
    b.looks_around = True
    end = b.constant(infinity, dtype)
    is_end = emit(b, "opset1.Equal", data, end)
    only = emit(b, "opset1.ReduceLogicalAnd", is_end, axes, keep_dims=bool(keepdims))
    return emit(b, "opset1.Select", only, end, y)
