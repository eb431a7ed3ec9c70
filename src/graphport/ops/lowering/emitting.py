"""Emission of dialect op types inside an export rule; their facts are inferred by the import rules of the dialect."""

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

Exported: TypeAlias = "tuple[Value, ...] | None"
"""The return type of an export rule: a value for each result, or `None` if the rule does not apply."""


def emit(b: Builder, op_type: str, *operands: Value | float | None, **attributes: Attribute) -> Value:
    """Emit an op type and return its first result. Numbers become scalar constants of the first tensor's dtype."""
    return emits(b, op_type, 1, *operands, **attributes)[0]


def emits(
    b: Builder, op_type: str, count: int, *operands: Value | float | None, **attributes: Attribute
) -> tuple[Value, ...]:
    """Emit an op type and return its first `count` results.

    Raises:
        Unknown: there are numbers, and the dtype is not known.
    """
    values = numbered(b, operands)
    return b.emit(op_type, *values, facts=_facts(b, op_type, count, values, attributes), **attributes)


def numbered(b: Builder, operands: Sequence[Value | float | None]) -> list[Value | None]:
    """Convert numbers among the operands to scalar constants of the first tensor's dtype.

    Raises:
        Unknown: the dtype is not known.
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
    b: Builder, op_type: str, count: int, values: list[Value | None], attributes: dict[str, Attribute]
) -> list[Fact]:
    rule = registry.lowering(b.dialect, op_type)
    if rule is None:
        return [UNKNOWN] * count
    try:
        answer = registry.results(
            rule(Builder(b.inference, dialect=b.dialect, count=count, stem=b.stem), *values, **attributes)
        )
    except (UnsupportedError, Unknown):
        return [UNKNOWN] * count
    return [UNKNOWN if value is None else value.fact for value in answer[:count]]
