"""`Constant` nodes as constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.generate import constant_value
from graphport.passes.journal import Journal, apply
from graphport.passes.substitution import add_constant, graph_of, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def lift_constants(graph: Graph, journal: Journal) -> None:
    """Make the result of every `Constant` node a constant of its graph.

    Before  w = Constant(value=…);  y = Conv(x, w)
    After   y = Conv(x, w)   with w among the constants of the graph

    All attribute forms (`value`, `value_float`, `value_ints`, `value_string`, `sparse_value`, …); a result that the
    graph returns keeps its name and is returned as it was. Values are kept bit for bit.
    """
    apply(graph, journal, _lift, {"Constant"})


def _lift(node: Node) -> str:
    graph, old = graph_of(node), node.output
    new = add_constant(graph, constant_value(node.attributes), old.name)
    take_over(old, new)
    graph.remove(node)
    return "is a constant of the graph"
