"""Products of matrices and a sum, as one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ops.products import sole_reader
from graphport.passes.journal import Journal, Left, apply
from graphport.passes.parts import dims_of
from graphport.passes.substitution import is_real_constant, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def form_gemm(graph: Graph, journal: Journal) -> None:
    """Make a MatMul of matrices with a constant weight, and the Add of a constant behind it, one Gemm.

    Before  h = MatMul(x, w);  y = Add(h, c)        x [M, K], w [K, N], c broadcasts to [M, N]
    After   y = Gemm(x, w, c)

    Leaves alone: other ranks, a weight or summand that is computed, a summand that makes the result larger, an `h` that
    somebody else reads or the graph returns. Keeps values up to rounding.
    """
    apply(graph, journal, _form, {"Add"})


def _form(node: Node) -> str | None:
    found = next((v for v in node.operands if v.producer is not None and v.producer.op == "MatMul"), None)
    if found is None or found.producer is None or len(node.operands) != 2:
        return None
    product = found.producer
    summand = node.operand(1) if node.operand(0) is found else node.operand(0)
    if summand is None or not is_real_constant(summand) or not is_real_constant(product.operand(1)):
        return None
    if any(len(dims_of(value)) != 2 for value in product.operands):
        return None
    if sole_reader(found) is not node:
        raise Left(f"{found.name} is read elsewhere, too")
    shape, added = dims_of(found), dims_of(summand)
    if len(added) > 2 or any(length not in (1, shape[axis - len(added)]) for axis, length in enumerate(added)):
        raise Left(f"a constant of shape {list(added)} makes the result larger, or may")
    if not added:
        return None  # no runtime has to broadcast a summand of rank 0; the Add does
    product.word = "Gemm"
    product.set_input(2, summand)
    old = node.output
    node.inputs = ()
    take_over(old, found)
    rewrite.erase(node)
    return f"became a Gemm with {product.name or found.name}"
