"""Export rules of reductions to TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.emitting import NUMERIC_TYPES, array_of, computed_in, in_int32, ints
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.einsum import einsum_by_matrices, products_under_mask
from graphport.ops.definitions.reduction.einsum import Einsum
from graphport.ops.definitions.reduction.running import CumProd
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"
_BOOLEAN_REDUCTIONS = {"REDUCE_MAX": "REDUCE_ANY", "REDUCE_MIN": "REDUCE_ALL"}


def _axes(b: Builder, data: Value, axes: Value | None, noop_with_empty_axes: int) -> Value:
    """Return the reduced axes; absent axes mean all or none."""
    numbers = array_of(axes)
    if axes is not None and numbers is None:
        count = (b.dims(axes) or (1,))[0]
        if not isinstance(count, int):
            message = "the rank must be known"
            raise UnsupportedError(message)
        if count:
            return in_int32(b, axes)
    if numbers is not None and numbers.size:
        return ints(b, numbers.reshape(-1).tolist())
    return ints(b, [] if noop_with_empty_axes else list(range(len(b.dims(data)))))


def _of_nothing(b: Builder, total: Value, *, is_least: bool) -> Value:
    """Result of an empty reduction: infinite where the sum is empty, while kernels return the largest finite float."""
    dtype = dtype_of(total)
    neutral = float("inf") if is_least else float("-inf")
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        neutral = limits.max if is_least else limits.min
    return emit(b, "SELECT_V2", emit(b, "EQUAL", total, total), b.like(total, neutral), total)


def _reduced(b: Builder, op_type: str, x: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int) -> Value:
    """Emit a reduction over the axes."""
    chosen = _axes(b, x, axes, noop_with_empty_axes)
    if dtype_of(x) is DType.BOOL and op_type in _BOOLEAN_REDUCTIONS:
        return emit(b, _BOOLEAN_REDUCTIONS[op_type], x, chosen, keep_dims=bool(keepdims))
    if op_type in _BOOLEAN_REDUCTIONS and 0 in b.dims(x):
        total = computed_in(b, NUMERIC_TYPES, "SUM", x, beside=(chosen,), keep_dims=bool(keepdims))
        return _of_nothing(b, total, is_least=op_type == "REDUCE_MIN")
    return computed_in(b, NUMERIC_TYPES, op_type, x, beside=(chosen,), keep_dims=bool(keepdims))


RULES.having(reduced=_reduced).export_rules("""
ReduceSum -> reduced("SUM", data, axes, keepdims, noop_with_empty_axes)
ReduceMean -> reduced("MEAN", data, axes, keepdims, noop_with_empty_axes)
ReduceProd -> reduced("REDUCE_PROD", data, axes, keepdims, noop_with_empty_axes)
ReduceMax -> reduced("REDUCE_MAX", data, axes, keepdims, noop_with_empty_axes)
ReduceMin -> reduced("REDUCE_MIN", data, axes, keepdims, noop_with_empty_axes)
ReduceL1 -> reduced("SUM", Abs(data), axes, keepdims, noop_with_empty_axes)
ReduceL2 -> Sqrt(reduced("SUM", Mul(data, data), axes, keepdims, noop_with_empty_axes))
ReduceSumSquare -> reduced("SUM", Mul(data, data), axes, keepdims, noop_with_empty_axes)
ReduceLogSum -> Log(reduced("SUM", data, axes, keepdims, noop_with_empty_axes))
ReduceLogSumExp
    -> most = ReduceMax(data, axes, noop_with_empty_axes=noop_with_empty_axes);
       total = ReduceSum(Exp(Sub(data, most)), axes, noop_with_empty_axes=noop_with_empty_axes);
       keepdims: Add(Log(total), most)
    -> ReduceMax(Add(Log(total), most), axes, keepdims=0, noop_with_empty_axes=noop_with_empty_axes)
""")


Einsum.export_rule("tflite")(einsum_by_matrices)
CumProd.export_rule("tflite")(products_under_mask)
