"""Open extents of inputs of which a graph leaves one number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def settle_inputs(graph: Graph) -> None:
    """Set the dims of inputs that the operators determine.

    Before  x is [1, S];  Reshape(Embed(x), [8, 12, 16]) requires 16 * S = 96
    After   x is [1, 6]

    Some readers compare both and would refuse the text.
    """
    for value in graph.inputs:
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.shape is None:
            continue
        shape = tuple(settled if isinstance(settled := graph.extents.resolved(dim), int) else dim for dim in fact.shape)
        if shape != fact.shape:
            value.fact = fact.with_shape(shape)
