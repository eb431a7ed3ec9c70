"""Reductions of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import (
    blob_axis,
    blob_dims,
    emitted,
    lengths_of,
    placed,
    refuse_constants,
    restored,
)
from graphport.formats.ncnn.rules.indices import affordable, along, as_indices, elements_of
from graphport.formats.ncnn.rules.integers import bounded, copy_integer_range, counted, max_magnitude, to_float_blob
from graphport.formats.ncnn.rules.rule_table import RULES
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import OpDef, ShapeError, UnsupportedError
from graphport.ops.decompositions.einsum import einsum_by_matrices, products_under_mask
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Cast, Exp, Log, Max, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, Less, Not, Or
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reduction import (
    ArgMax,
    ArgMin,
    CumProd,
    CumSum,
    Einsum,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    TopK,
)
from graphport.ops.definitions.reshape import Reshape, Unsqueeze
from graphport.ops.lowering.operands import needed, needed_integer, sizes, transposed, vector

_LETTERS = "ijklmnopqr"
"""The letters that ncnn has for axes."""

OP_DEFS = (
    *(ReduceSum, ReduceL1, ReduceSumSquare, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2),
    *(ReduceLogSum, ReduceLogSumExp),
)
"""By number."""


@layer("Reduction")
def reduction(at: Layer) -> Value:
    """Reduction over some or all axes; over all, the result is a vector of one element."""
    op_def, rank = at.choice(0, OP_DEFS, "operation"), at.rank
    axes = list(range(1, rank + 1)) if at.integer(1, 1) else sorted({at.axis(int(n)) for n in at.array(3)})
    keeps = bool(at.integer(4))
    y = at.b(op_def, at.x, vector(at.b, axes), keepdims=None if keeps else 0)
    if len(axes) == rank and not keeps:
        y = at.b(Reshape, y, [1, 1])
    factor = at.float_value(2, 1.0)
    return y if factor == 1 else at.b(Mul, y, at.b.like(y, factor))


@layer("Einsum")
def einsum(at: Layer) -> Value:
    """Einsum; parameter 0 has the character codes of the equation, to which the batch index is added."""
    text = "".join(chr(int(code)) for code in at.array(0))
    left, _, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(at.inputs) or not right or not set(text) <= {*_LETTERS, ",", "-", ">"}:
        message = f"unsupported einsum equation {text!r}"
        raise UnsupportedError(message)
    for term, x in zip(terms, at.inputs, strict=True):
        # ncnn takes the first letters for the axes that there are, and computes something else.
        if len(at.b.dims(x)) - 1 != len(term):
            message = f"the einsum term {term!r} has {len(term)} letters, the blob has rank {len(at.b.dims(x)) - 1}"
            raise ShapeError(message)
    equation = f"{','.join(f'a{term}' for term in terms)}->a{right}"
    return at.b(Einsum, *at.inputs, equation=equation)


RULES.lower("CumulativeSum(x, *, p0=0) -> CumSum(x, index(axis(p0, x)))")


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _reduced(
    b: Builder, data: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int, *, p0: int
) -> Value:
    """Emit a Reduction with operation `p0` over the axes."""
    refuse_constants(data)
    dims, batch = b.dims(data), batch_of(data)
    blob_dims(b, data)
    numbers = () if axes is None else needed(axes, "the reduced axes")
    if not numbers and noop_with_empty_axes:
        return emitted(b, "Noop", data)
    rank = len(dims)
    chosen = {axis % rank for axis in numbers} or set(range(rank))
    own = [axis for axis in range(rank) if axis != batch]
    blob_axes = tuple(place for place, axis in enumerate(own) if axis in chosen)
    # A blob has an axis at least.
    keeps = keepdims or len(blob_axes) == len(own)
    if not blob_axes:
        # The batch has one element: its reduction is that element, or a function of it.
        y = _reduce_single_element(b, data, p0)
    else:
        y = emitted(b, "Reduction", data, p0=p0, p1=0, p3=blob_axes, p4=int(keeps), p5=1)
    left = [axis for axis in range(rank) if keepdims or axis not in chosen]
    dtype = data.dtype
    y.fact = b.outcome
    if dtype is not None and dtype.is_integer:
        _of_integers(y, data, p0, [dims[axis] for axis in chosen])
    place = left.index(batch) if batch in left else None
    lengths = [dim for axis, dim in enumerate(b.outcome.dims) if axis != place] or [1]
    made = [1 if place_ in blob_axes else dims[axis] for place_, axis in enumerate(own)]
    if blob_axes and not keeps:
        made = [dims[axis] for place_, axis in enumerate(own) if place_ not in blob_axes]
    y = placed(y, place)
    if made == lengths:
        return y
    return restored(b, y, y.fact, place)


RULES.having(Reduction=_reduced).export_rules("""
ReduceSum -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=0)
ReduceL1 -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=1)
ReduceSumSquare -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=2)
ReduceMean -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=3)
ReduceMax -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=4)
ReduceMin -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=5)
ReduceProd -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=6)
ReduceL2 -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=8)
ReduceLogSum -> Reduction(data, axes, keepdims, noop_with_empty_axes, p0=9)
""")


_LARGEST = float(np.finfo(np.float32).max)


@ReduceLogSumExp.export_rule("ncnn")
def export_log_sum_exp(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Value:
    """Export ReduceLogSumExp as log(sum(exp(x - max(x)))) + max(x), which does not overflow.

    If the batch axis is reduced, emit one layer, which may overflow: ncnn cannot broadcast the maximum over the batch.
    """
    blob_dims(b, data)
    dims, batch = b.dims(data), batch_of(data)
    numbers = () if axes is None else needed(axes, "the reduced axes")
    if batch is not None and (not numbers or batch in {axis % len(dims) for axis in numbers}):
        return _reduced(b, data, axes, keepdims, noop_with_empty_axes, p0=10)
    given = [data] if axes is None else [data, axes]
    limits = [b.constant(np.float32(sign * _LARGEST)) for sign in (-1, 1)]
    flags = {"noop_with_empty_axes": noop_with_empty_axes}
    top = b(Clip, b(ReduceMax, *given, keepdims=1, **flags), *limits)
    total = b(Log, b(ReduceSum, b(Exp, b(Sub, data, top)), *given[1:], keepdims=keepdims, **flags))
    kept = top if keepdims else b(ReduceMax, top, *given[1:], keepdims=0, **flags)
    return b(Add, total, kept)


_SUM, _L1, _MEAN, _MOST, _LEAST = 0, 1, 3, 4, 5
_OF_ONE = {1: ("AbsVal", None), 2: ("UnaryOp", 4), 7: ("AbsVal", None), 8: ("AbsVal", None), 9: ("UnaryOp", 8)}
"""Reductions of one element, by operation number; by default the element."""


def _reduce_single_element(b: Builder, x: Value, number: int) -> Value:
    op_type, kind = _OF_ONE.get(number, ("Noop", None))
    return emitted(b, op_type, to_float_blob(b, x), p0=kind)


def _of_integers(y: Value, x: Value, number: int, dims: Sequence[Dim]) -> None:
    """Note on `y` the range of an integer reduction over axes of sizes `dims`.

    Raises:
        UnsupportedError: the range exceeds that of float32, or the operation is not a sum, minimum or maximum.
    """
    if number in (_MOST, _LEAST):
        copy_integer_range(y, x)
        return
    lengths = [dim for dim in dims if isinstance(dim, int)]
    if number not in (_SUM, _L1) or len(lengths) < len(dims):
        message = f"{x.name} is {x.fact}: an integer reduction must be a sum over axes of constant size"
        raise UnsupportedError(message)
    counted(y, bounded("a sum", max_magnitude(x) * prod(lengths)))


@CumSum.export_rule("ncnn")
def export_cumsum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """Export CumSum: reverse by flipping before and after; exclusive by shifting one element."""
    blob_dims(b, x)
    place = needed_integer(axis, "the axis of CumSum") % len(b.dims(x))
    if place == batch_of(x) or (exclusive and b.dims(x)[place] == 1):
        return emitted(b, "Clip", x, p0=0.0, p1=0.0) if exclusive else emitted(b, "Noop", to_float_blob(b, x))
    own = blob_axis(place, len(b.dims(x)), batch_of(x))
    given = emitted(b, "Flip", x, p0=(own,)) if reverse else x
    y = emitted(b, "CumulativeSum", given, p0=own)
    y = b(Pad, y, [1, -1], None, [place]) if exclusive else y
    y = emitted(b, "Flip", y, p0=(own,)) if reverse else y
    dtype, length = x.dtype, b.dims(x)[place]
    if dtype is not None and dtype.is_integer:
        counted(y, bounded("a sum", max_magnitude(x) * length if isinstance(length, int) else 0))
    return y


@Einsum.export_rule("ncnn")
def export_einsum(b: Builder, *inputs: Value, equation: str) -> Value:
    """Export Einsum without the batch index, which all operands and the result begin with."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    is_itemwise = all(batch_of(x) == 0 and len(b.dims(x)) > 1 and b.dims(x, at_least=1)[0] == 1 for x in inputs)
    if not is_itemwise or any(folded(x) is not None for x in inputs):
        return einsum_by_matrices(b, *inputs, equation=equation)[0]
    letters = {term[:1] for term in terms}
    if not arrow or "." in text or len(letters) != 1 or right[:1] not in letters or len(terms) != len(inputs):
        return einsum_by_matrices(b, *inputs, equation=equation)[0]
    batch = right[:1]
    bare = [*(term[1:] for term in terms), right[1:]]
    if any(batch in term or len(set(term)) < len(term) or not term for term in bare):
        return einsum_by_matrices(b, *inputs, equation=equation)[0]
    lengths = {c: n for term, x in zip(bare, inputs, strict=False) for c, n in zip(term, lengths_of(b, x), strict=True)}
    # The indices of the result come first, in order.
    names = dict(zip(dict.fromkeys([*bare[-1], *lengths]), _LETTERS, strict=False))
    if len(names) < len(lengths):
        message = f"the equation uses {len(lengths)} letters, ncnn supports {len(_LETTERS)}"
        raise UnsupportedError(message)
    bare_equation = "".join(names.get(c, c) for c in f"{','.join(bare[:-1])}->{bare[-1]}")
    return emitted(b, "Einsum", *inputs, p0=tuple(map(ord, bare_equation)))


