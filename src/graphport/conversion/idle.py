"""Constants that nobody reads: legalizing leaves them where it puts a reshaped view in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def without_idle(graph: Graph) -> Graph:
    """`graph` without the constants that nobody reads; a copy, unless all are read."""
    if all(value.uses for inner in walk(graph) for value in inner.constants):
        return graph
    twin = rewrite.copy(graph)
    for inner in walk(twin):
        for value in [value for value in inner.constants if not value.uses]:
            inner.remove_constant(value)
    return twin
