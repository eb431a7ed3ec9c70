"""Words inside a lifting, with the facts that their own lowerings find."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.core.facts import UNKNOWN, Unknown
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.operands import dtype_of, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute

Lifted: TypeAlias = "tuple[Value, ...] | None"
"""What a lifting makes: a value for each result, or `None` where it has no words for a node."""


def emit(b: Builder, word: str, *operands: Value | float | None, **attributes: Attribute) -> Value:
    """The first result of a word; numbers become constants of rank 0 of the element type of the first tensor."""
    return emits(b, word, 1, *operands, **attributes)[0]


def emits(
    b: Builder, word: str, count: int, *operands: Value | float | None, **attributes: Attribute
) -> tuple[Value, ...]:
    """The first `count` results of a word.

    Raises:
        Unknown: there are numbers, and nobody knows the element type.
    """
    values = numbered(b, operands)
    return b.word(word, *values, facts=_facts(b, word, count, values, attributes), **attributes)


def numbered(b: Builder, operands: Sequence[Value | float | None]) -> list[Value | None]:
    """Operands with numbers as constants of rank 0 of the element type of the first tensor.

    Raises:
        Unknown: nobody knows it.
    """
    first = next((operand for operand in operands if isinstance(operand, Value)), None)
    values: list[Value | None] = []
    for operand in operands:
        if isinstance(operand, Value) or operand is None:
            values.append(operand)
            continue
        if first is None:
            raise Unknown
        values.append(scalar(b, operand, dtype_of(first)))
    return values


def _facts(
    b: Builder, word: str, count: int, values: list[Value | None], attributes: dict[str, Attribute]
) -> list[Fact]:
    rule = registry.lowering(b.dialect, word)
    if rule is None:
        return [UNKNOWN] * count
    try:
        answer = registry.results(
            rule(Builder(b.inference, dialect=b.dialect, count=count, stem=b.stem), *values, **attributes)
        )
    except (UnsupportedError, Unknown):
        return [UNKNOWN] * count
    return [UNKNOWN if value is None else value.fact for value in answer[:count]]
