"""Einsum as matrix products, and cumulative products by masks."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.comparison import Equal, Less, Where
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceProd, ReduceSum
from graphport.ops.definitions.reduction.einsum import Equation
from graphport.ops.definitions.reshape import Identity, Reshape, Unsqueeze
from graphport.ops.lowering.operands import integers, sizes, transposed, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def einsum_by_matrices(b: Builder, *inputs: Value, equation: str) -> tuple[Value, ...]:
    """Decompose an Einsum of one or two operands: sum unshared axes, then multiply matrices."""
    stated = Equation.parse(equation)
    if len(inputs) > 2:
        return _pair_by_pair(b, inputs, stated)
    ranks = [len(b.dims(x)) - len(term.replace("...", "")) for x, term in zip(inputs, stated.operands, strict=True)]
    rest = "".join(chr(0x100 + place) for place in range(max(ranks)))
    terms = [term.replace("...", rest[len(rest) - r :]) for term, r in zip(stated.operands, ranks, strict=True)]
    result = stated.result.replace("...", rest)
    others = [{*result, *"".join(terms[:place] + terms[place + 1 :])} for place in range(len(terms))]
    parts = [_sum_unshared_axes(b, x, term, wanted) for x, term, wanted in zip(inputs, terms, others, strict=True)]
    if len(parts) == 1:
        return (_transpose_letters(b, *parts[0], result),)
    (x, left), (y, right) = parts
    batch = "".join(c for c in left if c in right and c in result)
    inner = "".join(c for c in left if c in right and c not in result)
    rows, columns = ("".join(c for c in term if c not in batch + inner) for term in (left, right))
    lengths = dict(zip(left + right, (*b.dims(x), *b.dims(y)), strict=True)) if left + right else {}
    own = [dict(zip(term, b.dims(part), strict=True)) for part, term in parts]
    if any(own[0][c] != own[1][c] for c in batch + inner):
        message = f"{equation} broadcasts axes of length 1, which is not supported"
        raise UnsupportedError(message)
    sides = [
        _as_matrix(b, x, left, (batch, rows, inner), lengths),
        _as_matrix(b, y, right, (batch, inner, columns), lengths),
    ]
    product = b(MatMul, *sides)
    order = batch + rows + columns
    return (_transpose_letters(b, _shaped(b, product, order, lengths), order, result),)


def _pair_by_pair(b: Builder, inputs: Sequence[Value], stated: Equation) -> tuple[Value, ...]:
    """Contract the first two operands, then continue with the result and the remaining operands."""
    first, second, *others = stated.operands
    if any("..." in term for term in (*stated.operands, stated.result)):
        message = "more than two operands with ellipsis axes are not supported"
        raise UnsupportedError(message)
    later = {*stated.result, *"".join(others)}
    kept = "".join(letter for letter in dict.fromkeys(first + second) if letter in later)
    (part,) = einsum_by_matrices(b, *inputs[:2], equation=f"{first},{second}->{kept}")
    equation = f"{','.join([kept, *others])}->{stated.result}"
    return einsum_by_matrices(b, part, *inputs[2:], equation=equation)


def _sum_unshared_axes(b: Builder, x: Value, term: str, wanted: set[str]) -> tuple[Value, str]:
    """Sum an operand over the axes whose letters are not in `wanted` (result and other operands)."""
    x, term = _diagonal(b, x, term)
    gone = [place for place, letter in enumerate(term) if letter not in wanted]
    if not gone:
        return x, term
    kept = "".join(letter for letter in term if letter in wanted)
    return b(ReduceSum, x, gone, keepdims=0), kept


def _diagonal(b: Builder, x: Value, term: str) -> tuple[Value, str]:
    """Take the diagonal over axes with a repeated letter, so that each letter occurs once."""
    repeated = next((letter for letter in term if term.count(letter) > 1), None)
    if repeated is None:
        return x, term
    first, second, *_ = (place for place, letter in enumerate(term) if letter == repeated)
    dims = sizes(b.dims(x), "the axes")
    n = dims[first]
    if dims[second] != n:
        message = f"the repeated axes of {term} differ in length, which is not supported"
        raise UnsupportedError(message)
    others = [place for place in range(len(term)) if place not in (first, second)]
    moved = transposed(b, x, [*others, first, second])
    flat = b(Reshape, moved, [*(dims[place] for place in others), n * n])
    picked = b(Gather, flat, [place * (n + 1) for place in range(n)], axis=len(others))
    return _diagonal(b, picked, "".join(term[place] for place in others) + repeated)


def _transpose_letters(b: Builder, x: Value, term: str, wanted: str) -> Value:
    return b(Identity, x) if term == wanted else transposed(b, x, [term.index(letter) for letter in wanted])


def _shaped(b: Builder, x: Value, order: str, lengths: dict[str, Dim]) -> Value:
    return b(Reshape, x, sizes([lengths[letter] for letter in order], "the axes"))


def _as_matrix(b: Builder, x: Value, term: str, groups: Sequence[str], lengths: dict[str, Dim]) -> Value:
    """Reshape to [batch..., rows, columns]; rows and columns may combine several axes."""
    batch, first, second = groups
    moved = transposed(b, x, [term.index(letter) for letter in batch + first + second])
    wide = [prod(sizes([lengths[letter] for letter in group], "the axes")) for group in (first, second)]
    return b(Reshape, moved, [*sizes([lengths[letter] for letter in batch], "the axes"), *wide])


_MAX_MASK_LENGTH = 256
"""The maximum length of an axis for cumulative products; the mask has this length squared."""


def _products_along_any(b: Builder, x: Value, axis: Value, rank: int, exclusive: int, reverse: int) -> Value:
    """Compute the cumulative product along each axis and select one by the dynamic axis."""
    at = b(Where, b(Less, axis, 0), b(Add, axis, rank), axis)
    found: Value | None = None
    for place in range(rank):
        (along,) = products_under_mask(b, x, vector(b, [place]), exclusive=exclusive, reverse=reverse)
        found = along if found is None else b(Where, b(Equal, at, b.like(at, place)), along, found)
    return x if found is None else found


def products_under_mask(
    b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0
) -> tuple[Value, ...]:
    """Compute each cumulative product under a mask; elements beyond the prefix count as 1."""
    place, dims = integers(axis), sizes(b.dims(x), "what is multiplied")
    if place is None:
        return (_products_along_any(b, x, axis, len(dims), exclusive, reverse),)
    at = place[0] % len(dims)
    length = dims[at]
    if length > _MAX_MASK_LENGTH:
        message = f"a cumulative product of {length} elements is too long, at most {_MAX_MASK_LENGTH} are supported"
        raise UnsupportedError(message)
    ahead = np.arange(length)[None, :] - np.arange(length)[:, None]
    ahead = -ahead if reverse else ahead
    mask = (ahead < 0) if exclusive else (ahead <= 0)
    # [.., 1, n, ..] masked by [n, n, 1..] is [.., n, n, ..]; its product over the second axis is the prefix product.
    seen = b.constant(mask.reshape(length, length, *[1] * (len(dims) - at - 1)))
    kept = b(Where, seen, b(Unsqueeze, x, [at]), 1)
    return (b(ReduceProd, kept, [at + 1], keepdims=0),)
