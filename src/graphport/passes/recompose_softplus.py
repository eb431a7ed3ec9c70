"""Softplus and what is made of it, put together again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.passes.journal import Journal, apply
from graphport.passes.parts import entry, pairs, producer, put
from graphport.passes.substitution import sole_reader

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def recompose_softplus(graph: Graph, journal: Journal) -> None:
    """Put a Softplus together from its logarithm.

    Before  y = Log(Exp(x) + 1)
    After   y = Softplus(x)

    Leaves alone: other constants, parts that somebody else reads. Keeps values up to rounding, and numbers so large
    that their exponential is infinite.
    """
    apply(graph, journal, _softplus, {"Log"})


def recompose_mish(graph: Graph, journal: Journal) -> None:
    """Put a Mish together from its product.

    Before  y = x * Tanh(Softplus(x))
    After   y = Mish(x)

    Leaves alone: products with something else, parts that somebody else reads. Keeps values up to rounding.
    """
    apply(graph, journal, _mish, {"Mul"})


def _softplus(node: Node) -> str | None:
    total = producer(node.operand(0), "Add")
    if total is None or sole_reader(total.output) is not node:
        return None
    for value, one in pairs(total):
        power = producer(value, "Exp")
        if power is not None and sole_reader(value) is total and entry(one) == 1 and value.fact == total.output.fact:
            return put(node, "Softplus", [power.operand(0)], {})
    return None


def _mish(node: Node) -> str | None:
    for x, other in pairs(node):
        gate = producer(other, "Tanh")
        inner = None if gate is None or sole_reader(other) is not node else producer(gate.operand(0), "Softplus")
        if inner is not None and inner.operand(0) is x and sole_reader(inner.output) is gate:
            return put(node, "Mish", [x], {})
    return None
