"""Reductions, cumulative sums, ArgMax and TopK in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import emitted_extent, emitted_slice, emitted_top_k, renamed, wrapping
from graphport.formats.openvino.rules.reduction_plugin import reduced, with_infinities
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.indexing import GatherElements
from graphport.ops.definitions.reduction import CumProd, ReduceLogSumExp, ReduceMax, TopK
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import as_vector, cast, dtype_of, ends_of, index, integers, sizes, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.lowering.emitting import Exported


def _of_nothing(b: Builder, data: Value, axes: Value, largest: bool, *, keepdims: int) -> Value:
    """Return the maximum or minimum over an empty axis, an end of the dtype's range; OpenVINO's result is finite."""
    fact = Builder(b.inference)(ReduceMax, data, axes, keepdims=keepdims).fact
    shape = sizes(fact.dims if isinstance(fact, TensorFact) else (), "the shape of the reduced tensor")
    number = ends_of(dtype_of(data))[0 if largest else 1]
    return emit(b, "opset3.Broadcast", b.like(data, number), vector(b, shape), mode="numpy")


def _axes(b: Builder, data: Value, axes: Value | None, noop_with_empty_axes: int) -> Value | None:
    """Return the axes to reduce: all by default; `None` if nothing is reduced."""
    if axes is None or b.dims(axes) == (0,):
        if noop_with_empty_axes:
            return None
        return vector(b, range(len(b.dims(data))))
    axes = as_vector(b, axes)
    if integers(axes) is None and not isinstance(b.dims(axes, at_least=1)[0], int) and not noop_with_empty_axes:
        message = "an unknown number of axes"
        raise UnsupportedError(message)
    return axes


_NARROW = frozenset({DType.INT8, DType.INT16, DType.UINT8, DType.UINT16})
"""Integers that ONNX does not sum; truncating the int64 sum is equivalent."""
_SHORT = frozenset({DType.INT16, DType.UINT16})
"""Integers of which ONNX Runtime has no extremes."""


def _over(b: Builder, op_type: str, data: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int) -> Value:
    """Emit a reduction over `axes`; return the data if there are none."""
    reduced_axes = _axes(b, data, axes, noop_with_empty_axes)
    return data if reduced_axes is None else reduced(b, op_type, data, reduced_axes, keepdims)


def _emitted(
    b: Builder, words: Sequence[str], data: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int
) -> Value:
    """Emit a reduction like `_over`; use `words[1]` for booleans, and Abs for a norm over no axes."""
    op_type = words[1] if dtype_of(data) is DType.BOOL and len(words) > 1 else words[0]
    y = _over(b, op_type, data, axes, keepdims, noop_with_empty_axes)
    if y is not data:
        return y
    return b.emit("opset1.Abs", data)[0] if op_type in _NORMS else renamed(b, data)


_NORMS = frozenset({"opset4.ReduceL1", "opset4.ReduceL2"})


def _extreme(
    b: Builder, words: Sequence[str], data: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int
) -> Value | None:
    """Emit a maximum or minimum like `_emitted`; the data may contain infinities or be empty."""
    is_largest = "Max" in words[0]
    reduced_axes = _axes(b, data, axes, noop_with_empty_axes)
    if reduced_axes is not None and 0 in b.dims(data):
        is_logical = dtype_of(data) is DType.BOOL
        return None if is_logical else _of_nothing(b, data, reduced_axes, is_largest, keepdims=keepdims)
    y = _emitted(b, words, data, axes, keepdims, noop_with_empty_axes)
    return (
        y if reduced_axes is None else with_infinities(b, y, data, reduced_axes, largest=is_largest, keepdims=keepdims)
    )


def _emit_arg_extreme(b: Builder, mode: str, data: Value, axis: int, keepdims: int, select_last_index: int) -> Value:
    """Emit ArgMax or ArgMin as TopK with k = 1; for the last index the axis is reversed."""
    at = axis % len(b.dims(data))
    if not select_last_index:
        indices = emitted_top_k(b, data, 1, at, mode)[1]
        return renamed(b, indices) if keepdims else emit(b, "opset1.Squeeze", indices, vector(b, [at]))
    indices = emitted_top_k(b, emitted_slice(b, data, -1, np.iinfo(np.int64).min, at, -1), 1, at, mode)[1]
    length = b.dims(data)[at]
    is_known = isinstance(length, int)
    last = index(b, length - 1) if is_known else emit(b, "opset1.Subtract", emitted_extent(b, data, at), 1)
    indices = emit(b, "opset1.Subtract", last, indices)
    return indices if keepdims else emit(b, "opset1.Squeeze", indices, vector(b, [at]))


def _axis_operand(b: Builder, axis: Value) -> Value:
    """Return an axis for `CumSum`: a constant, or a vector of one element."""
    known = integers(axis)
    return index(b, known[0]) if known is not None and len(known) == 1 else as_vector(b, axis)


_REDUCED = RULES.having(
    names_none=lambda _b, axes: integers(axes) == (),
    vector=as_vector,
    summed=lambda b, x: cast(b, x, DType.INT64) if dtype_of(x) in _NARROW else x,
    compared=lambda b, x: cast(b, x, DType.INT64) if dtype_of(x) in _SHORT else x,
    over=_over,
    reduced=_emitted,
    extreme=_extreme,
    place=_axis_operand,
    top_k=emitted_top_k,
    wrapping=wrapping,
    compact=lambda _b, equation: equation.replace(" ", ""),
    place_of=_emit_arg_extreme,
)
_REDUCED.lower("""
# Where no axis is named every number is summed up by itself: a norm is its magnitude, all else leaves it alone.
opset1.ReduceSum, opset1.ReduceMean, opset1.ReduceProd(x, axes, *, keep_dims=False)
    -> names_none(axes): Identity(x)
    -> cast(_(summed(x), vector(axes), keepdims=keep_dims, noop_with_empty_axes=1), dtype(x))
