"""Fold constant summands into biases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ops import registry
from graphport.ops.products import sole_consumer
from graphport.passes.absorption import absorb_after, add_to_gemm, is_absorbing
from graphport.passes.affine import of_arithmetic
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.shared_weights import absorb
from graphport.passes.substitution import float_elements, is_real_constant, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def fuse_bias(graph: Graph, journal: Journal) -> None:
    """Fold an `Add` or `Sub` of a constant into the bias of the operator before it.

    Before  h = Conv(x, w, b);  y = Add(h, c)        c of shape [], [1], [C, 1, 1] or [1, C, 1, 1], on either side
    After   y = Conv(x, w, b + c)

    Also ConvTranspose, Gemm and BatchNormalization. An existing bias is added; a Gemm takes every `c` that broadcasts
    to its result; `c - h` negates the weights. Does not apply to constants that vary along another axis or enlarge the
    result, to an `h` that has another consumer or is an output, or to a computed bias. Preserves values up to rounding.
    """
    apply(graph, journal, lambda node: _fuse(node, journal), {"Add", "Sub"})


def _fuse(node: Node, journal: Journal) -> str | None:
    found = next((v for v in node.operands if v.producer is not None and _has_bias(v.producer)), None)
    if found is None or found.producer is None or len(node.operands) != 2:
        return None
    weighted = found.producer
    other = node.operand(1) if node.operand(0) is found else node.operand(0)
    if not is_real_constant(other):
        return None
    if sole_consumer(found) is not node:
        raise NotApplicable(f"{found.name} has another consumer")
    if weighted.op == "Gemm" and node.op == "Add":
        _into_gemm(weighted, found, other)
    else:
        _, _, affine = of_arithmetic(node)
        absorb(absorb_after, weighted, affine, journal)
    old = node.output
    node.inputs = ()
    take_over(old, found)
    rewrite.erase(node)
    return f"folded into the bias of {weighted.op} {weighted.name}".rstrip()


def _has_bias(node: Node) -> bool:
    return is_absorbing(node) and bool(registry.op_defs()[node.op].bias)


def _into_gemm(gemm: Node, product: Value, constant: Value | None) -> None:
    array = float_elements(constant)
    fact = product.fact
    if array is None or not isinstance(fact, TensorFact) or fact.shape is None:
        raise NotApplicable(f"the shape of {product.name} is unknown")
    fits = array.ndim <= 2 and all(
        length in (1, fact.shape[axis - array.ndim]) for axis, length in enumerate(array.shape)
    )
    if not fits:
        raise NotApplicable(f"a constant of shape {list(array.shape)} enlarges the result {fact}, or may")
    add_to_gemm(gemm, array)
