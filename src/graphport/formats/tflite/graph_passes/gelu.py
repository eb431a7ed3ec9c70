"""Recompose decomposed operators that have one LiteRT kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Node
from graphport.ops.products import gelu_of

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Graph


def fuse_gelus(graph: Graph) -> None:
    """Recompose Gelu from its formula with Erf or Tanh; unused nodes are removed.

    Does not apply to other float types than float32, for which there is no kernel.
    """
    for node in list(graph):
        fact = node.results[0].fact if node.op in ("Mul", "Div") else None
        if not isinstance(fact, TensorFact) or fact.dtype is not DType.FLOAT32:
            continue
        found = gelu_of(node)
        if found is None:
            continue
        x, approximate = found
        attributes: dict[str, Attribute] = {} if approximate is None else {"approximate": approximate}
        twin = Node("Gelu", [x], [], attributes, name=node.name, origin=node.unasked_origin)
        graph.insert_before(node, twin)
        twin.take_outputs(node)
        graph.remove(node)
    for node in reversed(graph):
        if node.op in _GELU_OPERATORS and not any(value.uses or value.is_output for value in node.results):
            graph.remove(node)


_GELU_OPERATORS = frozenset(("Mul", "Div", "Add", "Erf", "Tanh", "Pow"))
