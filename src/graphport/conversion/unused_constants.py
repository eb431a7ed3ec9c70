"""Removal of unused constants. Legalization leaves a constant behind after it was copied or replaced by a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def remove_unused_constants(graph: Graph) -> Graph:
    """Return `graph` without unused constants and `Constant` nodes: a copy, or `graph` itself if there are none."""
    if not any(_unused_constants(inner) or _unused_constant_nodes(inner) for inner in walk(graph)):
        return graph
    twin = rewrite.copy(graph)
    for inner in walk(twin):
        for node in _unused_constant_nodes(inner):
            inner.remove(node)
        for value in _unused_constants(inner):
            inner.remove_constant(value)
    return twin


def _unused_constants(graph: Graph) -> list[Value]:
    return [value for value in graph.constants if not value.uses]


def _unused_constant_nodes(graph: Graph) -> list[Node]:
    return [
        node
        for node in graph
        if node.op_type == "Constant" and not node.dialect and not any(value.uses for value in node.results)
    ]
