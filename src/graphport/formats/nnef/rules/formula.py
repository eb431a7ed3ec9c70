"""Formulas in the elementwise words of a dialect, for operators that it has no word for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.lowering.leading_broadcast import append_axes, emit_chain, emit_elementwise
from graphport.ops.lowering.table import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

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


_ASKED = frozenset(("lt", "gt", "le", "ge", "eq", "ne"))
_CHOICE = "select"
_TRUTHS = _ASKED | {"and", "or", "tract_core_xor", "tract_core_is_nan"}


def emitted_word(b: Builder, word: str, _is_last: bool, operands: Sequence[Any], attributes: dict[str, Any]) -> Value:
    """A word as it stands in a row; of a comparison the fact is that of truths, of a choice that of what is chosen."""
    tensors = [x for x in operands if isinstance(x, Value)]
    fact = tensors[word == _CHOICE].fact
    if word in _ASKED and isinstance(fact, TensorFact):
        fact = TensorFact(DType.BOOL, fact.shape)
    elif isinstance(fact, TensorFact):
        fact = fact.with_elements(None)
    return term(b, word, *operands, fact=fact, **attributes)


def broadcast_word(b: Builder, word: str, _is_last: bool, operands: Sequence[Any], _attributes: Any) -> Value:
    """An elementwise word on operands that align at the last axis."""
    return emit_elementwise(b, word, *operands, dtype=DType.BOOL if word in _TRUTHS else None)[0]


def _chained(b: Builder, word: str, *operands: Value) -> Value:
    """A word of two on any number of operands."""
    return emit_chain(b, word, *operands)[0]


ROWS = Rows("nnef", {"trailed": append_axes, "chained": _chained}, emit=emitted_word)
"""Rows of NNEF: a word on the way has the shape of its first tensor."""
BROADCAST = replace(ROWS, emit=broadcast_word)
"""Rows of elementwise words: their operands align at the first axis there."""
