"""Remove negations of conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.products import producer, sole_consumer
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import insert_operator, opset_of

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node

_OR_EQUAL = 12
"""The opset that introduced `LessOrEqual` and `GreaterOrEqual` in general form."""


def drop_negations(graph: Graph, journal: Journal) -> None:
    """Swap the branches of a Where instead of negating its condition; invert integer comparisons.

    Before  y = Where(Not(c), a, b)        or  Not(Less(a, b))           of integers
    After   y = Where(c, b, a)             or  GreaterOrEqual(a, b)

    Does not apply to float comparisons (NaN), or to a comparison with another consumer. Preserves values bit for bit.
    """
    apply(graph, journal, _drop, {"Where", "Not"})


def _drop(node: Node) -> str | None:
    if node.op == "Where":
        return _swap_branches(node)
    value = node.operand(0)
    compared = None if value is None else value.producer
    opposite = None if compared is None else registry.stating("negation").get(compared.op)
    if value is None or compared is None or opposite is None or sole_consumer(value) is not node:
        return None
    types = [each.fact.dtype for each in compared.operands if isinstance(each.fact, TensorFact)]
    if len(types) < len(compared.operands) or any(dtype is None or not dtype.is_integer for dtype in types):
        return None
    # Older opsets need three nodes for these two operators.
    if opposite.endswith("OrEqual") and 0 < opset_of(node) < _OR_EQUAL:
        return None
    return insert_operator(node, opposite, list(compared.inputs), {})


def _swap_branches(node: Node) -> str | None:
    condition, *values = node.inputs
    is_swapped = False
    while (negation := producer(condition, "Not")) is not None:
        condition, values, is_swapped = negation.operand(0), values[::-1], True
    if not is_swapped:
        return None
    node.inputs = [condition, *values]
    return "uses the negated operand"
