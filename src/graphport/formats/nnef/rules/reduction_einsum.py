"""Sums of products in NNEF: two factors at once, as products of matrices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.dims import decide_equal
from graphport.ops.declare import export_rule
from graphport.ops.definitions.reduction.einsum import Equation
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import dtype_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Factor(NamedTuple):
    """An Einsum operand with one letter per axis."""

    value: Value
    letters: str


def lettered(equation: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """Return the letters of operands of these ranks and of the result, with letters for the ellipsis."""
    found = Equation.parse(equation)
    used = {letter for term in (*found.operands, found.result) for letter in term}
    counts = [rank - len(term.replace("...", "")) for term, rank in zip(found.operands, ranks, strict=True)]
    most = max((count for term, count in zip(found.operands, counts, strict=True) if "..." in term), default=0)
    free = [letter for letter in _LETTERS if letter not in used][:most]
    if len(free) < most or min(counts) < 0:
        return None
    rest = "".join(free)
    terms = [
        term.replace("...", rest[most - count :] if count else "")
        for term, count in zip(found.operands, counts, strict=True)
    ]
    return terms, found.result.replace("...", rest)


@export_rule("nnef", "Einsum")
def export_einsum(b: Builder, *inputs: Value, equation: str) -> Any:
    """Export Einsum by pairwise products; letters without further use are summed."""
    found = lettered(equation, [len(b.dims(value)) for value in inputs])
    if found is None or not dtype_of(inputs[0]).is_floating:
        return None
    terms, result = found
    if any(len(set(term)) < len(term) for term in terms) or not _fit(b, inputs, terms):
        return None
    factors = [Factor(value, term) for value, term in zip(inputs, terms, strict=True)]
    first, *others = [
        _summed(b, factor, _needed_letters(result, factors[:place] + factors[place + 1 :]))
        for place, factor in enumerate(factors)
    ]
    while others:
        other, *others = others
        first = _joined(b, first, other, _needed_letters(result, others))
        if first is None:
            return None
    order = tuple(first.letters.index(letter) for letter in result)
    y = first.value
    if order != tuple(range(len(order))):
        y = OpBuilder(b)("Transpose", y, perm=order)
    return (y if y is not inputs[0] else OpBuilder(b)("Identity", y),)


def _fit(b: Builder, inputs: Sequence[Value], terms: Sequence[str]) -> bool:
    """Whether each letter has one size in all operands."""
    lengths: dict[str, Dim] = {}
    for value, term in zip(inputs, terms, strict=True):
        for letter, dim in zip(term, b.dims(value), strict=True):
            if decide_equal(lengths.setdefault(letter, dim), dim) is not True:
                return False
    return True


def _needed_letters(result: str, factors: Sequence[Factor]) -> set[str]:
    return {*result, *(letter for factor in factors for letter in factor.letters)}


def _summed(b: Builder, factor: Factor, wanted: set[str]) -> Factor:
    """Sum over the letters that are not in `wanted`."""
    axes = [axis for axis, letter in enumerate(factor.letters) if letter not in wanted]
    if not axes:
        return factor
    y = OpBuilder(b)("ReduceSum", factor.value, b.constant(np.array(axes, np.int64)), keepdims=0)
    return Factor(y, "".join(letter for letter in factor.letters if letter in wanted))


def _joined(b: Builder, x: Factor, y: Factor, wanted: set[str]) -> Factor | None:
    """Multiply two factors as a batched matrix product: [shared, rows, sum] times [shared, sum, columns]."""
    shared = "".join(letter for letter in x.letters if letter in y.letters and letter in wanted)
    summed = "".join(letter for letter in x.letters if letter in y.letters and letter not in wanted)
    rows, columns = (
        "".join(letter for letter in one.letters if letter not in other.letters) for one, other in ((x, y), (y, x))
    )
    left, right = _as_matrices(b, x, shared, rows, summed), _as_matrices(b, y, shared, summed, columns)
    if left is None or right is None:
        return None
    emit = OpBuilder(b)
    product = emit("MatMul", left, right)
    lengths: dict[str, Dim] = {}
    for each in (x, y):
        lengths.update(zip(each.letters, b.dims(each.value), strict=True))
    letters = shared + rows + columns
    return Factor(_shaped(b, product, [lengths[letter] for letter in letters]), letters)


def _as_matrices(b: Builder, factor: Factor, shared: str, first: str, second: str) -> Value | None:
    """Transpose and reshape to [shared, first, second]; groups of several letters are merged, an empty one is 1."""
    emit = OpBuilder(b)
    order = tuple(factor.letters.index(letter) for letter in shared + first + second)
    x = factor.value if order == tuple(range(len(order))) else emit("Transpose", factor.value, perm=order)
    dims = b.dims(x)
    middle = len(shared) + len(first)
    groups = dims[len(shared) : middle], dims[middle:]
    if any(len(group) > 1 and not all(isinstance(dim, int) for dim in group) for group in groups):
        return None
    joined = [group[0] if len(group) == 1 else prod(dim for dim in group if isinstance(dim, int)) for group in groups]
    return _shaped(b, x, [*dims[: len(shared)], *joined])


def _shaped(b: Builder, x: Value, wanted: Sequence[Dim]) -> Value:
    """Reshape `x` to dims of which at most one is unknown, not counting unchanged leading dims."""
    dims = b.dims(x)
    if tuple(wanted) == tuple(dims):
        return x
    if not wanted:
        return OpBuilder(b)("Squeeze", x)
    numbers = [dim if isinstance(dim, int) else -1 for dim in wanted]
    if numbers.count(-1) > 1:
        # Leading axes are unchanged.
        numbers = [0 if place < len(dims) and dim == dims[place] else dim for place, dim in enumerate(numbers)]
    return OpBuilder(b)("Reshape", x, b.constant(np.array(numbers, np.int64)))
