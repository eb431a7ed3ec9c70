"""Replace CastLike by Cast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ops.definitions.arithmetic.cast import Cast, CastLike
from graphport.passes.journal import Journal, NotApplicable, apply

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def resolve_casts(graph: Graph, journal: Journal) -> None:
    """Replace a CastLike by a Cast to the type of its second operand.

    Before  y = CastLike(x, z)
    After   y = Cast(x, to=the element type of z)

    Does not apply if the type of `z` is unknown. Preserves values bit for bit.
    """
    apply(graph, journal, _resolve, {CastLike.name})


def _resolve(node: Node) -> str:
    like = node.operand(1)
    dtype = like.fact.dtype if like is not None and isinstance(like.fact, TensorFact) else None
    if dtype is None:
        raise NotApplicable("the type of its second operand is unknown")
    node.op_type = Cast.name
    node.inputs = node.inputs[:1]
    node.set_attribute("to", dtype)
    return f"casts to {dtype}"
