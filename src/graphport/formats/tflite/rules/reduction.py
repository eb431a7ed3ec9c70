"""Reductions in TFLite."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import NARROW, Operator, import_rule
from graphport.formats.tflite.rules.reduction_integers import product
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.formats.tflite.rules.tables import halvings, integers_of, quotient_of, rounded_twice
from graphport.ops import registry
from graphport.ops.definitions.reduction.indices import ArgMax, ArgMin, TopK
from graphport.ops.definitions.reduction.running import CumSum
from graphport.ops.definitions.reshape import Identity
from graphport.ops.lowering.operands import (
    as_index,
    as_scalar,
    as_vector,
    cast,
    distinct_axes,
    dtype_of,
    integers,
    needed_integer,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

_NARROW = NARROW | {DType.BOOL}


def _reduced(b: Builder, operator: str, x: Value, axes: Value, keep_dims: Any) -> Value:
    chosen, own = distinct_axes(b, x, axes), dtype_of(x)
    if chosen is None:
        return b(Identity, x)
    op_def, wide = registry.op_defs()[operator], DType.INT32 if own in _NARROW else own
    return cast(b, b(op_def, cast(b, x, wide), chosen, keepdims=int(keep_dims), noop_with_empty_axes=1), own)


_ROWS = RULES.having(reduced=_reduced)
_ROWS.lower(
    """
SUM(x, axes, *, keep_dims=False) -> reduced("ReduceSum", x, axes, keep_dims)
REDUCE_ANY(x, axes, *, keep_dims=False) -> reduced("ReduceMax", x, axes, keep_dims)
REDUCE_ALL(x, axes, *, keep_dims=False) -> reduced("ReduceMin", x, axes, keep_dims)
""",
    layout="axes",
)
_ROWS.lower(
    """
REDUCE_MAX(x, axes, *, keep_dims=False) -> reduced("ReduceMax", x, axes, keep_dims)
REDUCE_MIN(x, axes, *, keep_dims=False) -> reduced("ReduceMin", x, axes, keep_dims)
""",
    moves=True,
    layout="axes",
)
# Integers are rounded after each factor, as in the kernel.
_ROWS.lower(
    'REDUCE_PROD(x, axes, *, keep_dims=False) -> reduced("ReduceProd", x, axes, keep_dims)',
    first=product,
    layout="axes",
)


def _short_mean(op: Operator) -> Value | None:
    """Mean over axes of int16, rounded twice as in the kernel; `None` for other types.

    LiteRT computes int8 means by XNNPACK, which rounds once, unless XNNPACK is disabled.
    """
    axes, entry, dims = integers(op.raw(1)), op.quantization(0), op.dims(0)
    if not axes or entry is None or entry[0] is not DType.INT16:
        return None
    lengths = [dims[axis] for axis in dict.fromkeys(axis % len(dims) for axis in axes) if axis < len(dims)]
    known = [n for n in lengths if isinstance(n, int)]
    count = prod(known) if len(known) == len(lengths) else 0
    shift = halvings(quotient_of(op), count) if count else 0
    whole = integers_of(op) if shift >= 1 else None
    if whole is None:
        return None
    mean = _reduced(op.b, "ReduceMean", whole, op.raw(1), op.option("keep_dims", default=False))
    return rounded_twice(op, mean, quotient_of(op), shift)


_ROWS.lower(
    'MEAN(x, axes, *, keep_dims=False) -> reduced("ReduceMean", x, axes, keep_dims)', first=_short_mean, layout="axes"
)


def _register_arg_reduction(name: str, op_def: OpDef) -> None:
    @import_rule(name, is_raw=True)
    def rule(op: Operator) -> Value:
        axis = needed_integer(op.raw(1), "the axis")
        x = op.raw(0)
        if dtype_of(x) in _NARROW:
            x = cast(op.b, x, DType.INT32)
        return cast(op.b, op.b(op_def, x, axis=axis, keepdims=0), op.types[0] or DType.INT64)

    del rule


_register_arg_reduction("ARG_MAX", ArgMax)
_register_arg_reduction("ARG_MIN", ArgMin)


@import_rule("TOPK_V2", moves=True)
def topk_v2(op: Operator) -> tuple[Value, Value]:
    """TOPK_V2: the k largest elements along the last axis in descending order, and their indices."""
    b, x = op.b, op[0]
    own = dtype_of(x)
    wide = cast(b, x, DType.INT32) if own in _NARROW else x
    values, indices = b.results(TopK, 2, wide, as_vector(b, op.raw(1)))
    return cast(b, values, own), cast(b, indices, op.type_of(1) or DType.INT32)


@import_rule("CUMSUM")
def cumsum(op: Operator) -> Value:
    """CUMSUM: cumulative sums, inclusive or exclusive, forward or reverse."""
    axis = as_index(op.b, as_scalar(op.b, op.raw(1)))
    flags = {name: int(op.option(name, default=False)) or None for name in ("exclusive", "reverse")}
    return op.b(CumSum, op[0], axis, **flags)
