"""`Constant` nodes as constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.storage import ArrayStorage
from graphport.ops.pages.generate import constant_value
from graphport.passes.journal import Journal, Left, apply
from graphport.passes.substitution import add_constant, graph_of, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node

MOST_DENSE = 1 << 26
"""Bytes of a sparse value, all zeros counted, up to which it becomes a constant."""


def lift_constants(graph: Graph, journal: Journal) -> None:
    """Make the result of every `Constant` node a constant of its graph.

    Before  w = Constant(value=…);  y = Conv(x, w)
    After   y = Conv(x, w)   with w among the constants of the graph

    All attribute forms (`value`, `value_float`, `value_ints`, `value_string`, `sparse_value`, …); a result that the
    graph returns keeps its name and is returned as it was. A sparse value becomes a dense constant: as the value of a
    node it may be read by any operator, as a constant by few.
    Leaves alone: sparse values of more than `MOST_DENSE` bytes. Values are kept bit for bit.
    """
    apply(graph, journal, _lift, {"Constant"})


def _lift(node: Node) -> str:
    graph, old = graph_of(node), node.output
    storage = constant_value(node.attributes)
    if node.attributes.get("sparse_value") is not None:
        if storage.nbytes > MOST_DENSE:
            raise Left(f"its sparse value takes {storage.nbytes} bytes with all zeros")
        storage = ArrayStorage(storage.numpy(), storage.dtype)
    new = add_constant(graph, storage, old.name)
    take_over(old, new)
    graph.remove(node)
    return "is a constant of the graph"
