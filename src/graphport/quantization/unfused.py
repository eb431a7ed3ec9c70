"""Nodes said so that ONNX Runtime does not make slower kernels of them than of what they replace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.passes.substitution import add_constant

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


_PRODUCTS, _BENDS = ("Gemm", "MatMul"), ("Relu", "Clip")


def unfused(graph: Graph) -> Graph:
    """A copy of `graph` in which ONNX Runtime finds the quickest kernels; `graph` if it does anyway.

    Before  y = Gelu(Add(x, b)), b [c]       y = LayerNormalization(Add(x, z))  y = Relu(MatMul(DQ(x), DQ(w)))
    After   y = Gelu(Add(x, b')), b' [1, c]  y = LayerNormalization(Sum(x, z))  y = Relu(Sum(MatMul(DQ(x), DQ(w))))

    Where it knows their shapes, ONNX Runtime 1.31 makes `BiasGelu` and `SkipLayerNormalization` of them, which take
    1.2 and 3 times the time of the two kernels. The first wants a bias of one axis, the second an `Add`. Behind a
    product of integers it looks for what rounds the result, past a Relu or Clip; where nothing does it takes all its
    weights back in each run, and computes on reals.
    """
    if not any(_bias(node) or _is_skipped(node) or _is_bent(node) for node in graph):
        return graph
    twin = rewrite.copy(graph)
    for node in list(twin):
        bias = _bias(node)
        if bias is not None and bias.storage is not None:
            wide = add_constant(twin, ArrayStorage(bias.storage.numpy()[None]), f"{bias.name}_row")
            node.set_input(node.operands.index(bias), wide)
        elif _is_skipped(node):
            found = Value(twin.fresh(f"{node.output.name}_sum"), node.output.fact)
            twin.insert_before(node, Node("Sum", node.operands, [found], {}, name=node.name, origin=node.origin))
            rewrite.replace(node.output, found)
        elif _is_bent(node):
            found = Value(twin.fresh(f"{node.output.name}_sum"), node.output.fact)
            bend, sums = node.output.users[0], Node("Sum", [node.output], [found], {}, origin=node.origin)
            twin.insert_before(bend, sums)
            bend.set_input(0, found)
    rewrite.remove_dead(twin)
    return twin


def _bias(node: Node) -> Value | None:
    """What is added to the one operand of a Gelu, if that is a constant of one axis."""
    if not _is_read_by(node, "Gelu"):
        return None
    return next((x for x in node.operands if x.is_constant and x.storage and len(x.storage.shape) == 1), None)


def _is_skipped(node: Node) -> bool:
    """Whether two computed tensors are added only to be normalized."""
    return _is_read_by(node, "LayerNormalization") and not any(value.is_constant for value in node.operands)


def _is_bent(node: Node) -> bool:
    """Whether it is a product of integers, all that reads it is a Relu or Clip, and all that reads that is real."""
    if node.dialect or node.word not in _PRODUCTS or node.output.is_output or len(node.output.uses) != 1:
        return False
    if any(value.producer is None or value.producer.op != "DequantizeLinear" for value in node.operands[:2]):
        return False
    bend = node.output.users[0]
    if bend.dialect or bend.word not in _BENDS:
        return False
    readers = bend.output.users
    return not bend.output.is_output and len(readers) == 1 and readers[0].op != "QuantizeLinear"


def _is_read_by(node: Node, word: str) -> bool:
    """Whether it adds numbers that only one node reads, as what it computes with."""
    if node.dialect or node.word != "Add" or node.output.is_output or len(node.output.uses) != 1:
        return False
    reader, fact = next(iter(node.output.uses)).user, node.output.fact
    if not isinstance(reader, Node) or not isinstance(fact, TensorFact) or fact.dtype != DType.FLOAT32:
        return False
    return not reader.dialect and reader.word == word and reader.operands[0] is node.output
