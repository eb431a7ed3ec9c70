"""Adjust constants with equal batch elements to another batch: class tokens that the exporter expanded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage, storage_of
from graphport.ir.graph import Node, Value
from graphport.ops import registry
from graphport.ops.shapes import Broadcasting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph


def repeat_items(graph: Graph, shapes: Mapping[Value, Sequence[Dim]]) -> None:
    """Resize constants that repeat one item along the batch axis, for inputs that will have `shapes`.

    Before  y = Concat(c, x, axis=1)   of a constant c [2, 1, 8] with equal batch elements, and x [2, 16, 8]
    After   y = Concat(c, x, axis=1)   of c [5, 1, 8], and x [5, 16, 8]; of x [N, 16, 8] with Expand(c, [N, 1, 8])

    Requires another operand of equal rank and old batch, in a Concat along another axis or
    element-wise.
    """
    source = next((value for value, shape in shapes.items() if shape and _dims(value.fact)[:1] != (shape[0],)), None)
    if source is None:
        return
    (was,), now = _dims(source.fact)[:1], shapes[source][0]
    if not isinstance(was, int) or was < 2:
        return
    for node in list(graph):
        for index in _batched_operands(node, was):
            value = node.inputs[index]
            storage = None if value is None else value.storage
            array = None if storage is None else storage.numpy()
            if value is None or storage is None or array is None or not (array == array[:1]).all():
                continue
            if isinstance(now, int):
                array = np.ascontiguousarray(np.broadcast_to(array[:1], (now, *array.shape[1:])))
                node.set_input(index, _constant(graph, value.name, ArrayStorage(array, storage.dtype)))
            else:
                item = _constant(graph, value.name, ArrayStorage(array[:1].copy(), storage.dtype))
                node.set_input(index, _expand_to_batch(graph, node, item, source))


def _batched_operands(node: Node, was: int) -> list[int]:
    """Return the indices of constant operands whose axis 0 has the old batch size `was`."""
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    ranks = [len(_dims(value.fact)) for value in node.operands]
    rank = max(ranks, default=0)
    if op_def is None or not any(
        not value.is_constant and _dims(value.fact)[:1] == (was,) and len(_dims(value.fact)) == rank
        for value in node.operands
    ):
        return []
    is_joined = node.op_type == "Concat" and int(str(node.attributes["axis"])) % rank != 0
    if not is_joined and op_def.role != "pointwise" and not isinstance(op_def.shape, Broadcasting):
        return []
    return [
        index
        for index, value in enumerate(node.inputs)
        if value is not None
        and value.is_constant
        and _dims(value.fact)[:1] == (was,)
        and len(_dims(value.fact)) == rank
    ]


def _expand_to_batch(graph: Graph, before: Node, item: Value, source: Value) -> Value:
    """Return `item` expanded to the batch of `source`, computed before a node."""
    count = Value(graph.fresh(f"{item.name}_count"))
    graph.insert_before(before, Node("Shape", [source], [count], {"start": 0, "end": 1}))
    lengths = Value(graph.fresh(f"{item.name}_shape"))
    rest = [int(str(n)) for n in _dims(item.fact)[1:]]
    behind = _constant(graph, f"{item.name}_rest", storage_of(rest, DType.INT64))
    graph.insert_before(before, Node("Concat", [count, behind], [lengths], {"axis": 0}))
    result = Value(graph.fresh(f"{item.name}_items"))
    graph.insert_before(before, Node("Expand", [item, lengths], [result]))
    return result


def _constant(graph: Graph, name: str, storage: ArrayStorage) -> Value:
    return graph.add_constant(graph.fresh(name), TensorFact.of(storage), storage)


def _dims(fact: object) -> tuple[Dim, ...]:
    return (fact.shape or ()) if isinstance(fact, TensorFact) else ()
