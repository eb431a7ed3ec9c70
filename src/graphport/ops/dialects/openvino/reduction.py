"""Reductions, running sums and places in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, lift, lower
from graphport.ops.dialects.emitting import emit, emits
from graphport.ops.dialects.openvino.arithmetic import wrapped
from graphport.ops.dialects.openvino.binding import ROWS
from graphport.ops.dialects.openvino.emitting import emitted_reshape, renamed
from graphport.ops.dialects.openvino.reduction_infinite import with_infinities
from graphport.ops.dialects.openvino.reduction_rows import reduced
from graphport.ops.dialects.operands import as_vector, cast, dtype_of, integers, sizes, vector
from graphport.ops.pages.indexing import GatherElements
from graphport.ops.pages.reduction import (
    ArgMax,
    ArgMin,
    CumProd,
    CumSum,
    Einsum,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceSumSquare,
    TopK,
)
from graphport.ops.views.reduction import TopKView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.declare import Page

Lifted: TypeAlias = "tuple[Value, ...] | None"


def _of_nothing(b: Builder, data: Value, axes: Value, largest: bool, *, keepdims: int) -> Value:
    """The largest or least of no number, which OpenVINO's plugin does not make infinite."""
    fact = Builder(b.inference)(ReduceMax, data, axes, keepdims=keepdims).fact
    shape = sizes(fact.dims if isinstance(fact, TensorFact) else (), "the shape of what is reduced")
    dtype = dtype_of(data)
    if dtype.is_floating:
        number: float = -np.inf if largest else np.inf
    else:
        limits = np.iinfo(dtype.numpy)
        number = limits.min if largest else limits.max
    return emit(b, "opset3.Broadcast", b.like(data, number), vector(b, shape), mode="numpy")


def _axes(b: Builder, data: Value, axes: Value | None, noop_with_empty_axes: int) -> Value | None:
    """The axes that are summed up: all of them where none is named; `None` where that means nothing to do."""
    if axes is None or b.dims(axes) == (0,):
        if noop_with_empty_axes:
            return None
        return vector(b, range(len(b.dims(data))))
    axes = as_vector(b, axes)
    if integers(axes) is None and not isinstance(b.dims(axes)[0], int) and not noop_with_empty_axes:
        message = "whether any axes are named depends on an extent that is not known"
        raise UnsupportedError(message)
    return axes


_NARROW = frozenset({DType.INT8, DType.INT16, DType.UINT8, DType.UINT16})
"""Integers that ONNX does not sum; a sum of int64, cut off, is the same."""
_SHORT = frozenset({DType.INT16, DType.UINT16})
"""Integers of which ONNX Runtime has no extremes."""


def _without(b: Builder, x: Value, types: frozenset[DType]) -> Value:
    return cast(b, x, DType.INT64) if dtype_of(x) in types else x


def _emitted(
    b: Builder, words: Sequence[str], data: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int
) -> Value:
    """A word over the axes that are meant, the second one of truths; over none a norm is the magnitude."""
    places = _axes(b, data, axes, noop_with_empty_axes)
    if places is None:
        return b.word("opset1.Abs", data)[0] if words[0] in _NORMS else renamed(b, data)
    word = words[1] if dtype_of(data) is DType.BOOL and len(words) > 1 else words[0]
    return reduced(b, word, data, places, keepdims)


_NORMS = frozenset({"opset4.ReduceL1", "opset4.ReduceL2"})


def _extreme(
    b: Builder, words: Sequence[str], data: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int
) -> Value | None:
    """As `_emitted`, of numbers of which some may be infinite, or of none."""
    is_largest = "Max" in words[0]
    places = _axes(b, data, axes, noop_with_empty_axes)
    if places is not None and 0 in b.dims(data):
        is_logical = dtype_of(data) is DType.BOOL
        return None if is_logical else _of_nothing(b, data, places, is_largest, keepdims=keepdims)
    y = _emitted(b, words, data, axes, keepdims, noop_with_empty_axes)
    return y if places is None else with_infinities(b, y, data, places, largest=is_largest, keepdims=keepdims)


