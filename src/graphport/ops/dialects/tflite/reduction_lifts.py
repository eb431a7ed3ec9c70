"""Sums, means and extremes over axes, as TFLite says them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError, lift
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.operands import dtype_of, integers, sizes, transposed, vector
from graphport.ops.dialects.tflite.emitting import array_of, computed_in, in_int32, ints
from graphport.ops.pages import arithmetic
from graphport.ops.pages.comparison import Where
from graphport.ops.pages.matmul import MatMul
from graphport.ops.pages.reduction import reduce as reductions
from graphport.ops.pages.reduction.einsum import Einsum, Equation
from graphport.ops.pages.reduction.running import CumProd
from graphport.ops.pages.reshape import Identity, Reshape, Unsqueeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page

Lifted: TypeAlias = "tuple[Value, ...] | None"
_NUMBERS = frozenset((DType.FLOAT32, DType.INT32, DType.INT64))
_OF_TRUTHS = {"REDUCE_MAX": "REDUCE_ANY", "REDUCE_MIN": "REDUCE_ALL"}


def _axes(b: Builder, data: Value, axes: Value | None, noop_with_empty_axes: int) -> Value:
    """Which axes are taken together: none given are all of them, or none."""
    told = array_of(axes)
    if axes is not None and told is None:
        count = (b.dims(axes) or (1,))[0]
        if not isinstance(count, int):
            message = "how many axes it has must be known"
            raise UnsupportedError(message)
        if count:
            return in_int32(b, axes)
    if told is not None and told.size:
        return ints(b, told.reshape(-1).tolist())
    return ints(b, [] if noop_with_empty_axes else list(range(len(b.dims(data)))))


def _reduction(page: Page, word: str, *, before: Page | None = None, after: Page | None = None) -> None:
    @lift("tflite", page.name)
    def lifted(
        b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Lifted:
        x = data if before is None else b(before, *[data] * before.signature.least)
        chosen = _axes(b, data, axes, noop_with_empty_axes)
        if dtype_of(x) is DType.BOOL and word in _OF_TRUTHS:
            return (emit(b, _OF_TRUTHS[word], x, chosen, keep_dims=bool(keepdims)),)
        if word in _OF_TRUTHS and 0 in b.dims(data):
            message = "kernels take the largest finite number for the extreme of nothing"
            raise UnsupportedError(message)
        y = computed_in(b, _NUMBERS, word, x, beside=(chosen,), keep_dims=bool(keepdims))
        return (y if after is None else b(after, y),)

    del lifted


_reduction(reductions.ReduceSum, "SUM")
_reduction(reductions.ReduceMean, "MEAN")
_reduction(reductions.ReduceProd, "REDUCE_PROD")
_reduction(reductions.ReduceMax, "REDUCE_MAX")
_reduction(reductions.ReduceMin, "REDUCE_MIN")
_reduction(reductions.ReduceL1, "SUM", before=arithmetic.Abs)
_reduction(reductions.ReduceL2, "SUM", before=arithmetic.Mul, after=arithmetic.Sqrt)
_reduction(reductions.ReduceSumSquare, "SUM", before=arithmetic.Mul)
_reduction(reductions.ReduceLogSum, "SUM", after=arithmetic.Log)


@reductions.ReduceLogSumExp.lift("tflite")
def lift_log_sum_exp(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Lifted:
    stated = {"noop_with_empty_axes": noop_with_empty_axes or None}
    most = b(reductions.ReduceMax, data, axes, **stated)
    total = b(reductions.ReduceSum, b(arithmetic.Exp, b(arithmetic.Sub, data, most)), axes, **stated)
    y = b(arithmetic.Add, b(arithmetic.Log, total), most)
    return (y if keepdims else b(reductions.ReduceMax, y, axes, keepdims=0, **stated),)


@Einsum.lift("tflite")
def lift_einsum(b: Builder, *inputs: Value, equation: str) -> Lifted:
    """Of one operand or two: axes that nobody else has are summed away, the others multiplied as matrices."""
    stated = Equation.parse(equation)
    if len(inputs) > 2:
        message = f"{len(inputs)} operands"
        raise UnsupportedError(message)
    ranks = [len(b.dims(x)) - len(term.replace("...", "")) for x, term in zip(inputs, stated.operands, strict=True)]
    rest = "".join(chr(0x100 + place) for place in range(max(ranks)))
    terms = [term.replace("...", rest[len(rest) - r :]) for term, r in zip(stated.operands, ranks, strict=True)]
    result = stated.result.replace("...", rest)
    others = [{*result, *"".join(terms[:place] + terms[place + 1 :])} for place in range(len(terms))]
    parts = [_summed(b, x, term, wanted) for x, term, wanted in zip(inputs, terms, others, strict=True)]
    if len(parts) == 1:
        return (_ordered(b, *parts[0], result),)
    (x, left), (y, right) = parts
    batch = "".join(c for c in left if c in right and c in result)
    inner = "".join(c for c in left if c in right and c not in result)
    rows, columns = ("".join(c for c in term if c not in batch + inner) for term in (left, right))
    lengths = dict(zip(left + right, (*b.dims(x), *b.dims(y)), strict=True)) if left + right else {}
    if any(lengths[c] == 1 for c in batch + inner):
        message = f"axes of {equation} that are broadcast"
        raise UnsupportedError(message)
    sides = [_matrix(b, x, left, (batch, rows, inner), lengths), _matrix(b, y, right, (batch, inner, columns), lengths)]
    product = b(MatMul, *sides)
    order = batch + rows + columns
    return (_ordered(b, _shaped(b, product, order, lengths), order, result),)


def _summed(b: Builder, x: Value, term: str, wanted: set[str]) -> tuple[Value, str]:
    """An operand without the axes that nobody else has."""
    if len(set(term)) < len(term):
        message = f"a diagonal: {term}"
        raise UnsupportedError(message)
    gone = [place for place, letter in enumerate(term) if letter not in wanted]
    if not gone:
        return x, term
    kept = "".join(letter for letter in term if letter in wanted)
    return b(reductions.ReduceSum, x, vector(b, gone), keepdims=0), kept


def _ordered(b: Builder, x: Value, term: str, wanted: str) -> Value:
    return b(Identity, x) if term == wanted else transposed(b, x, [term.index(letter) for letter in wanted])


def _shaped(b: Builder, x: Value, order: str, lengths: dict[str, Dim]) -> Value:
    return b(Reshape, x, vector(b, sizes([lengths[letter] for letter in order], "the axes")))


def _matrix(b: Builder, x: Value, term: str, groups: Sequence[str], lengths: dict[str, Dim]) -> Value:
    """x [batch..., rows, columns], each of the last two several axes in one."""
    batch, first, second = groups
    moved = transposed(b, x, [term.index(letter) for letter in batch + first + second])
    wide = [prod(sizes([lengths[letter] for letter in group], "the axes")) for group in (first, second)]
    return b(Reshape, moved, vector(b, [*sizes([lengths[letter] for letter in batch], "the axes"), *wide]))


_LONGEST = 256
"""Entries that are multiplied up to each, under a mask of that many squared."""


@CumProd.lift("tflite")
def lift_cum_prod(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Lifted:
    """The product over each run, under a mask: entries behind the run count as 1."""
    place, dims = integers(axis), sizes(b.dims(x), "what is multiplied")
    if place is None:
        message = "an axis that is given later"
        raise UnsupportedError(message)
    at = place[0] % len(dims)
    length = dims[at]
    if length > _LONGEST:
        message = f"products of {length} entries"
        raise UnsupportedError(message)
    ahead = np.arange(length)[None, :] - np.arange(length)[:, None]
    ahead = -ahead if reverse else ahead
    mask = (ahead < 0) if exclusive else (ahead <= 0)
    # [.., 1, n, ..] under [n, n, 1..] is [.., n, n, ..], and its product along the second is the run.
    seen = b.constant(mask.reshape(length, length, *[1] * (len(dims) - at - 1)))
    kept = b(Where, seen, b(Unsqueeze, x, vector(b, [at])), b.like(x, 1))
    return (b(reductions.ReduceProd, kept, vector(b, [at + 1]), keepdims=0),)
