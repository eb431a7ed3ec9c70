"""Replace hash tables that a subgraph fills once by constant keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes.resources import has_expected_arity
from graphport.ir.graph import Graph, walk

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Node, Value

_DIALECT = "tflite"
_TABLE, _FIND, _SIZE, _IMPORT, _ONCE = "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE", "HASHTABLE_IMPORT", "CALL_ONCE"


def fill_tables(graph: Graph) -> None:
    """Pass keys and values to each lookup of a constant table.

    Before  CALL_ONCE: HASHTABLE_IMPORT(t, keys, values);  y = HASHTABLE_FIND(t, x, default)
    After   y = HASHTABLE_FIND(keys, values, x, default)
    """
    found: dict[Any, tuple[Storage, Storage]] = {}
    once = [node for node in graph if _is(node, _ONCE)]
    for node in once:
        for body in node.bodies():
            found |= _imported(body)
    if not found or not _are_known(graph, found):
        return
    for inner in walk(graph):
        for node in list(inner):
            if _is(node, _FIND):
                keys, values = (_constant(inner, storage) for storage in found[_key(node.operands[0])])
                node.inputs = [keys, values, *node.operands[1:]]
            elif _is(node, _SIZE):
                count = storage_of(np.array([found[_key(node.operands[0])][0].count], np.int64))
                size = _constant(inner, count)
                node.output.replace_uses(size)
                inner.remove(node)
    _forget(graph)
    for node in once:
        if not any(len(body) for body in node.bodies()):
            graph.remove(node)


def _is(node: Node, op_type: str) -> bool:
    return node.dialect == _DIALECT and node.op_type == op_type


def _key(handle: Value) -> Any:
    """Return the identity of a table: its number and the types of keys and values."""
    node = handle.producer
    if node is None or not _is(node, _TABLE):
        return None
    return tuple(node.attributes.get(name) for name in ("table_id", "key_dtype", "value_dtype"))


def _imported(body: Graph) -> dict[Any, tuple[Storage, Storage]]:
    found: dict[Any, tuple[Storage, Storage]] = {}
    for node in body:
        if _is(node, _IMPORT) and has_expected_arity(node):
            keys, values = node.operands[1].storage, node.operands[2].storage
            if keys is not None and values is not None:
                # A table that is filled already is not filled again.
                found.setdefault(_key(node.operands[0]), (keys, values))
    return found


def _are_known(graph: Graph, found: dict[Any, tuple[Storage, Storage]]) -> bool:
    nodes = [node for inner in walk(graph) for node in inner if node.dialect == _DIALECT]
    read = [node for node in nodes if node.op_type in (_FIND, _SIZE)]
    return all(has_expected_arity(node) and _key(node.operands[0]) in found for node in read)


def _forget(graph: Graph) -> None:
    """Remove the tables and the nodes that fill them."""
    for inner in list(walk(graph)):
        for words in ((_IMPORT,), (_TABLE,)):
            for node in list(inner):
                if node.dialect == _DIALECT and node.op_type in words and not any(value.uses for value in node.results):
                    inner.remove(node)


def _constant(graph: Graph, storage: Storage) -> Value:
    fact = TensorFact.of(storage) if storage.dtype is not DType.STRING else TensorFact(DType.STRING, storage.shape)
    return graph.add_constant("table", fact, storage)
