"""Older forms of products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.pages.matmul import Gemm
from graphport.ops.views.matmul import GemmView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@Gemm.lower("onnx", until=6)
def gemm_6(
    b: Builder,
    a: Value,
    factor: Value,
    c: Value,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """A summand of the product's own shape, or, with `broadcast`, one that broadcasts; both do so today."""
    del broadcast  # without it the shapes were equal, which broadcasts too
    return b(Gemm, a, factor, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@GemmView.lift("onnx", until=10)
def gemm_with_summand(b: Builder, op: GemmView) -> Value | None:
    """There was always a summand; up to opset 6 it had to be told to broadcast."""
    is_new = (b.version or 0) >= 7
    if op.c is not None and is_new:
        return None
    stated = {} if is_new else {"broadcast": 1}
    summand = b.like(op.a, [0]) if op.c is None else op.c
    operands, facts = (op.a, op.b, summand), [op.a.fact]
    return b.word(
        "Gemm", *operands, facts=facts, alpha=op.alpha, beta=op.beta, transA=op.transA, transB=op.transB, **stated
    )[0]
