"""Reductions in a form that OpenVINO's CPU plugin computes correctly.

The plugin returns the lowest finite number as the maximum of elements that are all -inf.

It fuses following elementwise operators into a reduction (2026.4.1). For the last of three axes it then broadcasts one
element of a constant to all rows: `ReduceMean(x: f32[2, 5, 6], -1) + c: f32[5]` adds the last element of `c` to each.
With an additional reduced axis of length 1 before the last the result is correct, at no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ir.graph import Node
from graphport.ops.constant_folding import folded
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.infinities import infinities
from graphport.ops.lowering.operands import integers, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


_FARTHEST = 32
"""Maximum number of operators after a reduction that are searched."""


def reduced(b: Builder, op_type: str, data: Value, axes: Value, keepdims: int) -> Value:
    """Emit the reduction `op_type`, over two axes where OpenVINO's plugin needs that (see the module)."""
    dims = b.dims(data)
    along = integers(axes)
    is_last = len(dims) == 3 and along is not None and {axis % 3 for axis in along} == {2}
    if not is_last or dims[0] == 1 or not _meets_constants(b):
        return emit(b, op_type, data, axes, keep_dims=bool(keepdims))
    unsqueezed = emit(b, "opset1.Unsqueeze", data, vector(b, [2]))
    y = emit(b, op_type, unsqueezed, vector(b, [2, 3]), keep_dims=False)
    return emit(b, "opset1.Unsqueeze", y, vector(b, [2])) if keepdims else y


def _meets_constants(b: Builder) -> bool:
    """Whether elementwise operators after the current one read constants with several elements."""
    b.looks_around = True
    pending = [] if b.before is None else list(b.before.results)
    seen = 0
    while pending and seen < _FARTHEST:
        value = pending.pop()
        for user, _ in value.uses:
            if not isinstance(user, Node):
                continue
            seen += 1
            # This includes values folded from constants, such as dequantized weights.
            numbers = [folded(each) for each in user.operands if each is not value]
            if any(each is not None and each.count > 1 for each in numbers):
                return True
            pending += [result for result in user.results if result.fact == value.fact]
    return False


_KEEPS = frozenset(
    (
        *("Select", "Add", "Convert", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Broadcast", "Tile", "Concat"),
        *("Slice", "StridedSlice", "Gather", "Pad", "Maximum", "Minimum", "VariadicSplit", "Split", "ScatterNDUpdate"),
    )
)
"""Operators whose result contains only elements of their operands."""
_FLOATS = frozenset({DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64})


def with_infinities(b: Builder, y: Value, data: Value, axes: Value, *, largest: bool, keepdims: int) -> Value:
    """Replace a maximum or minimum by the infinity where all reduced elements are that infinity."""
    infinity = -np.inf if largest else np.inf
    dtype = getattr(data.fact, "dtype", None)
    if dtype not in _FLOATS or infinity not in infinities(data, _KEEPS):
        return y
    b.looks_around = True
    end = b.constant(infinity, dtype)
    is_end = emit(b, "opset1.Equal", data, end)
    only = emit(b, "opset1.ReduceLogicalAnd", is_end, axes, keep_dims=bool(keepdims))
    return emit(b, "opset1.Select", only, end, y)
