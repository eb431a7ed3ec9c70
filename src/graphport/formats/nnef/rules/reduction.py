"""Reductions in NNEF, which keep reduced axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.formula import RULES, term
from graphport.ir.graph import Node
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError, export_rule, lower
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.reduction import (
    ArgMax,
    ArgMin,
    CumProd,
    CumSum,
    ReduceLogSumExp,
    ReduceProd,
)
from graphport.ops.definitions.reshape import Concat, Identity, Reshape, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.infinities import infinities
from graphport.ops.lowering.operands import dtype_of, integers, sizes, slice_axis
from graphport.ops.pattern import constant_numbers
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

Exported: TypeAlias = "tuple[Value, ...] | None"


def reduced(b: Builder, op_def: OpDef, input: Value, axes: tuple[int, ...]) -> Value:
    """Emit a canonical reduction over `axes` with kept dims; a copy for no axes."""
    return b(op_def, input, b.constant(np.array(axes, np.int64)), keepdims=1, noop_with_empty_axes=1)


RULES.lower("""
mean_reduce(input, *, axes) -> ReduceMean(input, axes, keepdims=1, noop_with_empty_axes=1)
max_reduce, any_reduce(input, *, axes) -> ReduceMax(input, axes, keepdims=1, noop_with_empty_axes=1)
min_reduce, all_reduce(input, *, axes) -> ReduceMin(input, axes, keepdims=1, noop_with_empty_axes=1)
sum_reduce(input, *, axes, normalize)
    -> normalize: ReduceMean(input, axes, keepdims=1, noop_with_empty_axes=1)
    -> ReduceSum(input, axes, keepdims=1, noop_with_empty_axes=1)
# The mean, and the mean square of what differs from it.
moments(input, *, axes)
    -> rest = Sub(input, mean := ReduceMean(input, axes, keepdims=1, noop_with_empty_axes=1));
       (mean, ReduceMean(Mul(rest, rest), axes, keepdims=1, noop_with_empty_axes=1))
