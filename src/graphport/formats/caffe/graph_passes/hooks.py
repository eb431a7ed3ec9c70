"""Graph passes of Caffe, whose outputs are the unused blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

_COPYING = "Split"


def after_export(graph: Graph) -> None:
    """Make every output a separate computed value without uses.

    Before  y = f(x);  z = g(y);  return y, z
    After   h = f(x);  z = g(h);  y = Split(h);  return y, z

    If an output is an input or another output, its copy has another name: then copies of all outputs keep the order.
    """
    seen: set[Value] = set()
    is_renamed = len(set(graph.outputs)) < len(graph.outputs) or any(each.producer is None for each in graph.outputs)
    for index, value in enumerate(graph.outputs):
        if value.producer is not None and len(value.uses) == 1 and not is_renamed:
            continue
        copy = Value(graph.fresh(value.name), value.fact)
        graph.append(Node(_COPYING, [value], [copy], dialect="caffe"))
        if value.producer is not None and value not in seen:
            # The output keeps the name; inner names do not matter.
            rewrite.swap_names(value, copy)
        seen.add(value)
        graph.set_output(index, copy)
