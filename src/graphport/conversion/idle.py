"""Constants that nobody reads: legalizing leaves them where it puts a view in their place, or needs them no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def without_idle(graph: Graph) -> Graph:
    """`graph` without the constants that nobody reads, `Constant` nodes too; a copy, unless all are read."""
    if not any(_idle_constants(inner) or _idle_nodes(inner) for inner in walk(graph)):
        return graph
    twin = rewrite.copy(graph)
    for inner in walk(twin):
        for node in _idle_nodes(inner):
            inner.remove(node)
        for value in _idle_constants(inner):
            inner.remove_constant(value)
    return twin


def _idle_constants(graph: Graph) -> list[Value]:
    return [value for value in graph.constants if not value.uses]


def _idle_nodes(graph: Graph) -> list[Node]:
    return [
        node
        for node in graph
        if node.word == "Constant" and not node.dialect and not any(value.uses for value in node.results)
    ]
