"""Tensors that are views of another tensor, which LiteRT stores in the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph

_DIALECT = "tflite"
_BRANCHES, _SLICE = "IF", "SLICE"
_TRANSPOSE, _RESHAPE, _SHAPING = "TRANSPOSE", "RESHAPE", ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def drop_identities(graph: Graph) -> None:
    """Bypass Identity nodes: TFLite has no such operator."""
    for node in list(graph):
        if node.op == "Identity" and not node.output.is_output and node.output.uses:
            rewrite.replace(node.output, node.operands[0])
            graph.remove(node)


def reshape_what_stays(graph: Graph) -> None:
    """Replace a Transpose that moves only axes of length 1 by a RESHAPE, which does not copy."""
    for node in list(graph):
        order = node.operand(1) if node.dialect == _DIALECT and node.op_type == _TRANSPOSE else None
        source, target = node.operand(0), _target(node)
        fact = source.fact if source is not None else None
        if order is None or order.storage is None or source is None or target is None:
            continue
        dims = fact.shape if isinstance(fact, TensorFact) else None
        moved = [int(axis) for axis in order.storage.numpy().reshape(-1) if dims is not None and dims[int(axis)] != 1]
        if dims is None or moved != sorted(moved) or source.is_constant:
            continue
        shape = graph.add_constant(graph.fresh(f"{node.output.name}_shape"), TensorFact.of(target), target)
        attributes = dict(node.attributes)
        twin = Node(
            _RESHAPE, [source, shape], [], attributes, dialect=_DIALECT, name=node.name, origin=node.unasked_origin
        )
        graph.insert_before(node, twin)
        twin.take_outputs(node)
        graph.remove(node)


def shape_from_root(graph: Graph) -> None:
    """Replace RESHAPE of a RESHAPE by one RESHAPE of the first tensor.

    LiteRT counts the consumers of a tensor and of its direct source, not of more distant sources: an in-place operator
    may overwrite elements that other nodes read later.
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


def own_results(graph: Graph) -> None:
    """Replace constant results of IF branches, for which LiteRT aborts the process.

    LiteRT computes a constant result once before all runs, and IF frees its memory like that of a computed one.

    Before  y = RESHAPE(constant, shape)       z = TILE(constant, counts)
    After   y = the constant in that shape     z = SLICE(TILE(constant, counts), 0, all)
    """
    owner = graph.parent
    if owner is None or owner.dialect != _DIALECT or owner.op_type != _BRANCHES:
        return
    settled: set[Value] = set()
    for node in graph:
        if node.dialect == _DIALECT and all(each.is_constant or each in settled for each in node.operands):
            settled.update(node.results)
    before = list(graph.outputs)
    graph.set_outputs([_of_its_own(graph, value) if value in settled else value for value in before])
    for value in dict.fromkeys(before):
        if value in settled and value.producer is not None and not value.uses and not value.is_output:
            graph.remove(value.producer)


def _of_its_own(graph: Graph, value: Value) -> Value:
    maker = cast("Node", value.producer)
    source = maker.operand(0)
    shape = value.shape
    dims = None if shape is None else [n for n in shape if isinstance(n, int)]
    if shape is None or dims is None or len(dims) != len(shape):
        return value
    name = graph.fresh(f"{value.name}_own")
    if maker.op_type == _RESHAPE and source is not None and source.is_constant and source.storage is not None:
        storage = source.storage.reshaped(dims)
        return graph.add_constant(name, TensorFact.of(storage), storage)
    # SLICE requires at least one axis.
    wide = value if dims else _emit(graph, _RESHAPE, value, [1], operands=[[1]])
    taken = _emit(graph, _SLICE, wide, dims or [1], operands=[[0] * len(dims or [1]), [-1] * len(dims or [1])])
    return taken if dims else _emit(graph, _RESHAPE, taken, [], operands=[[]])


def _emit(graph: Graph, op_type: str, x: Value, dims: list[int], *, operands: list[list[int]]) -> Value:
    """Append a node with operand `x` and int32 constants with the elements of `operands`."""
    stored = [storage_of(np.array(each, np.int32)) for each in operands]
    constants = [graph.add_constant(graph.fresh(f"{x.name}_{op_type.lower()}"), TensorFact.of(s), s) for s in stored]
    fact = TensorFact(x.dtype, tuple(dims))
    result = Value(graph.fresh(f"{x.name}_own"), fact)
    graph.append(Node(op_type, [x, *constants], [result], dialect=_DIALECT))
    return result


def _shapes(node: Node) -> bool:
    return node.dialect == _DIALECT and node.op_type in _SHAPING


def _target(node: Node) -> Storage | None:
    """Return the target shape of a RESHAPE; one size may be open (-1)."""
    fact = node.results[0].fact if node.results else None
    dims = fact.shape if isinstance(fact, TensorFact) else None
    numbers = [n if isinstance(n, int) else -1 for n in dims or ()]
    # The writer reports sizes that exceed int32.
    if dims is None or numbers.count(-1) > 1 or max(numbers, default=0) > np.iinfo(np.int32).max:
        return None
    return storage_of(np.array(numbers, np.int32))