_REDUCED = ROWS.having(
    names_none=lambda _b, axes: integers(axes) == (),
    vector=as_vector,
    summed=lambda b, x: _without(b, x, _NARROW),
    compared=lambda b, x: _without(b, x, _SHORT),
    reduced=_emitted,
    extreme=_extreme,
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
""")
_REDUCED.lift("""
ReduceSum -> reduced(["opset1.ReduceSum"], data, axes, keepdims, noop_with_empty_axes)
ReduceMean -> reduced(["opset1.ReduceMean"], data, axes, keepdims, noop_with_empty_axes)
ReduceProd -> reduced(["opset1.ReduceProd"], data, axes, keepdims, noop_with_empty_axes)
ReduceL1 -> reduced(["opset4.ReduceL1"], data, axes, keepdims, noop_with_empty_axes)
ReduceL2 -> reduced(["opset4.ReduceL2"], data, axes, keepdims, noop_with_empty_axes)
ReduceMax -> extreme(["opset1.ReduceMax", "opset1.ReduceLogicalOr"], data, axes, keepdims, noop_with_empty_axes)
ReduceMin -> extreme(["opset1.ReduceMin", "opset1.ReduceLogicalAnd"], data, axes, keepdims, noop_with_empty_axes)
""")


@ReduceSumSquare.lift("openvino")
def lift_sum_square(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Lifted:
    squares = emit(b, "opset1.Multiply", data, data)
    places = _axes(b, data, axes, noop_with_empty_axes)
    if places is None:
        return (squares,)
    return (reduced(b, "opset1.ReduceSum", squares, places, keepdims),)


@ReduceLogSum.lift("openvino")
def lift_log_sum(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Lifted:
    places = _axes(b, data, axes, noop_with_empty_axes)
    total = data if places is None else reduced(b, "opset1.ReduceSum", data, places, keepdims)
    return b.word("opset1.Log", total)


@ReduceLogSumExp.lift("openvino")
def lift_log_sum_exp(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Lifted:
    """The largest number is taken out first, so that the powers do not overflow; an infinite one stays in."""
    places = _axes(b, data, axes, noop_with_empty_axes)
    if places is None:
        return (renamed(b, data),)
    if not dtype_of(data).is_floating:
        return None
    top = emit(b, "opset1.ReduceMax", data, places, keep_dims=True)
    limit = float(np.finfo(np.float16 if dtype_of(data) is DType.FLOAT16 else np.float32).max)
    safe = emit(b, "opset1.Clamp", top, min=-limit, max=limit)
    powers = emit(b, "opset1.Exp", emit(b, "opset1.Subtract", data, safe))
    total = emit(b, "opset1.Log", reduced(b, "opset1.ReduceSum", powers, places, keepdims))
    kept = safe if keepdims else emit(b, "opset1.ReduceMax", safe, places, keep_dims=False)
    return b.word("opset1.Add", total, kept)


@lower("openvino", "opset3.CumSum")
def cum_sum(b: Builder, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """Running sums along an axis."""
    dtype = dtype_of(x)
    wide = cast(b, x, DType.INT64) if dtype in _NARROW else x
    (place,) = integers(axis) or (None,)
    at = as_vector(b, axis) if place is None else b.constant(np.array(place, np.int64))
    return cast(b, b(CumSum, wide, at, exclusive=int(exclusive), reverse=int(reverse)), dtype)


@CumSum.lift("openvino")
def lift_cum_sum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Lifted:
    place = emitted_reshape(b, axis, ()) if b.dims(axis) else axis
    return b.word("opset3.CumSum", x, place, exclusive=bool(exclusive), reverse=bool(reverse))


@CumProd.lift("openvino")
def lift_cum_prod(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Lifted:
    """The product over each run, under a mask: entries behind the run count as 1."""
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
    return b.word("opset1.ReduceProd", kept, vector(b, [at + 1]), keep_dims=False)


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
    """The largest or least numbers along an axis and their places, by value or by place."""
    del stable
    count = as_vector(b, k)
    values, indices = b.results(TopK, 2, x, count, axis=axis, largest=int(mode == "max"))
    if sort == "index":
        ordered, order = b.results(TopK, 2, indices, count, axis=axis, largest=0)
        values, indices = b(GatherElements, values, order, axis=axis), ordered
    return values, cast(b, indices, index_element_type)


@TopKView.lift("openvino")
def lift_top_k(b: Builder, op: TopKView) -> Lifted:
    count = emitted_reshape(b, op.k, ()) if b.dims(op.k) else op.k
    rank = len(b.dims(op.x))
    return emits(
        b,
        "opset11.TopK",
        2,
        op.x,
        count,
        axis=op.axis % rank,
        mode="max" if op.largest else "min",
        sort="value",
        index_element_type=DType.INT64,
        stable=True,
    )


def _finds(page: Page, mode: str) -> None:
    """Where the largest or least number is: the first place of a TopK of one."""

    @lift("openvino", page.name)
    def lifted(b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Lifted:
        at = axis % len(b.dims(data))
        if select_last_index:
            ends = (vector(b, [n]) for n in (-1, np.iinfo(np.int64).min, -1, at))
            data = emit(b, "opset8.Slice", data, *ends)
        one = b.constant(np.array(1, np.int64))
        indices = emits(
            b,
            "opset11.TopK",
            2,
            data,
            one,
            axis=at,
            mode=mode,
            sort="value",
            index_element_type=DType.INT64,
            stable=True,
        )[1]
        if select_last_index:
            indices = _counted_back(b, data, at, indices)
        if keepdims:
            return (renamed(b, indices),) if not select_last_index else (indices,)
        return b.word("opset1.Squeeze", indices, vector(b, [at]))


def _counted_back(b: Builder, data: Value, at: int, indices: Value) -> Value:
    """Places in an axis that was turned around, as places in the axis itself."""
    length = b.dims(data)[at]
    if isinstance(length, int):
        last = b.constant(np.array(length - 1, np.int64))
    else:
        whole = emit(b, "opset8.Gather", emit(b, "opset3.ShapeOf", data), vector(b, [at]), b.constant(np.array(0)))
        last = emit(b, "opset1.Subtract", whole, 1)
    fact = indices.fact if isinstance(indices.fact, TensorFact) else TensorFact(DType.INT64, None)
    return b.word("opset1.Subtract", last, indices, facts=[fact])[0]


_finds(ArgMax, "max")
_finds(ArgMin, "min")


@lower("openvino", "opset7.Einsum")
def einsum(b: Builder, *inputs: Value, equation: str) -> Value:
    """A sum over products of elements, with axes named by letters."""
    return b(Einsum, *inputs, equation=equation)


@Einsum.lift("openvino")
def lift_einsum(b: Builder, *inputs: Value, equation: str) -> Lifted:
    said = equation.replace(" ", "")
    return wrapped(b, "opset7.Einsum", *inputs, equation=said) or b.word("opset7.Einsum", *inputs, equation=said)
