"""Detect conditions that test for empty tensors (`boxes.size(0) > 0`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphport.ir.graph import Node, Value

_SIZES = frozenset({"aten.sym_size.int", "aten.sym_numel.default"})
_SUMS = frozenset({"_operator.add", "_operator.mul"})
_NON_EMPTY = {("_operator.gt", 0), ("_operator.ne", 0), ("_operator.ge", 1)}
_EMPTY = {("_operator.eq", 0), ("_operator.le", 0), ("_operator.lt", 1)}


def holds_if_empty(condition: Value) -> bool | None:
    """Return the value of a condition for size 0 if it compares a size with 0; `None` for other conditions."""
    node = condition.producer
    if node is None or len(node.inputs) != 1 or not _is_size(node.operand(0)):
        return None
    compared = (node.op_type, node.attributes.get("b"))
    return True if compared in _EMPTY else False if compared in _NON_EMPTY else None


def _is_size(value: Value | None, depth: int = 8) -> bool:
    """Whether a scalar is a dim, or a sum or product of dims and counts."""
    node = None if value is None else value.producer
    if node is None or not depth:
        return False
    if node.op_type in _SIZES:
        return True
    return node.op_type in _SUMS and all(_is_size(each, depth - 1) for each in node.operands) and _counts(node)


def _counts(node: Node) -> bool:
    """Whether a sum or product is 0 if its non-constant operands are 0."""
    constants = [node.attributes[name] for name in ("a", "b") if name in node.attributes]
    return all(constant == 0 if node.op_type == "_operator.add" else constant != 0 for constant in constants)
