"""Casts to the type of another value become casts to that type, where it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ops.pages.arithmetic.cast import Cast, CastLike
from graphport.passes.journal import Journal, Left, apply

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def resolve_casts(graph: Graph, journal: Journal) -> None:
    """Give casts the element type that another value has.

    Before  y = CastLike(x, z)
    After   y = Cast(x, to=the element type of z)

    Leaves alone: a `z` whose type is not known. Keeps values bit for bit.
    """
    apply(graph, journal, _resolve, {CastLike.name})


def _resolve(node: Node) -> str:
    like = node.operand(1)
    dtype = like.fact.dtype if like is not None and isinstance(like.fact, TensorFact) else None
    if dtype is None:
        raise Left("the type of its second operand is not known")
    node.word = Cast.name
    node.inputs = node.inputs[:1]
    node.set_attribute("to", dtype)
    return f"casts to {dtype}"
