"""Assign unique node names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.names import unique
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.passes.journal import Journal


def name_nodes(graph: Graph, journal: Journal) -> None:
    """Give each unnamed node a name, and make duplicate names unique.

    Before  "" = Conv(…);  "a" = Relu(…);  "a" = Neg(…)
    After   "Conv" = Conv(…);  "a" = Relu(…);  "a_1" = Neg(…)

    Settings, tables and reports refer to nodes by name. Includes nodes of bodies.
    Does not change unique names. Preserves values bit for bit.
    """
    nodes = [node for inner in walk(graph) for node in inner]
    reserved = {node.name for node in nodes}
    counters: dict[str, int] = {}
    taken: set[str] = set()
    for node in nodes:
        if node.name and node.name not in taken:
            taken.add(node.name)
            continue
        old = node.name
        node.name = unique(old or node.op_type, taken, counters, reserved)
        taken.add(node.name)
        journal.did(node, f"another node has the name {old}" if old else "had no name")
