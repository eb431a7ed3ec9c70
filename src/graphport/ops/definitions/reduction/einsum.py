"""Sums over products, with the axes named by letters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from graphport.core.dims import Dim, product
from graphport.core.facts import TensorFact, Unknown
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import broadcast
from graphport.ops.special_functions import widened
from graphport.ops.types import IEEE, INTEGERS, Tensor, Types

T = Annotated[Tensor, Types("T", IEEE | INTEGERS)]

_TERM = re.compile(r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*")


class Equation(NamedTuple):
    """Letters of the axes of operands and result; `...` stands for axes without a letter."""

    operands: tuple[str, ...]
    result: str

    @classmethod
    def parse(cls, text: str) -> Equation:
        """Parse an equation; without an arrow the result has the letters that occur once, in alphabetical order.

        Raises:
            ShapeError: the equation is malformed, or a result letter is unknown or repeated.
        """
        left, arrow, right = text.replace(" ", "").partition("->")
        operands = tuple(left.split(","))
        for term in (*operands, right):
            if _TERM.fullmatch(term) is None:
                message = f"the equation {text!r} has a term {term!r}"
                raise ShapeError(message, "letters, and at most one '...'")
        letters = "".join(operands).replace(".", "")
        result = right if arrow else _implied(letters, has_rest="..." in left)
        named = result.replace(".", "")
        if len(set(named)) < len(named) or not set(named) <= set(letters) or ("..." in result and "..." not in left):
            message = f"the equation {text!r} has the result {result!r}"
            raise ShapeError(message, "each letter of the result must occur once in it, and in an operand")
        return cls(operands, result)

    def __str__(self) -> str:
        return f"{','.join(self.operands)}->{self.result}"


def _implied(letters: str, *, has_rest: bool) -> str:
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return ("..." if has_rest else "") + "".join(once)


def _einsum_shape(*inputs: TensorFact, equation: str) -> TensorFact:
    stated = Equation.parse(equation)
    if len(stated.operands) != len(inputs):
        message = f"the equation {equation!r} has {len(stated.operands)} operands, the node {len(inputs)}"
        raise ShapeError(message)
    dims, rest = _lengths(stated, inputs)
    first, dots, last = stated.result.partition("...")
    shape = [*(dims[letter] for letter in first), *(rest if dots else ()), *(dims[letter] for letter in last)]
    return inputs[0].with_shape(shape)


def _lengths(stated: Equation, inputs: Sequence[TensorFact]) -> tuple[dict[str, Dim], tuple[Dim, ...]]:
    """Return the dim of each letter, and the dims of the axes without a letter."""
    dims: dict[str, Dim] = {}
    rest: tuple[Dim, ...] = ()
    for number, (term, fact) in enumerate(zip(stated.operands, inputs, strict=True)):
        before, found, after = _assigned(term, fact, number)
        rest = broadcast(rest, found)
        for letter, dim in [*before, *after]:
            dims[letter] = broadcast((dims.get(letter, 1),), (dim,))[0]
    return dims, rest


def _assigned(
    term: str, fact: TensorFact, number: int
) -> tuple[Sequence[tuple[str, Dim]], tuple[Dim, ...], Sequence[tuple[str, Dim]]]:
    """Return the dims by letter, and the dims of the axes that `...` stands for."""
    first, dots, last = term.partition("...")
    named = len(first) + len(last)
    if fact.rank < named or (not dots and fact.rank != named):
        message = f"operand {number} has rank {fact.rank}, its term {term!r} {'at least ' if dots else ''}{named} axes"
        raise ShapeError(message)
    stop = fact.rank - len(last)
    before, after = zip(first, fact.dims, strict=False), zip(last, fact.dims[stop:], strict=True)
    return list(before), fact.dims[len(first) : stop], list(after)


def _einsum_macs(_output: TensorFact, *inputs: TensorFact, equation: str) -> Dim:
    if len(inputs) == 1:
        return 0
    if len(inputs) > 2:
        raise Unknown  # it depends on which two are multiplied first
    dims, rest = _lengths(Equation.parse(equation), inputs)
    return product([*dims.values(), *rest])


@op(
    shape=_einsum_shape,
    since=12,
    outputs=("output",),
    exactness="accumulation",
    role="pointwise",
    macs=_einsum_macs,
)
def Einsum(*inputs: T, equation: str) -> T:
    """Einstein summation: products of elements, summed over the letters that the result does not contain.

    `bij,bjk->bik` is a batched matrix product; `ii->i` takes a diagonal; `...` stands for axes that broadcast. Without
    an arrow the result has the letters that occur once, in alphabetical order.

    Shapes: by letter; axes with equal letters have equal lengths, or 1.

    Raises:
        ShapeError: the equation is malformed, or does not fit the operands.

    Source: ONNX Einsum-12.
    """
    wide = [widened(x) if x.dtype.kind == "f" else x for x in inputs]
    return np.asarray(np.einsum(str(Equation.parse(equation)), *wide, optimize=len(wide) > 2)).astype(inputs[0].dtype)
