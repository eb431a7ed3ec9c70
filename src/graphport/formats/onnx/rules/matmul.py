"""Older forms of products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.rules.older import RULES
from graphport.ops.views.matmul import GemmView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


RULES.lower(
    """
# Without `broadcast` the summand had the product's own shape, which broadcasts too.
Gemm(a, b, c, *, alpha=1.0, beta=1.0, broadcast: ignored = 0, transA=0, transB=0)
    -> Gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
""",
    until=6,
)


@GemmView.export_rule("onnx", until=10)
def gemm_with_summand(b: Builder, op: GemmView) -> Value | None:
    """Export Gemm with the summand that older opsets require, and up to opset 6 with explicit broadcasting."""
    is_new = (b.version or 0) >= 7
    if op.c is not None and is_new:
        return None
    stated = {} if is_new else {"broadcast": 1}
    summand = b.like(op.a, [0]) if op.c is None else op.c
    operands, facts = (op.a, op.b, summand), [op.a.fact]
    return b.emit(
        "Gemm", *operands, facts=facts, alpha=op.alpha, beta=op.beta, transA=op.transA, transB=op.transB, **stated
    )[0]
