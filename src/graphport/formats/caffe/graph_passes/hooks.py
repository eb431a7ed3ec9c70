"""Caffe returns the blobs that no layer reads, and has no other way to say what a network returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

_COPYING = "Split"


def after_lifting(graph: Graph) -> None:
    """Let every output be a blob of its own, computed and read by nobody.

    Before  y = f(x);  z = g(y);  return y, z
    After   h = f(x);  z = g(h);  y = Split(h);  return y, z
    """
    seen: set[Value] = set()
    for index, value in enumerate(graph.outputs):
        if value.producer is not None and len(value.uses) == 1 and value not in seen:
            seen.add(value)
            continue
        copy = Value(graph.fresh(value.name), value.fact)
        graph.append(Node(_COPYING, [value], [copy], dialect="caffe"))
        if value.producer is not None and value not in seen:
            # The name is the output's; within the network nobody asks for it.
            rewrite.swap_names(value, copy)
        seen.add(value)
        graph.set_output(index, copy)
