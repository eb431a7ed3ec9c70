"""Inline the taken branch of an If with a constant condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir.graph import Graph
from graphport.ops.infer import Inference
from graphport.ops.products import constant_elements
from graphport.passes.journal import Journal, apply
from graphport.passes.substitution import graph_of
from graphport.passes.transplant import replace_keeping_name, transplant

if TYPE_CHECKING:
    from graphport.ir.graph import Node


def inline_branches(graph: Graph, journal: Journal) -> None:
    """Replace an `If` with a constant condition by the nodes of the taken branch.

    Before  y = If(true, then_branch={ a = Neg(x);  return a }, else_branch=…)
    After   y = Neg(x)

    Does not apply to computed conditions. Preserves values bit for bit.
    """
    apply(graph, journal, _inline, {"If"})
    if journal.done:
        # The fact of an If's result joins both branches; now it is that of one.
        Inference().graph(graph)


def _inline(node: Node) -> str | None:
    condition = constant_elements(node.operand(0))
    if condition is None or condition.size != 1:
        return None
    name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
    body = node.attributes.get(name)
    if not isinstance(body, Graph) or len(body.outputs) < len(node.outputs):
        return None
    moved = transplant(body, node, {})
    results = [moved.get(value, value) for value in body.outputs]
    for old in node.results:
        replace_keeping_name(old, results[old.index])
    graph_of(node).remove(node)
    return f"its condition is constant: {name}"