# Positions of extremes, for which there are no layers: comparisons, weights and sums.

CumProd.export_rule("ncnn")(products_under_mask)


def _searched(
    op_def: OpDef, b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Value:
    """Export ArgMax or ArgMin: multiply the mask of extreme elements by position weights, and take the maximum."""
    refuse_constants(data)
    dims = b.dims(data)
    at = axis % len(dims)
    (n,) = sizes(dims[at : at + 1], "the searched axis")
    best = b(ReduceMax if op_def is ArgMax else ReduceMin, data, vector(b, [at]))
    others = b(Less, data, best) if op_def is ArgMax else b(Greater, data, best)
    reserve(n)
    weights = np.arange(1, n + 1) if select_last_index else np.arange(n, 0, -1)
    score = b(Mul, b(Cast, b(Not, others), to=DType.FLOAT32), along(b, weights, at, len(dims), DType.FLOAT32))
    found = b(ReduceMax, score, [at], keepdims=keepdims)
    # The extreme of only infinite elements is the largest finite float in ncnn, which equals none of them.
    found = b(Max, found, b(Sub, b.like(found, float(n)), b(Mul, found, float(n))))
    one, last = (b.constant(np.float32(number)) for number in (1, n))
    return as_indices(b, b(Sub, found, one) if select_last_index else b(Sub, last, found), n)


ArgMax.export_rule("ncnn")(partial(_searched, ArgMax))
ArgMin.export_rule("ncnn")(partial(_searched, ArgMin))


@TopK.export_rule("ncnn")
def export_top_k(
    b: Builder, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Value, Value]:
    """Export TopK by comparing all pairs: the rank of an element is the number of elements before it."""
    del sorted
    refuse_constants(x)
    dims = b.dims(x)
    rank, at, (count,) = len(dims), axis % len(dims), needed(k, "the count k")
    (n,) = sizes(dims[at : at + 1], "the sorted tensor")
    affordable(prod([size for size in dims if isinstance(size, int)]) * n)
    order = [*(each for each in range(rank) if each != at), at]
    moved = transposed(b, x, order)
    one, other = b(Unsqueeze, moved, [rank]), b(Unsqueeze, moved, [rank - 1])
    # [.., i, j]: whether j is ranked before i.
    ahead = b(Greater if largest else Less, other, one)
    behind = b(Greater if largest else Less, one, other)
    first = b.constant(np.tril(np.ones((n, n), bool), -1).reshape(*[1] * (rank - 1), n, n))
    before = b(Or, ahead, b(And, b(Not, b(Or, ahead, behind)), first))
    standing = b(ReduceSum, b(Cast, before, to=DType.FLOAT32), [rank], keepdims=0)
    wanted = along(b, np.arange(count), rank - 1, rank + 1, DType.FLOAT32)
    rows = b(Cast, b(Equal, b(Unsqueeze, standing, [rank - 1]), wanted), to=DType.FLOAT32)
    weighted = b(Mul, rows, along(b, np.arange(n), rank, rank + 1, DType.FLOAT32))
    numbers = b(ReduceSum, weighted, [rank], keepdims=0)
    back = [order.index(each) for each in range(rank)]
    values = elements_of(b, moved, numbers, rank - 1)
    return transposed(b, values, back), as_indices(b, transposed(b, numbers, back), n)
