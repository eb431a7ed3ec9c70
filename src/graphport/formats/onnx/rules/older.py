"""Constant values of operands that were attributes in older opsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact, Unknown
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.leading_broadcast import align_from_axis
from graphport.ops.lowering.table import RuleTable

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


RULES = RuleTable("onnx")
OLD_WORDS = RuleTable(
    "onnx", emit=lambda b, op_type, _is_last, x, given: b.emit(op_type, *x, **given)[0], has_operators=False
)
"""Export rules to older forms, which have the names of the operators."""
OLD_BROADCAST = RULES.having(from_axis=align_from_axis)
"""Rules of operators with explicit broadcasting along an axis."""


def integers(value: Value, what: str) -> tuple[int, ...]:
    """Return the integers of `value`.

    Raises:
        UnsupportedError: they are known only at run time; `what` names them.
    """
    try:
        return value.fact.integer_elements if isinstance(value.fact, TensorFact) else ()
    except Unknown:
        message = f"{what} is an attribute in this opset and must be constant"
        raise UnsupportedError(message) from None


def constant_number(value: Value, what: str) -> float:
    """Return the single number of `value`.

    Raises:
        UnsupportedError: it is known only at run time; `what` names it.
    """
    fact = value.fact if isinstance(value.fact, TensorFact) else None
    if fact is not None and fact.reals is not None and len(fact.reals) == 1:
        return fact.reals[0]
    if fact is not None and fact.elements is not None and len(fact.elements) == 1 and isinstance(fact.elements[0], int):
        return fact.elements[0]
    message = f"{what} is an attribute in this opset and must be constant"
    raise UnsupportedError(message)


_FROM_BEHIND = 11
"""The opset from which on negative axes are supported everywhere."""


def from_front(b: Builder, axes: tuple[int, ...], x: Value, more: int = 0) -> tuple[int, ...]:
    """Normalize negative axes of `x` (with `more` new axes) for opsets that have none.

    Raises:
        Unknown: that would take the rank of `x`, which is not known.
    """
    if (b.version or 0) >= _FROM_BEHIND or all(axis >= 0 for axis in axes):
        return axes
    return tuple(axis % (len(b.dims(x)) + more) for axis in axes)


def unsupported(*reasons: tuple[bool, str]) -> None:
    """Raise `UnsupportedError` with the reason of the first true condition.

    Raises:
        UnsupportedError: one holds.
    """
    for holds, reason in reasons:
        if holds:
            raise UnsupportedError(reason)
