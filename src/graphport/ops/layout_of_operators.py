"""The layout interface of canonical operators, derived from the operator definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ops.declare import OpDef


_RESHAPES = frozenset(("Reshape", "Squeeze", "Unsqueeze"))
"""Operators that change the shape only; operand 1 is the target shape."""


class OperatorLayouts:
    """The layout interface of canonical operators (see `ops.layout_language`)."""

    def order(self, node: Node) -> tuple[int, ...] | None:
        # Permute constants before dequantization only: a permuted result is not recognized as a quantized filter.
        if node.op != "Transpose" or node.operands[0].is_constant:
            return None
        perm, fact = node.attributes.get("perm"), node.output.fact
        if isinstance(perm, tuple):
            return tuple(axis for axis in perm if isinstance(axis, int))
        rank = len(fact.shape) if isinstance(fact, TensorFact) and fact.shape is not None else None
        return None if rank is None else tuple(reversed(range(rank)))

    def transpose(self, graph: Graph, result: Value, like: Node) -> Node:
        del graph
        return Node("Transpose", [], [result], origin=like.unasked_origin)

    def set_operands(self, graph: Graph, node: Node, source: Value, order: Sequence[int]) -> None:
        del graph
        node.inputs = [source]
        node.set_attribute("perm", tuple(order))

    def carried(self, node: Node) -> Sequence[int]:
        op_def = None if node.dialect else registry.op_defs().get(node.op_type)
        if op_def is None or op_def.is_random or node.attributes.get("block_size"):
            return ()
        if not op_def.turns:
            keywords = op_def.signature.keywords.keys()
            is_plain = op_def.role == "pointwise" and op_def.exactness != "accumulation" and not _names_axes(op_def)
            return range(len(node.inputs)) if is_plain and not {"axis", "axes", "size"} & keywords else ()
        if op_def.turns == "axis":
            return range(len(node.inputs)) if op_def.signature.variadic is not None else (0,)
        if op_def.turns == "reduced" and not node.attributes.get("keepdims", 1):
            return ()
        axes = _axes(node, op_def)
        is_known = axes is None or (axes.is_constant and axes.storage is not None)
        return (0,) if is_known else ()

    def removed_axes(self, node: Node) -> Sequence[int] | None:
        op_def = None if node.dialect else registry.op_defs().get(node.op_type)
        if op_def is None or op_def.turns != "reduced" or node.attributes.get("keepdims", 1):
            return None
        return _listed_axes(node, op_def)

    def reorder(self, graph: Graph, node: Node, order: Sequence[int]) -> None:
        op_def = registry.op_defs()[node.op_type]
        if op_def.turns == "axis":
            axis = node.attributes.get("axis", op_def.signature.keywords["axis"].default)
            if isinstance(axis, int):
                node.set_attribute("axis", order[axis])
        elif op_def.turns:
            _reorder_axes(graph, node, op_def, order)

    def reshape(self, graph: Graph, source: Value, result: Value, like: Node) -> Node:
        made = Node("Reshape", [source, None], [result], origin=like.unasked_origin)
        fact = result.fact
        self.set_shape(
            graph, made, [n for n in fact.dims if isinstance(n, int)] if isinstance(fact, TensorFact) else []
        )
        return made

    def shape(self, node: Node) -> tuple[Dim, ...] | None:
        fact = node.outputs[0].fact if not node.dialect and node.op_type in _RESHAPES and node.outputs[0] else None
        target = node.inputs[1] if len(node.inputs) > 1 else None
        if not isinstance(fact, TensorFact) or target is None or target.storage is None or not target.is_constant:
            return None
        return fact.shape

    def set_shape(self, graph: Graph, node: Node, shape: Sequence[int]) -> None:
        storage = storage_of(np.array(shape, np.int64))
        node.restate("Reshape", "", {})
        node.set_input(1, graph.add_constant("shape", TensorFact.of(storage), storage))


def _names_axes(op_def: OpDef) -> bool:
    """Whether an operand has a fixed rank above 0 and so belongs to certain axes of the first (a mean per channel)."""
    return any(each.rank is not None and not each.rank.is_scalar for each in op_def.signature.operands)


def _axes_operand(op_def: OpDef) -> int | None:
    """Return the index of the operand that lists axes; `None` if an attribute does."""
    names = [operand.name for operand in op_def.signature.operands]
    return names.index("axes") if "axes" in names else None


def _axes(node: Node, op_def: OpDef) -> Value | None:
    place = _axes_operand(op_def)
    return None if place is None or place >= len(node.inputs) else node.inputs[place]


def _num_ordered_axes(node: Node, rank: int) -> int:
    """Return the number of axes that a node refers to by order."""
    rows = node.inputs[1] if len(node.inputs) > 1 else None
    shape = rows.fact.shape if rows is not None and isinstance(rows.fact, TensorFact) else None
    length = shape[0] if shape else rank
    return min(length, rank) if isinstance(length, int) and length else rank


def _listed_axes(node: Node, op_def: OpDef) -> list[int] | None:
    """Return the axes that an operand or an attribute lists; `None` if there is none, or it is computed."""
    given, attribute = _axes(node, op_def), node.attributes.get("axes")
    if given is not None and given.storage is not None:
        return [int(axis) for axis in given.storage.numpy().reshape(-1)]
    if _axes_operand(op_def) is None and isinstance(attribute, tuple):
        return [axis for axis in attribute if isinstance(axis, int)]
    return None


def _reorder_axes(graph: Graph, node: Node, op_def: OpDef, order: Sequence[int]) -> None:
    place, listed = _axes_operand(op_def), _listed_axes(node, op_def)
    if not listed:
        if op_def.turns == "reduced":
            return
        # Axes that were implied by their order are now named explicitly.
        listed = list(range(_num_ordered_axes(node, len(order))))
    new = [order[axis] for axis in listed]
    if place is None:
        node.set_attribute("axes", tuple(new))
        return
    beside = node.inputs[1] if len(node.inputs) > 1 else None
    dtype = beside.fact.dtype if beside is not None and isinstance(beside.fact, TensorFact) else None
    kind = DType.INT32 if dtype is DType.INT32 else DType.INT64
    storage = storage_of(np.array(new, kind.numpy), kind)
    value = graph.add_constant("axes", TensorFact.of(storage), storage)
    node.inputs = [*node.inputs, *[None] * (place - len(node.inputs) + 1)]
    node.set_input(place, value)