opset4.ReduceL1, opset4.ReduceL2(x, axes, *, keep_dims=False)
    -> names_none(axes): Abs(x)
    -> cast(_(summed(x), vector(axes), keepdims=keep_dims, noop_with_empty_axes=1), dtype(x))
opset1.ReduceMax, opset1.ReduceLogicalOr(x, axes, *, keep_dims=False)
    -> names_none(axes): Identity(x)
    -> cast(ReduceMax(compared(x), vector(axes), keepdims=keep_dims, noop_with_empty_axes=1), dtype(x))
opset1.ReduceMin, opset1.ReduceLogicalAnd(x, axes, *, keep_dims=False)
    -> names_none(axes): Identity(x)
    -> cast(ReduceMin(compared(x), vector(axes), keepdims=keep_dims, noop_with_empty_axes=1), dtype(x))
opset3.CumSum(x, axis, *, exclusive=False, reverse=False)
    -> cast(CumSum(summed(x), place(axis), exclusive=exclusive, reverse=reverse), dtype(x))
opset7.Einsum(*inputs, equation) -> Einsum(*inputs, equation=equation)
""")
_REDUCED.export_rules("""
ReduceSum -> reduced(["opset1.ReduceSum"], data, axes, keepdims, noop_with_empty_axes)
ReduceMean -> reduced(["opset1.ReduceMean"], data, axes, keepdims, noop_with_empty_axes)
ReduceProd -> reduced(["opset1.ReduceProd"], data, axes, keepdims, noop_with_empty_axes)
ReduceL1 -> reduced(["opset4.ReduceL1"], data, axes, keepdims, noop_with_empty_axes)
ReduceL2 -> reduced(["opset4.ReduceL2"], data, axes, keepdims, noop_with_empty_axes)
ReduceSumSquare -> over("opset1.ReduceSum", opset1.Multiply(data, data), axes, keepdims, noop_with_empty_axes)
ReduceLogSum -> opset1.Log(over("opset1.ReduceSum", data, axes, keepdims, noop_with_empty_axes))
ReduceMax -> extreme(["opset1.ReduceMax", "opset1.ReduceLogicalOr"], data, axes, keepdims, noop_with_empty_axes)
ReduceMin -> extreme(["opset1.ReduceMin", "opset1.ReduceLogicalAnd"], data, axes, keepdims, noop_with_empty_axes)
ArgMax -> place_of("max", data, axis, keepdims, select_last_index)
ArgMin -> place_of("min", data, axis, keepdims, select_last_index)
TopK(sorted: ignored) -> top_k(x, k, axis, "max" if largest else "min")
Einsum -> wrapping("opset7.Einsum", *inputs, equation=compact(equation))
CumSum -> opset3.CumSum(x, emitted_scalar(axis), exclusive=exclusive == 1, reverse=reverse == 1)
""")


@ReduceLogSumExp.export_rule("openvino")
def export_log_sum_exp(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Exported:
    """Export LogSumExp: subtract the maximum first to avoid overflow, unless it is infinite."""
    reduced_axes = _axes(b, data, axes, noop_with_empty_axes)
    if reduced_axes is None:
        return (renamed(b, data),)
    if not dtype_of(data).is_floating:
        return None
    top = emit(b, "opset1.ReduceMax", data, reduced_axes, keep_dims=True)
    limit = float(np.finfo(np.float16 if dtype_of(data) is DType.FLOAT16 else np.float32).max)
    safe = emit(b, "opset1.Clamp", top, min=-limit, max=limit)
    powers = emit(b, "opset1.Exp", emit(b, "opset1.Subtract", data, safe))
    total = emit(b, "opset1.Log", reduced(b, "opset1.ReduceSum", powers, reduced_axes, keepdims))
    kept = safe if keepdims else emit(b, "opset1.ReduceMax", safe, reduced_axes, keep_dims=False)
    return b.emit("opset1.Add", total, kept)


@CumProd.export_rule("openvino")
def export_cum_prod(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Exported:
    """Export CumProd: masked products; elements outside the prefix are replaced by 1."""
    place, dims = integers(axis), b.dims(x)
    if place is None:
        return None
    at = place[0] % len(dims)
    length = dims[at]
    if not isinstance(length, int) or length > 256:
        return None
    counts = np.arange(length)
    ahead = counts[None, :] - counts[:, None]
    ahead = -ahead if reverse else ahead
    is_seen = (ahead < 0) if exclusive else (ahead <= 0)
    # [.., 1, n, ..] under [n, n, 1..] is [.., n, n, ..], and its product along the second is the run.
    rows = emit(b, "opset1.Unsqueeze", x, vector(b, [at]))
    mask = b.constant(is_seen.reshape(length, length, *[1] * (len(dims) - at - 1)))
    kept = emit(b, "opset1.Select", mask, rows, b.like(x, 1))
    return b.emit("opset1.ReduceProd", kept, vector(b, [at + 1]), keep_dims=False)


@lower("openvino", "opset1.TopK")
@lower("openvino", "opset3.TopK")
@lower("openvino", "opset11.TopK")
def top_k(
    b: Builder,
    x: Value,
    k: Value,
    *,
    axis: int,
    mode: str,
    sort: str,
    index_element_type: DType = DType.INT32,
    stable: bool = False,
) -> tuple[Value, ...]:
    """TopK: the largest or smallest elements and their indices, sorted by value or index."""
    del stable
    count = as_vector(b, k)
    values, indices = b.results(TopK, 2, x, count, axis=axis, largest=int(mode == "max"))
    if sort == "index":
        ordered, order = b.results(TopK, 2, indices, count, axis=axis, largest=0)
        values, indices = b(GatherElements, values, order, axis=axis), ordered
    return values, cast(b, indices, index_element_type)
