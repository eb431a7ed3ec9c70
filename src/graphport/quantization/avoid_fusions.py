"""Rewrite nodes so that ONNX Runtime does not fuse them into slower kernels."""

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
    """Return a copy of `graph` without fusions that slow ONNX Runtime down; `graph` if there are none.

    Before  y = Gelu(Add(x, b)), b [c]       y = LayerNormalization(Add(x, z))  y = Relu(MatMul(DQ(x), DQ(w)))
    After   y = Gelu(Add(x, b')), b' [1, c]  y = LayerNormalization(Sum(x, z))  y = Relu(Sum(MatMul(DQ(x), DQ(w))))

    With static shapes, ONNX Runtime 1.31 fuses the first two to `BiasGelu` and `SkipLayerNormalization`, which take 1.2
    and 3 times the time of the two kernels. The first requires a bias of rank 1, the second an `Add`. After an integer
    product it expects a QuantizeLinear, possibly after a Relu or Clip; without one it dequantizes all weights in each
    run and computes in floats.
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
    """Return the addend of a Gelu's only operand, if it is a constant of rank 1."""
    if not _is_read_by(node, "Gelu"):
        return None
    return next((x for x in node.operands if x.is_constant and x.storage and len(x.storage.shape) == 1), None)


def _is_skipped(node: Node) -> bool:
    """Whether an Add of two computed tensors has one consumer, a LayerNormalization (SkipLayerNormalization)."""
    return _is_read_by(node, "LayerNormalization") and not any(value.is_constant for value in node.operands)


def _is_bent(node: Node) -> bool:
    """Whether an integer product's only consumer is a Relu or Clip whose only consumer is a float node."""
    if node.dialect or node.op_type not in _PRODUCTS or node.output.is_output or len(node.output.uses) != 1:
        return False
    if any(value.producer is None or value.producer.op != "DequantizeLinear" for value in node.operands[:2]):
        return False
    bend = node.output.users[0]
    if bend.dialect or bend.op_type not in _BENDS:
        return False
    readers = bend.output.users
    return not bend.output.is_output and len(readers) == 1 and readers[0].op != "QuantizeLinear"


def _is_read_by(node: Node, op_type: str) -> bool:
    """Whether an addition has one consumer, which uses it as data."""
    if node.dialect or node.op_type != "Add" or node.output.is_output or len(node.output.uses) != 1:
        return False
    reader, fact = next(iter(node.output.uses)).user, node.output.fact
    if not isinstance(reader, Node) or not isinstance(fact, TensorFact) or fact.dtype != DType.FLOAT32:
        return False
    return not reader.dialect and reader.op_type == op_type and reader.operands[0] is node.output
