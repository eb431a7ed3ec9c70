"""Inlining of a body at its node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import Graph, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ops.builder import Builder


def inlined(b: Builder, body: Graph, given: Sequence[Value]) -> list[Value]:
    """Copy a body to the builder's position with these operands. Return its results."""
    if b.graph is None:
        return [Value(value.name, value.fact) for value in body.outputs]
    graph = b.graph
    moved = dict(zip(body.inputs, given, strict=True))
    for value in body.constants:
        moved[value] = graph.add_constant(value.name, value.fact, value.storage, origin=value.origin)
    for inner in list(body):
        results = [None if v is None else Value(graph.fresh(v.name), v.fact, origin=v.origin) for v in inner.outputs]
        copy = rewrite.copy_node(inner, moved, results)
        graph.append(copy) if b.before is None else graph.insert_before(b.before, copy)
        pairs = zip(inner.outputs, results, strict=True)
        moved |= {old: new for old, new in pairs if old is not None and new is not None}
    return [moved[value] for value in body.outputs]
