"""Removal of operands with a dimension of size 0, which most formats and runtimes do not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def drop_empty_operands(graph: Graph) -> None:
    """Remove the operands of each Concat that have size 0 along its axis.

    Before  h = Slice(x, [0], [0], [1]);  y = Concat(x, h, axis=1)
    After   y = x

    Does not apply if all operands are empty.
    """
    for inner in walk(graph):
        for node in list(inner):
            if node.op != "Concat":
                continue
            operands = [value for value in node.operands if not _is_empty(value, node)]
            if len(operands) == 1:
                rewrite.replace(node.output, operands[0])
                inner.remove(node)
            elif operands and len(operands) < len(node.operands):
                node.inputs = operands


def _is_empty(value: Value, node: Node) -> bool:
    fact, axis = value.fact, node.attributes.get("axis")
    shape = fact.shape if isinstance(fact, TensorFact) else None
    return isinstance(axis, int) and bool(shape) and -len(shape) <= axis < len(shape) and shape[axis] == 0
