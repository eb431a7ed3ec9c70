"""Dead code elimination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.passes.journal import Journal


def remove_dead(graph: Graph, journal: Journal) -> None:
    """Remove nodes and constants that no output depends on, in bodies too.

    Before  h = Relu(x);  y = Neg(x);  return y
    After   y = Neg(x);  return y

    Does not remove graph inputs, and values that only a body uses. Preserves values bit for bit.
    """
    idle = sum(not value.uses for inner in walk(graph) for value in inner.constants)
    nodes = rewrite.remove_dead(graph)
    if nodes:
        journal.did(f"{nodes} nodes", "their results are unused", nodes)
    elif idle:
        journal.did(f"{idle} constants", "they are unused", idle)
