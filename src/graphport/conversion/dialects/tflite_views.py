"""Tensors that are another one in another shape, which LiteRT keeps in the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import rewrite
from graphport.ir.graph import Node

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph

_DIALECT = "tflite"
_TRANSPOSE, _RESHAPE, _SHAPING = "TRANSPOSE", "RESHAPE", ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def drop_identities(graph: Graph) -> None:
    """Let readers of a copy read what it is a copy of: TFLite has no word for it but a reshaping."""
    for node in list(graph):
        if node.op == "Identity" and not node.output.is_output and node.output.uses:
            rewrite.replace(node.output, node.operands[0])
            graph.remove(node)


def reshape_what_stays(graph: Graph) -> None:
    """Let a Transpose that moves nothing but axes of one cell be a reshaping, which copies nothing."""
    for node in list(graph):
        order = node.operand(1) if node.dialect == _DIALECT and node.word == _TRANSPOSE else None
        source, target = node.operand(0), _target(node)
        fact = source.fact if source is not None else None
        if order is None or order.storage is None or source is None or target is None:
            continue
        dims = fact.shape if isinstance(fact, TensorFact) else None
        moved = [int(axis) for axis in order.storage.numpy().reshape(-1) if dims is not None and dims[int(axis)] != 1]
        if dims is None or moved != sorted(moved) or source.is_constant:
            continue
        shape = graph.add_constant(graph.fresh(f"{node.output.name}_shape"), TensorFact.of(target), target)
        told = dict(node.attributes)
        twin = Node(_RESHAPE, [source, shape], [], told, dialect=_DIALECT, name=node.name, origin=node.unasked_origin)
        graph.insert_before(node, twin)
        twin.take_outputs(node)
        graph.remove(node)


def shape_from_root(graph: Graph) -> None:
    """Let a tensor that is reshaped twice be reshaped from the first one.

    LiteRT counts the readers of a tensor and of what it was reshaped from, but of no further one: an operator that
    computes in place then overwrites numbers that others read later.
    """
    for node in list(graph):
        if not _shapes(node) or (before := node.operands[0].producer) is None or not _shapes(before):
            continue
        root, target = before.operands[0], _target(node)
        if root.graph is not graph or target is None:
            continue
        shape = graph.add_constant(graph.fresh(f"{node.output.name}_shape"), TensorFact.of(target), target)
        twin = Node(_RESHAPE, [root, shape], [], dialect=_DIALECT, name=node.name, origin=node.unasked_origin)
        graph.insert_before(node, twin)
        twin.take_outputs(node)
        graph.remove(node)
        if not before.output.uses:
            graph.remove(before)


def _shapes(node: Node) -> bool:
    return node.dialect == _DIALECT and node.word in _SHAPING


def _target(node: Node) -> Storage | None:
    """The shape of the result for a reshaping, in which one extent may be open."""
    fact = node.results[0].fact if node.results else None
    dims = fact.shape if isinstance(fact, TensorFact) else None
    numbers = [n if isinstance(n, int) else -1 for n in dims or ()]
    # Extents past its integers are left to the writer, which tells of them.
    if dims is None or numbers.count(-1) > 1 or max(numbers, default=0) > np.iinfo(np.int32).max:
        return None
    return storage_of(np.array(numbers, np.int32))
