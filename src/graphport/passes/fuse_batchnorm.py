"""Fold BatchNormalization into adjacent weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import Node
from graphport.ops.products import sole_consumer
from graphport.passes.absorption import absorb_after, absorb_before, is_absorbing, is_foldable_before
from graphport.passes.affine import Affine, of_batchnorm
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.shared_weights import absorb
from graphport.passes.substitution import add_constant, float_elements, graph_of, rounded, take_over

if TYPE_CHECKING:
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Value


def fuse_batchnorm(graph: Graph, journal: Journal) -> None:
    """Fold `BatchNormalization` into the weights before it, otherwise into those after it.

    Before  h = Conv(x, w, b);  y = BatchNormalization(h, gamma, beta, mean, var)
    After   y = Conv(x, w * k, b * k + s)  with  k = gamma / sqrt(var + epsilon),  s = beta - mean * k

    Also ConvTranspose, Gemm and another BatchNormalization; a MatMul takes the factor, and an Add after it the summand.
    After it, a Conv without padding, a Gemm or a MatMul of matrices takes both. Does not apply in training, to
    parameters that are not constant or not finite, to an `h` that has another consumer or is an output, with padding,
    or to shared weights without room for a copy. Preserves values up to rounding.
    """
    apply(graph, journal, lambda node: _fuse(node, journal), {"BatchNormalization"})


def _fuse(node: Node, journal: Journal) -> str:
    affine = of_batchnorm(node)
    reasons: list[str] = []
    for way in (_into_before, _into_behind):
        try:
            return way(node, affine, journal)
        except NotApplicable as reason:
            reasons.append(str(reason))
    raise NotApplicable("; ".join(reasons))


def _into_before(node: Node, affine: Affine, journal: Journal) -> str:
    value = node.operand(0)
    producer = None if value is None else value.producer
    if value is None or producer is None or not (is_absorbing(producer) or producer.op == "Add"):
        raise NotApplicable("the operator before it has no weights to scale")
    if sole_consumer(value) is not node:
        raise NotApplicable(
            f"{value.name} has another consumer" if len(value.uses) > 1 else f"{value.name} belongs to an outer graph"
        )
    if producer.op == "Add":
        return _into_sum(node, producer, affine, journal)
    if producer.op == "MatMul":
        return _into_product(node, producer, affine, journal)
    absorb(absorb_after, producer, affine, journal)
    _stand_in(node, value)
    return f"folded into the weights of {producer.op} {producer.name}".rstrip()


def _into_product(node: Node, product: Node, affine: Affine, journal: Journal) -> str:
    """`y = x W k + s`: fold the factor into the weight; the summand remains as an Add."""
    graph, storage = graph_of(node), _summand(node, affine)
    absorb(absorb_after, product, Affine(affine.factor, None), journal)
    summand = add_constant(graph, storage, f"{node.output.name}.bias")
    add = Node("Add", [product.output, summand], (), name=node.name, origin=node.origin)
    graph.insert_before(node, add)
    add.take_outputs(node)
    graph.remove(node)
    return f"folded into the weights of {product.op} {product.name} and an Add".replace("  ", " ")


def _into_sum(node: Node, total: Node, affine: Affine, journal: Journal) -> str:
    """`y = (x W + c) k + s`: fold the factor into both, the summand into `c`."""
    index = next((index for index in (1, 0) if float_elements(total.operand(index)) is not None), None)
    product = None if index is None else total.operand(1 - index)
    constant = None if index is None else float_elements(total.operand(index))
    if index is None or constant is None or product is None or product.producer is None:
        raise NotApplicable("the operator before it has no weights to scale")
    weighted = product.producer
    if weighted.op != "MatMul" or sole_consumer(product) is not total:
        raise NotApplicable("the operator before it has no weights to scale")
    fact = product.fact
    if product.fact != total.output.fact or affine.factor is None or affine.summand is None:
        raise NotApplicable(f"the Add before it enlarges {product.name}, or may")
    rank = len(getattr(fact, "shape", None) or ())
    along = (-1, *[1] * (rank - 2))
    storage = rounded(constant * affine.factor.reshape(along) + affine.summand.reshape(along), _dtype(node))
    if storage is None:
        raise NotApplicable("a summand would not be finite")
    absorb(absorb_after, weighted, Affine(affine.factor, None), journal)
    graph = graph_of(node)
    total.set_input(index, add_constant(graph, storage, f"{node.output.name}.bias"))
    _stand_in(node, total.output)
    return f"folded into the weights of {weighted.op} {weighted.name} and its summand".replace("  ", " ")


def _into_behind(node: Node, affine: Affine, journal: Journal) -> str:
    value, result = node.operand(0), node.output
    readers = [use.user for use in result.uses]
    if value is None or not readers or result.is_output:
        raise NotApplicable("it is a graph output")
    for use in result.uses:
        if not isinstance(use.user, Node) or use.user.graph is not node.graph or use.index != 0:
            raise NotApplicable("a consumer uses it as another operand, or is in a body")
        if not is_foldable_before(use.user):
            raise NotApplicable(f"{use.user.op} after it has no weights to scale")
    targets = [reader for reader in readers if isinstance(reader, Node)]
    if len(targets) > 1:
        raise NotApplicable("it has several consumers")
    absorb(absorb_before, targets[0], affine, journal)
    rewrite.replace(result, value)
    rewrite.erase(node)
    return f"folded into the weights of the following {targets[0].op} {targets[0].name}".rstrip()


def _stand_in(node: Node, value: Value) -> None:
    """Replace `value`, which only `node` uses, by the result of `node`, and remove `node`."""
    old = node.output
    node.inputs = ()
    take_over(old, value)
    rewrite.erase(node)


def _summand(node: Node, affine: Affine) -> Storage:
    fact = node.output.fact
    shape = getattr(fact, "shape", None)
    if shape is None or affine.summand is None:
        raise NotApplicable("the rank of its operand is unknown")
    storage = rounded(affine.summand.reshape(-1, *[1] * (len(shape) - 2)), _dtype(node))
    if storage is None:
        raise NotApplicable("a summand would not be finite")
    return storage


def _dtype(node: Node) -> DType:
    dtype = getattr(node.output.fact, "dtype", None)
    if dtype is None:
        raise NotApplicable("its element type is unknown")
    return dtype
