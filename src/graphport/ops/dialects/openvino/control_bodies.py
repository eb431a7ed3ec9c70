"""Bodies of OpenVINO's control flow: how they are connected, and how they are edited."""

from __future__ import annotations

from graphport.ir import rewrite
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder

Map = tuple[tuple[int, ...], ...]
Edges = tuple[tuple[int, int], ...]


def copied(b: Builder, body: Graph) -> Graph:
    """A body to be edited, in which new values are called like none around it."""
    twin = rewrite.copy(body)
    if b.graph is not None:
        b.graph.share_names(twin)
    return twin
