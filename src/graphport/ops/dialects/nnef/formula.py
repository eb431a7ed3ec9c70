"""Formulas in the elementwise words of a dialect, for operators that it has no word for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute
    from graphport.ops.builder import Builder


def term(b: Builder, word: str, *operands: Value | float, fact: Fact | None = None, **attributes: Attribute) -> Value:
    """The result of one word; numbers become constants of the element type of the first tensor among `operands`.

    Its fact is `fact`, by default that of the first tensor, which the others broadcast to.

    Raises:
        Unknown: there are numbers, and nobody knows the element type.
    """
    first = next(operand for operand in operands if isinstance(operand, Value))
    values = [operand if isinstance(operand, Value) else b.like(first, operand) for operand in operands]
    if fact is None:
        fact = first.fact.with_elements(None) if isinstance(first.fact, TensorFact) else first.fact
    return b.word(word, *values, facts=[fact], **attributes)[0]
