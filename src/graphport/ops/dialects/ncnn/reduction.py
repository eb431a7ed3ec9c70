"""Reductions of ncnn."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import Page, ShapeError, UnsupportedError, lift
from graphport.ops.dialects.ncnn.binding import Layer, batch_of, blob_axis, emitted, laid, layer, lengths_of, placed
from graphport.ops.dialects.torch_functions import vector
from graphport.ops.pages.arithmetic import Mul
from graphport.ops.pages.reduction import (
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
)
from graphport.ops.pages.reshape import Reshape
from graphport.ops.pattern import constant_numbers

_LETTERS = "ijklmnopqr"
"""The letters that ncnn has for axes."""

PAGES = (
    *(ReduceSum, ReduceL1, ReduceSumSquare, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2),
    *(ReduceLogSum, ReduceLogSumExp),
)
"""By number."""


@layer("Reduction")
def reduction(at: Layer) -> Value:
    """Of given axes or all; where all are reduced, a vector of one element is left."""
    number = at.integer(0)
    if not 0 <= number < len(PAGES):
        message = f"there is no operation {number}"
        raise UnsupportedError(message)
    rank = at.rank
    axes = list(range(1, rank + 1)) if at.integer(1, 1) else sorted({at.axis(int(n)) for n in at.array(3)})
    keeps = bool(at.integer(4))
    y = at.b(PAGES[number], at.x, vector(at.b, axes), keepdims=None if keeps else 0)
    if len(axes) == rank and not keeps:
        y = at.b(Reshape, y, vector(at.b, [1, 1]))
    factor = at.real(2, 1.0)
    return y if factor == 1 else at.b(Mul, y, at.b.like(y, factor))


@layer("Einsum")
def einsum(at: Layer) -> Value:
    """The equation is the codes of its letters; the batch is a letter that it lacks."""
    text = "".join(chr(int(code)) for code in at.array(0))
    left, _, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(at.inputs) or not right or not set(text) <= {*_LETTERS, ",", "-", ">"}:
        message = f"the equation {text!r}"
        raise UnsupportedError(message)
    for term, x in zip(terms, at.inputs, strict=True):
        # ncnn takes the first letters for the axes that there are, and computes something else.
        if len(at.b.dims(x)) - 1 != len(term):
            message = f"{term!r} has {len(term)} letters, the blob has {len(at.b.dims(x)) - 1} axes"
            raise ShapeError(message)
    equation = f"{','.join(f'a{term}' for term in terms)}->a{right}"
    return at.b(Einsum, *at.inputs, equation=equation)


@layer("CumulativeSum")
def cumulative_sum(at: Layer) -> Value:
    return at.b(CumSum, at.x, at.b.constant(at.axis(at.integer(0)), DType.INT64))


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _register_reductions() -> None:
    for number, page in enumerate(PAGES):
        if number != 7:  # the same as number 1
            _register_reduction(page, number)


def _register_reduction(page: Page, number: int) -> None:
    @lift("ncnn", page.name)
    def lifted(
        b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value | None:
        rank, batch = len(b.dims(data)), batch_of(data)
        laid(b, data)
        numbers = () if axes is None else constant_numbers(axes)
        if numbers is None or not numbers:
            return None
        chosen = {int(axis) % rank for axis in numbers}
        places = tuple(sorted(blob_axis(axis, rank, batch) for axis in chosen))
        if len(places) == rank - (batch is not None) and not keepdims:
            return None
        y = emitted(b, "Reduction", data, p0=number, p1=0, p3=places, p4=keepdims, p5=1)
        left = batch if keepdims or batch is None else batch - sum(axis < batch for axis in chosen)
        return placed(b, y, left)


_register_reductions()


@CumSum.lift("ncnn")
def lift_cumsum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value | None:
    places = constant_numbers(axis)
    laid(b, x)
    if exclusive or reverse or places is None:
        return None
    return emitted(b, "CumulativeSum", x, p0=blob_axis(int(places[0]), len(b.dims(x)), batch_of(x)))


@Einsum.lift("ncnn")
def lift_einsum(b: Builder, *inputs: Value, equation: str) -> Value | None:
    """Without the letter of the batch, which every operand and the result begin with."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    for each in inputs:
        lengths_of(b, each)
    letters = {term[:1] for term in terms}
    if not arrow or "." in text or len(letters) != 1 or right[:1] not in letters or len(terms) != len(inputs):
        return None
    batch = right[:1]
    bare = [*(term[1:] for term in terms), right[1:]]
    if any(batch in term or len(set(term)) < len(term) or not term for term in bare):
        return None
    sizes = {c: n for term, x in zip(bare, inputs, strict=False) for c, n in zip(term, lengths_of(b, x), strict=True)}
    fact = TensorFact(DType.FLOAT32, (1, *(sizes[c] for c in bare[-1])))
    # The letters of the result come first, in their order.
    names = dict(zip(dict.fromkeys([*bare[-1], *sizes]), _LETTERS, strict=False))
    if len(names) < len(sizes):
        return None
    said_ = "".join(names.get(c, c) for c in f"{','.join(bare[:-1])}->{bare[-1]}")
    return emitted(b, "Einsum", *inputs, fact=fact, p0=tuple(map(ord, said_)))
