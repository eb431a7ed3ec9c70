"""Fold constant factors into weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ir import rewrite
from graphport.ir.graph import Node
from graphport.ops.products import sole_consumer
from graphport.passes.absorption import absorb_after, is_absorbing
from graphport.passes.affine import Affine, of_arithmetic
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.shared_weights import absorb
from graphport.passes.substitution import is_real_constant, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value


def fuse_scale(graph: Graph, journal: Journal) -> None:
    """Fold a `Mul` or `Div` by a per-channel constant into the weights of the operator before it.

    Before  h = Conv(x, w, b);  y = Mul(h, c)
    After   y = Conv(x, w * c, b * c)

    Also ConvTranspose, Gemm, BatchNormalization, and MatMul with a constant operand. `Div(h, c)` multiplies by 1 / c,
    `Neg(h)` by -1. Does not apply to computed weights, to constants that vary along another axis or enlarge the result,
    to an `h` that has another consumer or is an output, to divisors without a finite inverse, or to shared weights
    without room for a copy. Preserves values up to rounding.
    """
    apply(graph, journal, lambda node: _fuse(node, journal), {"Mul", "Div", "Neg"})


def _fuse(node: Node, journal: Journal) -> str | None:
    if node.op == "Neg":
        return _negate(node, journal)
    found = next((v for v in node.operands if v.producer is not None and is_absorbing(v.producer)), None)
    if found is None or found.producer is None or len(node.operands) != 2:
        return None
    other = node.operand(1) if node.operand(0) is found else node.operand(0)
    if not is_real_constant(other):
        return None
    if sole_consumer(found) is not node:
        raise NotApplicable(f"{found.name} has another consumer")
    _, _, affine = of_arithmetic(node)
    return _absorb(node, found, affine, journal)


def _negate(node: Node, journal: Journal) -> str | None:
    value = node.operand(0)
    if value is None or value.producer is None or not is_absorbing(value.producer):
        return None
    if sole_consumer(value) is not node:
        raise NotApplicable(f"{value.name} has another consumer")
    return _absorb(node, value, Affine(np.array([-1.0]), None), journal)


def _absorb(node: Node, value: Value, affine: Affine, journal: Journal) -> str | None:
    weighted = value.producer
    if weighted is None:
        return None
    absorb(absorb_after, weighted, affine, journal, lambda weight: _is_scaled_by_all(weight, node, weighted))
    old = node.output
    node.inputs = ()
    take_over(old, value)
    rewrite.erase(node)
    return f"folded into the weights of {weighted.op} {weighted.name}".rstrip()


def _is_scaled_by_all(weight: Value, node: Node, weighted: Node) -> bool:
    """Whether all consumers of `weight` (the weight of `weighted`) are followed by the product that follows `node`.

    This includes the consumers of their other operands: one without room for its own weight keeps a shared bias too.
    """
    given = [value for value in node.operands if value is not weighted.output]
    open_values, seen = [weight], {weight}
    while open_values:
        for use in open_values.pop().uses:
            reader = use.user
            behind = sole_consumer(reader.output) if isinstance(reader, Node) and reader.op == weighted.op else None
            if behind is None or behind.op != node.op or not isinstance(reader, Node):
                return False
            if [value for value in behind.operands if value.producer is not reader] != given:
                return False
            beside = [value for value in reader.operands if value.is_constant and value not in seen]
            seen.update(beside)
            open_values += beside
    return True
