"""Formulas of elementwise operators of a dialect, for operators without a direct equivalent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.lowering.leading_broadcast import append_axes, emit_chain, emit_elementwise
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute
    from graphport.ops.builder import Builder


def term(
    b: Builder, op_type: str, *operands: Value | float, fact: Fact | None = None, **attributes: Attribute
) -> Value:
    """Emit one operator; Python numbers become constants of the dtype of the first tensor operand.

    `fact` is the result's fact, by default that of the first tensor, to which the others broadcast.

    Raises:
        Unknown: there are numbers, and the dtype is unknown.
    """
    first = next(operand for operand in operands if isinstance(operand, Value))
    values = [operand if isinstance(operand, Value) else b.like(first, operand) for operand in operands]
    if fact is None:
        fact = first.fact.with_elements(None) if isinstance(first.fact, TensorFact) else first.fact
    return b.emit(op_type, *values, facts=[fact], **attributes)[0]


_ASKED = frozenset(("lt", "gt", "le", "ge", "eq", "ne"))
_CHOICE = "select"
_TRUTHS = _ASKED | {"and", "or", "tract_core_xor", "tract_core_is_nan"}


def emitted_word(
    b: Builder, op_type: str, _is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]
) -> Value:
    """Emit an operator of a rule formula; comparisons have boolean results, select has the type of its branches."""
    tensors = [x for x in operands if isinstance(x, Value)]
    fact = tensors[op_type == _CHOICE].fact
    if op_type in _ASKED and isinstance(fact, TensorFact):
        fact = TensorFact(DType.BOOL, fact.shape)
    elif isinstance(fact, TensorFact):
        fact = fact.with_elements(None)
    return term(b, op_type, *operands, fact=fact, **attributes)


def broadcast_word(b: Builder, op_type: str, _is_last: bool, operands: Sequence[Any], _attributes: Any) -> Value:
    """Emit an elementwise operator on operands that are aligned at the last axis."""
    return emit_elementwise(b, op_type, *operands, dtype=DType.BOOL if op_type in _TRUTHS else None)[0]


def _chained(b: Builder, op_type: str, *operands: Value) -> Value:
    """Fold a binary operator over any number of operands."""
    return emit_chain(b, op_type, *operands)[0]


RULES = RuleTable("nnef", {"trailed": append_axes, "chained": _chained}, emit=emitted_word)
"""Rules of NNEF: intermediate results have the shape of the first tensor."""
BROADCAST = replace(RULES, emit=broadcast_word)
"""Rules of elementwise operators: operands are aligned at the first axis."""
