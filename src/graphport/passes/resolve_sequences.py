"""Sequences that are parts of a tensor, each taken by a known place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Node, Value
from graphport.ops.pattern import constant_numbers
from graphport.passes.journal import Journal, Left, apply
from graphport.passes.substitution import add_constant, graph_of, take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def resolve_sequences(graph: Graph, journal: Journal) -> None:
    """Part a tensor into results instead of into a sequence of which each item is read.

    Before  s = SplitToSequence(x, sizes);  a = SequenceAt(s, 0);  b = SequenceAt(s, 1)
    After   a, b = Split(x, sizes)

    Leaves alone: sequences that somebody reads otherwise, places that are computed, parts of an extent that is not
    known, items without the axis. Keeps values bit for bit.
    """
    apply(graph, journal, _part, {"SplitToSequence"})


def _part(node: Node) -> str:
    graph, x = graph_of(node), node.inputs[0]
    if x is None or not isinstance(x.fact, TensorFact) or x.fact.shape is None:
        raise Left("the shape of its operand is not known")
    axis = int(str(node.attributes.get("axis") or 0)) % max(len(x.fact.shape), 1)
    sizes = _sizes(node, x.fact.shape[axis])
    places = {reader: _place(node, reader, len(sizes)) for reader in node.output.users}
    if node.output.is_output or not places:
        raise Left("the sequence is a result")
    stem = node.output.name
    told = add_constant(graph, storage_of(np.array(sizes, np.int64)), f"{stem}_sizes")
    shape = x.fact.shape
    facts = [TensorFact(x.fact.dtype, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]
    parts = [Value(graph.fresh(stem), fact) for fact in facts]
    graph.insert_before(node, Node("Split", [x, told], parts, {"axis": axis}, origin=node.origin))
    for reader, place in places.items():
        old = reader.output
        if parts[place].uses or parts[place].is_output:
            copy = Node("Identity", [parts[place]], [Value(graph.fresh(old.name), old.fact)], origin=reader.origin)
            take_over(old, graph.insert_before(reader, copy).output)
        else:
            take_over(old, parts[place])
        graph.remove(reader)
    graph.remove(node)
    return f"parts into {len(parts)} results"


def _sizes(node: Node, extent: object) -> list[int]:
    split = node.operand(1)
    if not isinstance(extent, int):
        raise Left("the extent that is parted is not known")
    if split is None:
        if node.attributes.get("keepdims", 1) != 1:
            raise Left("its items lose the axis")
        return [1] * extent
    told = constant_numbers(split)
    if told is None or not isinstance(split.fact, TensorFact) or split.fact.shape is None:
        raise Left("the sizes are computed")
    numbers = [int(n) for n in told]
    if not split.fact.shape and numbers[0] > 0:
        numbers = [min(numbers[0], extent - start) for start in range(0, extent, numbers[0])]
    if sum(numbers) != extent or not numbers:
        raise Left("the sizes do not make up the extent")
    return numbers


def _place(node: Node, reader: Node, count: int) -> int:
    asked = reader.operand(1) if reader.word == "SequenceAt" and not reader.dialect else None
    told = None if asked is None else constant_numbers(asked)
    if told is None or reader.graph is not node.graph:
        raise Left("the sequence is read otherwise than by known places")
    place = int(told[0])
    if not -count <= place < count:
        raise Left(f"it has no item {place}")
    return place % count
