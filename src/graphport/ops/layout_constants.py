"""Layout changes of constants and of tensors with axes of length 1, which need no Transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ops.constant_folding import folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value

_RESHAPE, _TRANSPOSE = "Reshape", "Transpose"
_MOVES = frozenset({_TRANSPOSE, _RESHAPE, "Squeeze", "Unsqueeze"})


def fold_layouts(graph: Graph) -> None:
    """Replace each Transpose and Reshape of a constant by a constant, and remove nodes that copy their operand.

    These are Identity, and Transpose with an identity permutation.

    Before  w = Transpose(c, p);  y = Identity(Conv(x, w))
    After   y = Conv(x, c permuted by p), which is computed when it is read

    Does not remove a node that is an output or reads an input.
    """
    for node in list(graph):
        if node.dialect:
            continue
        if node.op_type in _MOVES and node.operands[0].is_constant:
            _fold(graph, node)
        elif _is_identity(node) and not node.output.is_output and node.operands[0].producer is not None:
            node.output.replace_uses(node.operands[0])
            graph.remove(node)
        elif node.op_type == _RESHAPE and not node.operands[1].is_constant:
            _set_shape(graph, node, _dims(node.output))


def _is_identity(node: Node) -> bool:
    order = node.attributes.get("perm") if node.op_type == _TRANSPOSE else None
    return node.op_type == "Identity" or (isinstance(order, tuple) and order == tuple(range(len(order))))


def _fold(graph: Graph, node: Node) -> None:
    storage = None if node.output.is_output else folded(node.output)
    if storage is None:
        return
    value = graph.add_constant(node.output.name, node.output.fact, storage)
    node.output.replace_uses(value)
    graph.remove(node)


def merge_into_reshapes(graph: Graph) -> None:
    """Replace a Transpose of a Reshape that moves only axes of length 1 by a Reshape.

    Before  h = Reshape(x, [n, 1, 1, c]);  y = Transpose(h, [0, 3, 1, 2])
    After   y = Reshape(x, [n, c, 1, 1])

    Does not apply if more than one dim of `y` is symbolic.
    """
    for node in list(graph):
        reshape = node.operands[0].producer if not node.dialect and node.op_type == _TRANSPOSE else None
        if reshape is None or reshape.dialect or reshape.op_type != _RESHAPE or not _keeps_order(node):
            continue
        source = reshape.operands[0]
        if _set_shape(graph, node, _dims(node.output)):
            node.set_input(0, source)
            if not reshape.output.uses and not reshape.output.is_output:
                graph.remove(reshape)


def _keeps_order(node: Node) -> bool:
    """Whether the axes that a Transpose moves past each other have length 1."""
    perm, dims = node.attributes.get("perm"), _dims(node.operands[0])
    if not isinstance(perm, tuple) or dims is None:
        return False
    moved = [axis for axis in perm if isinstance(axis, int) and dims[axis] != 1]
    return moved == sorted(moved)


def _dims(value: Value) -> Sequence[Dim] | None:
    fact = value.fact
    return fact.shape if isinstance(fact, TensorFact) else None


def _set_shape(graph: Graph, node: Node, dims: Sequence[Dim] | None) -> bool:
    """Make a node a Reshape to constant dims, of which one may be symbolic; return whether that is possible."""
    if dims is None or 0 in dims or sum(not isinstance(n, int) for n in dims) > 1:
        return False
    storage = storage_of(np.array([n if isinstance(n, int) else -1 for n in dims], np.int64))
    shape = graph.add_constant("shape", TensorFact.of(storage), storage)
    node.restate(_RESHAPE, "", {})
    node.inputs = [node.inputs[0], shape]
    return True
