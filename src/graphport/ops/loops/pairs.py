"""Fusion of two recurrent layers over one input, one per direction, into a bidirectional layer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.ir import rewrite
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import Computed
from graphport.ops.infer import Inference
from graphport.ops.loops.rows import producer
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import vector

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value

Array: TypeAlias = "np.ndarray[Any, Any]"
_FIRST_STATE = 5
"""The index of the operand with the initial state."""


def join_directions(graph: Graph, layers: Sequence[Node]) -> None:
    """Fuse each pair of a forward and a reverse layer in `layers` with a common input into a bidirectional layer.

    Before  y, h = GRU(x, w, r, b, , h0);  z, k = GRU[reverse](x, v, s, c, , k0)
    After   yz, hk = GRU[bidirectional](x, [w, v], [r, s], [b, c], , Concat(h0, k0));  y and z are slices of yz

    Some runtimes fuse such pairs themselves, and not always correctly.
    """
    waiting: dict[Hashable, Node] = {}
    is_moved = False
    for node in layers:
        way = node.attributes.get("direction")
        other = "reverse" if way == "forward" else "forward"
        match = waiting.pop((*_key(node), other), None)
        if match is None:
            waiting[*_key(node), way] = node
        elif not _depends(node, match) and all(_weights(each) for each in (node, match)):
            _join(graph, match, node)
            is_moved = True
    if is_moved:
        rewrite.sort_topologically(graph)


def _key(node: Node) -> tuple[Hashable, ...]:
    x, attributes = node.operand(0), node.attributes
    move = producer(x, "Transpose")
    source = (x, None) if move is None else (move.operand(0), move.attributes.get("perm"))
    given = tuple(str(attributes.get(name)) for name in ("hidden_size", "linear_before_reset", "activations"))
    return (node.op_type, *source, *given, *(operand is None for operand in node.inputs))


def _weights(node: Node) -> list[Storage]:
    """Return the weights and biases; `None` unless all are constant."""
    found = [value.storage for value in node.inputs[1:4] if value is not None]
    return [storage for storage in found if storage is not None] if None not in found else []


def _depends(node: Node, other: Node) -> bool:
    """Whether an initial state of one layer is computed from a result of the second layer."""
    pending = [value for value in node.inputs if value is not None]
    seen: set[Node] = set()
    while pending:
        made = pending.pop().producer
        if made is other:
            return True
        if made is not None and made not in seen:
            seen.add(made)
            pending += made.operands
    return False


def _join(graph: Graph, one: Node, two: Node) -> None:
    first, second = (one, two) if one.attributes["direction"] == "forward" else (two, one)
    b = Builder(Inference(), graph, two, origin=two.unasked_origin, stem=first.results[0].name)
    emit = OpBuilder(b)
    stored: list[Value | None] = []
    for here, there in zip(first.inputs[1:4], second.inputs[1:4], strict=True):
        parts = [value.storage for value in (here, there) if value is not None and value.storage is not None]
        shape = () if not parts else (2, *parts[0].shape[1:])
        stored.append(b.constant(Computed(_joined, tuple(parts), parts[0].dtype, shape)) if parts else None)
    count = len(registry.op_defs()[first.op_type].states)
    indices = range(_FIRST_STATE, _FIRST_STATE + count)
    initial = [emit("Concat", first.inputs[place], second.inputs[place], axis=0) for place in indices]
    given: dict[str, Any] = {**first.attributes, "direction": "bidirectional"}
    if "activations" in given:
        given["activations"] *= 2
    results = b.results(registry.op_defs()[first.op_type], count + 1, first.inputs[0], *stored, None, *initial, **given)
    for way, node in enumerate((first, second)):
        ends = partial(vector, b)
        for axis, old, whole in zip((1, 0, 0), node.outputs, results, strict=False):
            if old is not None:
                part = emit("Slice", whole, ends([way]), ends([way + 1]), ends([axis]))
                rewrite.swap_names(old, part)
                old.replace_uses(part)
    for node in (first, second):
        graph.remove(node)


def _joined(*arrays: Array) -> Array:
    return np.concatenate(arrays)
