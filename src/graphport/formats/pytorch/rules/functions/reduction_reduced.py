"""Reductions with PyTorch's arguments."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import axes_of, scalar_of
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import OpDef
from graphport.ops.definitions.reduction import ReduceMax, ReduceMin
from graphport.ops.lowering.operands import dtype_of, vector

_WITHOUT_EXTREMES = (DType.INT16, DType.UINT16, DType.BOOL)
"""Types that ONNX's ReduceMax and ArgMax, or ONNX Runtime's kernels, lack."""


def widen_narrow(b: Builder, x: Value) -> Value:
    """Cast to int32 if the type of `x` has no ReduceMax."""
    return cast(b, x, DType.INT32) if dtype_of(x) in _WITHOUT_EXTREMES else x


def reduced(b: Builder, op_def: OpDef, x: Value, dim: Any, *, keepdim: Any) -> Value:
    """Reduce `x` over the axes `dim` by `op_def`; `None` means all axes."""
    rank = len(b.dims(x))
    if not rank:
        return x
    is_extreme = op_def in (ReduceMax, ReduceMin)
    found = b(
        op_def,
        widen_narrow(b, x) if is_extreme else x,
        vector(b, axes_of(dim, rank)),
        keepdims=None if scalar_of(keepdim) else 0,
    )
    return cast(b, found, dtype_of(x)) if is_extreme else found


def named(b: Builder, operator: str, x: Value, dim: Any, *, keepdim: Any) -> Value:
    """Reduce `x` over the axes `dim` (`None`: all) by the canonical operator with this name."""
    return reduced(b, registry.op_defs()[operator], x, dim, keepdim=keepdim)
