"""Products with a constant, as weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ir import rewrite
from graphport.passes.absorption import absorb_after
from graphport.passes.affine import Affine, of_arithmetic
from graphport.passes.journal import Journal, Left, apply
from graphport.passes.substitution import is_real_constant, sole_reader, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_SCALED = frozenset(("Conv", "ConvTranspose", "Gemm", "MatMul", "BatchNormalization"))


def fuse_scale(graph: Graph, journal: Journal) -> None:
    """Fold a `Mul` or `Div` by a constant per channel into the weights of the operator before it.

    Before  h = Conv(x, w, b);  y = Mul(h, c)
    After   y = Conv(x, w * c, b * c)

    Also ConvTranspose, Gemm, BatchNormalization, and MatMul with a constant operand. `Div(h, c)` multiplies by 1 / c,
    `Neg(h)` by -1.
    Leaves alone: weights that are computed, constants that differ along another axis or make the result larger, an `h`
    that somebody else reads or the graph returns, divisors without finite inverse. Keeps values up to rounding.
    """
    apply(graph, journal, _fuse, {"Mul", "Div", "Neg"})


def _fuse(node: Node) -> str | None:
    if node.op == "Neg":
        return _negate(node)
    found = next((v for v in node.operands if v.producer is not None and v.producer.op in _SCALED), None)
    if found is None or found.producer is None or len(node.operands) != 2:
        return None
    weighted = found.producer
    other = node.operand(1) if node.operand(0) is found else node.operand(0)
    if not is_real_constant(other):
        return None
    if sole_reader(found) is not node:
        raise Left(f"{found.name} is read elsewhere, too")
    _, _, affine = of_arithmetic(node)
    return _absorb(node, found, weighted, affine)


def _negate(node: Node) -> str | None:
    value = node.operand(0)
    if value is None or value.producer is None or value.producer.op not in _SCALED:
        return None
    if sole_reader(value) is not node:
        raise Left(f"{value.name} is read elsewhere, too")
    return _absorb(node, value, value.producer, Affine(np.array([-1.0]), None))


def _absorb(node: Node, value: Value, weighted: Node, affine: Affine) -> str:
    absorb_after(weighted, affine)
    old = node.output
    node.inputs = ()
    take_over(old, value)
    rewrite.erase(node)
    return f"became weights of {weighted.op} {weighted.name}".rstrip()