""")


def _static_axes(b: Builder, data: Value, axes: Value | None, noop: int) -> tuple[int, ...] | None:
    """Return the reduced axes in order; `None` if they are known only at run time."""
    rank = len(b.dims(data))
    given = () if axes is None else constant_numbers(axes)
    if given is None:
        return None
    return tuple(sorted(axis_index(int(axis), rank) for axis in given)) or (() if noop else tuple(range(rank)))


def _emitted(
    b: Builder,
    op_type: str,
    data: Value,
    axes: Value | None,
    keepdims: int,
    noop_with_empty_axes: int,
    before: str | None = None,
    after: str | None = None,
) -> Value | None:
    """Emit a reduction with elementwise operators before and after it."""
    chosen = _static_axes(b, data, axes, noop_with_empty_axes)
    fact = data.fact
    if chosen is None or not isinstance(fact, TensorFact):
        return None
    x = data if before is None else term(b, before, data)
    logical = _LOGICAL.get(op_type, op_type) if fact.dtype is DType.BOOL else op_type
    kept = fact.with_shape([1 if axis in chosen else dim for axis, dim in enumerate(fact.dims)])
    attributes = {"normalize": False} if op_type == "sum_reduce" else {}
    (y,) = b.emit(logical, x, facts=[kept], axes=chosen, **attributes)
    if logical in _INFINITIES:
        y = _with_infinities(b, y, x, chosen, _INFINITIES[logical])
    if after is not None:
        (y,) = b.emit(after, y, facts=[kept])
    return y if keepdims or not chosen else b.emit("squeeze", y, axes=chosen)[0]


_LOGICAL = {"max_reduce": "any_reduce", "min_reduce": "all_reduce"}
"""What extremes of logical tensors are called."""
_INFINITIES = {"max_reduce": -np.inf, "min_reduce": np.inf}
"""The extreme of no finite elements; tract 0.23 returns the finite number next to it."""
_KEEPS = frozenset(
    (
        *("select", "add", "reshape", "squeeze", "unsqueeze", "transpose", "tile", "concat", "slice", "pad", "split"),
        *("max", "min", "copy", "unstack", "stack", "tract_core_cast", "tract_core_broadcast", "tract_core_gather"),
        *("tract_core_scatter_nd", "tract_core_gather_nd", "tract_core_trilu"),
    )
)
"""Operators whose results contain elements of their operands."""


def _is_compared(b: Builder) -> bool:
    """Whether a consumer tests the extreme for infinity: the safe softmax of an attention with a mask does."""
    node = b.before
    users = [] if node is None else [use.user for result in node.results for use in result.uses]
    return any(isinstance(user, Node) and _is_test(user) for user in users)


def _is_test(node: Node) -> bool:
    numbers = [folded(operand) for operand in node.operands]
    infinite = any(each is not None and each.count == 1 and np.isinf(each.numpy()).all() for each in numbers)
    return node.op_type == "IsInf" or (node.op_type == "Equal" and infinite)


def _with_infinities(b: Builder, y: Value, data: Value, axes: tuple[int, ...], infinity: float) -> Value:
    """`y`, an extreme of `data`, with `infinity` where a mask may have left no other element."""
    fact = data.fact
    b.looks_around = True
    is_needed = dtype_of(data).is_floating and (_is_compared(b) or infinity in infinities(data, _KEEPS))
    if not axes or not is_needed:
        return y
    truths = TensorFact(DType.BOOL, fact.shape if isinstance(fact, TensorFact) else None)
    differs = term(b, "ne", data, infinity, fact=truths)
    kept = TensorFact(DType.BOOL, y.shape)
    is_finite = term(b, "any_reduce", differs, fact=kept, axes=axes)
    return b.emit("select", is_finite, y, b.like(y, infinity), facts=[y.fact])[0]


RULES.having(reduced=_emitted).export_rules("""
ReduceMean -> reduced("mean_reduce", data, axes, keepdims, noop_with_empty_axes)
ReduceMax -> reduced("max_reduce", data, axes, keepdims, noop_with_empty_axes)
ReduceMin -> reduced("min_reduce", data, axes, keepdims, noop_with_empty_axes)
ReduceSum -> reduced("sum_reduce", data, axes, keepdims, noop_with_empty_axes)
ReduceL1 -> reduced("sum_reduce", data, axes, keepdims, noop_with_empty_axes, before="abs")
ReduceL2 -> reduced("sum_reduce", data, axes, keepdims, noop_with_empty_axes, before="sqr", after="sqrt")
ReduceLogSum -> reduced("sum_reduce", data, axes, keepdims, noop_with_empty_axes, after="log")
ReduceSumSquare -> reduced("sum_reduce", data, axes, keepdims, noop_with_empty_axes, before="sqr")
""")


@ReduceLogSumExp.export_rule("nnef")
def export_log_sum_exp(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Exported:
    """Export ReduceLogSumExp as log(sum(exp(x - max))) + max, which does not overflow."""
    chosen = _static_axes(b, data, axes, noop_with_empty_axes)
    fact = data.fact
    if chosen is None or not isinstance(fact, TensorFact):
        return None
    kept = fact.with_shape([1 if axis in chosen else dim for axis, dim in enumerate(fact.dims)])
    top = term(b, "max_reduce", data, fact=kept, axes=chosen)
    powers = term(b, "exp", term(b, "sub", data, top))
    total = term(b, "sum_reduce", powers, fact=kept, axes=chosen, normalize=False)
    y = term(b, "add", term(b, "log", total), top)
    return (y,) if keepdims or not chosen else b.emit("squeeze", y, axes=chosen)


@ReduceProd.export_rule("nnef")
def export_product(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Exported:
    """Export ReduceProd: multiply the first half by the second until one element is left."""
    chosen = _static_axes(b, data, axes, noop_with_empty_axes)
    if chosen is None or not dtype_of(data).is_floating:
        return None
    y = data
    for axis in chosen:
        (n,) = sizes(b.dims(data)[axis : axis + 1], "the multiplied elements")
        if n == 0:
            return None
        while n > 1:
            half = n // 2
            halves = b(Mul, slice_axis(b, y, axis, 0, half), slice_axis(b, y, axis, half, 2 * half))
            y = b(Concat, halves, slice_axis(b, y, axis, n - 1, n), axis=axis) if n % 2 else halves
            n = half + n % 2
    y = b(Identity, y) if y is data else y
    return (y,) if keepdims or not chosen else (b(Squeeze, y, chosen),)


@CumSum.export_rule("nnef")
def export_running_sum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Exported:
    return _running(b, x, axis, Add, 0, exclusive, reverse)


@CumProd.export_rule("nnef")
def export_running_product(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Exported:
    """Export CumProd by doubling distances."""
    return _running(b, x, axis, Mul, 1, exclusive, reverse)


def _running(b: Builder, x: Value, axis: Value, joined: OpDef, neutral: int, exclusive: int, reverse: int) -> Exported:
    """Emit a prefix scan by doubling distances: combine each element with the element 1, 2, 4, … before it."""
    found = integers(axis)
    if found is None or not dtype_of(x).is_floating:
        return None
    dims = sizes(b.dims(x), "the concatenated elements")
    place = found[0] % len(dims)
    if not dims[place]:
        return None
    y = _shifted(b, x, place, 1, reverse, neutral) if exclusive else x
    distance = 1
    while distance < dims[place]:
        y = b(joined, y, _shifted(b, y, place, distance, reverse, neutral))
        distance *= 2
    return (b(Identity, y) if y is x else y,)


def _shifted(b: Builder, x: Value, axis: int, distance: int, reverse: int, neutral: int) -> Value:
    """Shift `x` by `distance` along an axis; fill with `neutral`."""
    dims = sizes(b.dims(x))
    n = dims[axis]
    shape = bounded(min(distance, n) if place == axis else dim for place, dim in enumerate(dims))
    begun = b.like(x, np.full(shape, neutral))
    if distance >= n:
        return begun
    rest = slice_axis(b, x, axis, *((distance, n) if reverse else (0, n - distance)))
    return b(Concat, *((rest, begun) if reverse else (begun, rest)), axis=axis)


def _register_arg(op_def: OpDef, op_type: str) -> None:
    @lower("nnef", op_type)
    def lowered(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
        rank = len(b.dims(input))
        if len(axes) == 1:
            return b(op_def, input, axis=axes[0], keepdims=1)
        if not axes:
            message = f"{op_type} without axes"
            raise UnsupportedError(message)
        # Several axes count as one, in row-major order.
        order = (*(axis for axis in range(rank) if axis not in axes), *sorted(axes))
        moved = b(Transpose, input, perm=order)
        joined = b(Reshape, moved, [*[0] * (rank - len(axes)), -1])
        found = b(op_def, joined, axis=-1, keepdims=0)
        return b(Unsqueeze, found, sorted(axes))

    @export_rule("nnef", op_def.name)
    def exported(b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Exported:
        if select_last_index:
            return None
        dims = b.dims(data)
        place = axis % len(dims)
        fact = TensorFact(DType.INT64, (*dims[:place], 1, *dims[place + 1 :]))
        found = b.emit(op_type, data, facts=[fact], axes=(place,))
        return found if keepdims else b.emit("squeeze", *found, axes=(place,))


_register_arg(ArgMax, "argmax_reduce")
_register_arg(ArgMin, "argmin_reduce")
