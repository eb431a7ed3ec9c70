"""Remove reshapes around matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.infer import Inference
from graphport.ops.products import pairs, producer, sole_consumer
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import dims_of, insert_operator, same_dims
from graphport.passes.substitution import graph_of, is_real_constant

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_MATRIX = 2
_BATCHED = 3


def unflatten_products(graph: Graph, journal: Journal) -> None:
    """Remove a Reshape before a MatMul that joins axes, and the Reshape after it that splits them again.

    Before  p = MatMul(Reshape(x), w);               y = Reshape(p)      or  y = Reshape(p + bias)
            p = MatMul(Reshape(x), Reshape(z));      y = Reshape(p)
    After   y = MatMul(x, w)                                             or  y = MatMul(x, w) + bias
            y = MatMul(x, z)

    All axes but the last, or the last two of a batched product, are joined and restored. Does not apply to lengths that
    differ or may differ, or to products with another consumer. Preserves values up to rounding.
    """
    apply(graph, journal, _unflatten, {"Reshape"})


def _unflatten(node: Node) -> str | None:
    product, bias = _product(node)
    if product is None:
        return None
    left, right = product.operands
    joined = _before(left)
    if joined is None:
        return None
    rank = len(dims_of(left))
    if rank == _MATRIX and len(dims_of(right)) == _MATRIX:
        other, lead = right, dims_of(joined)[:-1]
    else:
        found = _before(right)
        if rank != _BATCHED or found is None or not same_dims(dims_of(joined)[:-2], dims_of(found)[:-2]):
            return None
        other, lead = found, dims_of(joined)[:-2]
    kept = rank - 1
    if not same_dims(dims_of(node.output), (*lead, *dims_of(product.output)[-kept:])):
        return None
    if bias is None:
        return insert_operator(node, "MatMul", [joined, other], {})
    builder = Builder(Inference(), graph_of(node), node, origin=product.origin, stem=product.output.name)
    return insert_operator(node, "Add", [builder(registry.op_defs()["MatMul"], joined, other), bias], {})


def _product(last: Node) -> tuple[Node | None, Value | None]:
    """Return the product that only a Reshape uses, and the constant along the last axis added in between."""
    value = last.operand(0)
    total = producer(value, "Add")
    if total is None:
        product = producer(value, "MatMul")
        return (product if product is not None and sole_consumer(product.output) is last else None), None
    for found, bias in pairs(total):
        product = producer(found, "MatMul")
        if (
            product is not None
            and is_real_constant(bias)
            and len(dims_of(bias)) == 1
            and sole_consumer(found) is total
            and sole_consumer(total.output) is last
            and same_dims(dims_of(found), dims_of(total.output))
        ):
            return product, bias
    return None, None


def _before(value: Value | None) -> Value | None:
    """Return the operand of a Reshape that joins the leading axes of `value`."""
    reshape = producer(value, "Reshape")
    source = None if reshape is None else reshape.operand(0)
    if value is None or source is None:
        return None
    dims, own = dims_of(value), dims_of(source)
    if len(dims) not in (_MATRIX, _BATCHED) or len(own) <= len(dims):
        return None
    return source if same_dims(dims[1:], own[1 - len(dims) :]) else None
