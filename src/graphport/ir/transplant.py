"""Nodes of a body, put into the graph around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Mapping


def transplant(body: Graph, place: Node, given: Mapping[Value, Value], *, behind: str = "") -> dict[Value, Value]:
    """Insert copies of the constants and nodes of `body` before `place`; return the value mapping.

    Args:
        body: a body of `place` or of a node in the same graph; it is not changed.
        place: the node before which the copies are inserted.
        given: replacements of the inputs of the body.
        behind: suffix of the names of copied nodes, to keep names unique.
    """
    graph = place.graph
    if graph is None:
        message = "the node is in no graph"
        raise ValueError(message)
    moved = dict(given)
    for value in body.constants:
        moved[value] = graph.add_constant(value.name, value.fact, value.storage, origin=value.origin)
    for inner in list(body):
        results = [None if v is None else Value(graph.fresh(v.name), v.fact, origin=v.origin) for v in inner.outputs]
        copy = graph.insert_before(place, rewrite.copy_node(inner, moved, results))
        copy.name = f"{copy.name}{behind}" if copy.name else ""
        pairs = zip(inner.outputs, results, strict=True)
        moved |= {old: new for old, new in pairs if old is not None and new is not None}
    return moved
