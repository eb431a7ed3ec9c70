"""Check that canonical nodes have the operands that their operator definitions require."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.ir.graph import walk
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def require_operands(graph: Graph) -> None:
    """Refuse a graph with a canonical node that lacks a required operand; passes and export rules rely on them.

    Raises:
        DiagnosticError: SHAPE0001 for each node.
    """
    op_defs = registry.op_defs()
    found: list[Diagnostic] = []
    for inner in walk(graph):
        for node in inner:
            if not node.dialect and node.op_type in op_defs and (name := _absent_operand(node)):
                reason = f"the required operand {name} is absent"
                found.append(
                    Diagnostic("SHAPE0001", f"{node.op}: {reason}", node.origin, "only optional operands can be")
                )
    if found:
        raise DiagnosticError(*found)


def _absent_operand(node: Node) -> str:
    """The name of the first required operand that a node lacks; empty if it has all."""
    signature = registry.op_defs()[node.op_type].signature
    inputs = node.inputs
    if len(inputs) >= signature.least and None not in inputs:
        return ""
    for index in range(max(len(inputs), signature.least)):
        operand = signature.operand(index)
        is_absent = index >= len(inputs) or inputs[index] is None
        if operand is not None and is_absent and not operand.is_optional:
            return operand.name
    return ""
