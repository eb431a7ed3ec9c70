"""Removal of values with a dimension of size 0, which most formats and runtimes do not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ops.constant_folding import folded

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value

_WITH_CONSTANTS = ("openvino", "tflite", "ncnn")
"""Dialects that represent empty values as constants: their runtimes fail on other empty values."""


def drop_empty_operands(graph: Graph) -> None:
    """Remove the operands of each Concat that have size 0 along its axis.

    Before  h = Slice(x, [0], [0], [1]);  y = Concat(x, h, axis=1)
    After   y = x

    Does not apply if all operands are empty.
    """
    for inner in walk(graph):
        for node in list(inner):
            if node.op != "Concat":
                continue
            operands = [value for value in node.operands if not _is_empty(value, node)]
            if len(operands) == 1:
                rewrite.replace(node.output, operands[0])
                inner.remove(node)
            elif operands and len(operands) < len(node.operands):
                node.inputs = operands


def fold_empty_values(graph: Graph, dialect: str) -> None:
    """Compute nodes that read only constants and values without elements, and replace values without elements.

    Before  y = ReduceMax(x)                                                                     x float32[2, 0]
    After   y = -inf
    """
    for inner in list(walk(graph)):
        for node in list(inner):
            storages = _fold(inner, node)
            if not storages and dialect in _WITH_CONSTANTS and all(map(_without_elements, node.results)):
                storages = [_empty_storage(value) for value in node.results]
            elif dialect not in _WITH_CONSTANTS and any(map(_without_elements, node.results)):
                continue
            for value, storage in zip(node.results, storages, strict=bool(storages)):
                _replace(inner, value, storage)
            if storages:
                inner.remove(node)


def _fold(graph: Graph, node: Node) -> list[Storage]:
    """Return the results of a node that reads constants and at least one empty value; nothing for other nodes."""
    empty = {
        value: _empty_storage(value) for value in node.operands if not value.is_constant and _without_elements(value)
    }
    if not empty or any(value not in empty and not value.is_constant for value in node.operands):
        return []
    operands = node.inputs
    constants = {
        value: graph.add_constant(f"{value.name}_empty", value.fact, storage) for value, storage in empty.items()
    }
    node.inputs = [value if value is None else constants.get(value, value) for value in operands]
    storages = [folded(value) for value in node.results]
    node.inputs = operands
    for value in constants.values():
        graph.remove_constant(value)
    return [storage for storage in storages if storage is not None] if None not in storages else []


def _replace(graph: Graph, value: Value, storage: Storage) -> None:
    constant = graph.add_constant(value.name, value.fact, storage)
    rewrite.replace(value, constant)


def _without_elements(value: Value) -> bool:
    fact = value.fact
    is_known = isinstance(fact, TensorFact) and fact.dtype is not None and fact.is_static
    return is_known and isinstance(fact, TensorFact) and 0 in fact.dims


def _empty_storage(value: Value) -> Storage:
    fact = value.fact
    dtype = fact.dtype if isinstance(fact, TensorFact) and fact.dtype is not None else DType.FLOAT32
    shape = [dim for dim in value.shape or () if isinstance(dim, int)]
    return ArrayStorage(np.zeros(shape, dtype.numpy), dtype)


def _is_empty(value: Value, node: Node) -> bool:
    fact, axis = value.fact, node.attributes.get("axis")
    shape = fact.shape if isinstance(fact, TensorFact) else None
    return isinstance(axis, int) and bool(shape) and -len(shape) <= axis < len(shape) and shape[axis] == 0
