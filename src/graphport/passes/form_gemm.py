"""Combine MatMul and Add to Gemm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ops.products import sole_consumer
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.parts import dims_of
from graphport.passes.substitution import is_real_constant, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def form_gemm(graph: Graph, journal: Journal) -> None:
    """Combine a MatMul with a constant matrix and the Add of a constant to one Gemm.

    Before  h = MatMul(x, w);  y = Add(h, c)        x [M, K], w [K, N], c broadcasts to [M, N]
    After   y = Gemm(x, w, c)

    Does not apply to other ranks, computed weights or summands, a summand that enlarges the result, or an `h` that has
    another consumer or is an output. Preserves values up to rounding.
    """
    apply(graph, journal, _combine, {"Add"})


def _combine(node: Node) -> str | None:
    found = next((v for v in node.operands if v.producer is not None and v.producer.op == "MatMul"), None)
    if found is None or found.producer is None or len(node.operands) != 2:
        return None
    product = found.producer
    summand = node.operand(1) if node.operand(0) is found else node.operand(0)
    if summand is None or not is_real_constant(summand) or not is_real_constant(product.operand(1)):
        return None
    if any(len(dims_of(value)) != 2 for value in product.operands):
        return None
    if sole_consumer(found) is not node:
        raise NotApplicable(f"{found.name} has another consumer")
    shape, added = dims_of(found), dims_of(summand)
    if len(added) > 2 or any(length not in (1, shape[axis - len(added)]) for axis, length in enumerate(added)):
        raise NotApplicable(f"a constant of shape {list(added)} enlarges the result, or may")
    if not added:
        return None  # not all runtimes broadcast a Gemm summand of rank 0; Add does
    product.op_type = "Gemm"
    product.set_input(2, summand)
    old = node.output
    node.inputs = ()
    take_over(old, found)
    rewrite.erase(node)
    return f"fused with {product.name or found.name} to a Gemm"
