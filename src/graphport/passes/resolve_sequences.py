"""Sequences of which each item is known where it is read."""

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
    from collections.abc import Sequence

    from graphport.ir.graph import Graph


_MAKERS = frozenset({"SplitToSequence", "SequenceConstruct", "SequenceEmpty"})
_MOST_ITEMS = 1024


def resolve_sequences(graph: Graph, journal: Journal) -> None:
    """Take sequences apart whose items are known wherever they are read.

    Before  s = SplitToSequence(x, sizes);  a = SequenceAt(s, 0);  t = SequenceErase(s, 0);  b = ConcatFromSequence(t)
    After   a, c, d = Split(x, sizes);  b = Concat(c, d)

    Leaves alone: sequences that are results or read otherwise, places that are computed, parts of an extent that is not
    known, more than 1,024 items. Keeps values bit for bit.
    """
    apply(graph, journal, _resolve, _MAKERS)


def _resolve(node: Node) -> str:
    sequence = node.output
    if node.word == "SplitToSequence":
        sizes = _sizes(node, *_parted(node))
        _check(sequence, len(sizes))
        items = _split(node, sizes)
    else:
        items = [value for value in node.inputs if value is not None]
        _check(sequence, len(items))
    _read(sequence, items)
    graph_of(node).remove(node)
    return f"is {len(items)} values"


def _parted(node: Node) -> tuple[object]:
    x = node.inputs[0]
    if x is None or not isinstance(x.fact, TensorFact) or x.fact.shape is None:
        raise Left("the shape of its operand is not known")
    return (x.fact.shape[_axis(node, len(x.fact.shape))],)


def _axis(node: Node, rank: int) -> int:
    return int(str(node.attributes.get("axis") or 0)) % max(rank, 1)


def _check(sequence: Value, count: int) -> None:
    """Refuse a sequence of `count` items of which some reader cannot be told what it reads.

    Raises:
        Left: there is such a reader, or none, or the sequence is a result.
    """
    if sequence.is_output or not sequence.users:
        raise Left("the sequence is a result")
    if count > _MOST_ITEMS:
        raise Left(f"it has {count} items")
    maker = sequence.producer
    for reader in sequence.users:
        if maker is None or reader.graph is not maker.graph or reader.dialect:
            raise Left(_OTHERWISE)
        match reader.word:
            case "SequenceAt":
                _place(reader.operand(1), count, count)
            case "SequenceInsert":
                _place(reader.operand(2), count, count + 1)
                _check(reader.output, count + 1)
            case "SequenceErase":
                _place(reader.operand(1), count, count)
                _check(reader.output, count - 1)
            case "ConcatFromSequence" if count:
                pass
            case "SequenceLength":
                pass
            case _:
                raise Left(_OTHERWISE)


_OTHERWISE = "the sequence is read otherwise than by known places"


def _place(asked: Value | None, count: int, end: int) -> int:
    """The place in a sequence of `count` items, below `end`; the last one where none is said."""
    if asked is None:
        if not end:
            raise Left("it has no item")
        return end - 1
    numbers = constant_numbers(asked)
    if numbers is None:
        raise Left(_OTHERWISE)
    place = int(numbers[0])
    place += count if place < 0 else 0
    if not 0 <= place < end:
        raise Left(f"it has no item {int(numbers[0])}")
    return place


def _split(node: Node, sizes: Sequence[int]) -> list[Value]:
    """The parts of what a node makes a sequence of, without the axis if it says so."""
    graph, x = graph_of(node), node.inputs[0]
    if x is None or not isinstance(x.fact, TensorFact) or x.fact.shape is None:
        raise Left("the shape of its operand is not known")
    shape = x.fact.shape
    axis = _axis(node, len(shape))
    stem = node.output.name
    lengths = add_constant(graph, storage_of(np.array(sizes, np.int64)), f"{stem}_sizes")
    facts = [TensorFact(x.fact.dtype, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]
    parts = [Value(graph.fresh(stem), fact) for fact in facts]
    graph.insert_before(node, Node("Split", [x, lengths], parts, {"axis": axis}, origin=node.origin))
    if node.operand(1) is not None or node.attributes.get("keepdims", 1) == 1:
        return parts
    axes = add_constant(graph, storage_of(np.array([axis], np.int64)), f"{stem}_axes")
    rest = TensorFact(x.fact.dtype, (*shape[:axis], *shape[axis + 1 :]))
    squeezed = [Node("Squeeze", [part, axes], [Value(graph.fresh(stem), rest)], origin=node.origin) for part in parts]
    return [graph.insert_before(node, each).output for each in squeezed]


def _read(sequence: Value, items: Sequence[Value]) -> None:
    """Give every reader of a sequence what it reads of `items`; `_check` has seen all of them."""
    for reader in list(sequence.users):
        graph, count, old = graph_of(reader), len(items), reader.output
        match reader.word:
            case "SequenceAt":
                item = items[_place(reader.operand(1), count, count)]
                is_free = item.producer is not None and item.graph is old.graph and not (item.uses or item.is_output)
                take_over(old, item if is_free else _inserted(reader, "Identity", [item]))
            case "SequenceLength":
                take_over(old, add_constant(graph, storage_of(np.array(count, np.int64)), old.name))
            case "SequenceInsert":
                place, tensor = _place(reader.operand(2), count, count + 1), reader.inputs[1]
                inserted = [] if tensor is None else [tensor]
                _read(old, [*items[:place], *inserted, *items[place:]])
            case "SequenceErase":
                place = _place(reader.operand(1), count, count)
                _read(old, [*items[:place], *items[place + 1 :]])
            case _:
                take_over(old, _joined(reader, items))
        graph.remove(reader)


def _joined(reader: Node, items: Sequence[Value]) -> Value:
    """The items of a ConcatFromSequence, one behind another, along a new axis if it says so."""
    graph = graph_of(reader)
    axis = int(str(reader.attributes["axis"]))
    if reader.attributes.get("new_axis"):
        axes = add_constant(graph, storage_of(np.array([axis], np.int64)), f"{reader.output.name}_axes")
        items = [_inserted(reader, "Unsqueeze", [item, axes]) for item in items]
    return _inserted(reader, "Concat", items, {"axis": axis})


def _inserted(reader: Node, op: str, operands: Sequence[Value], attributes: dict[str, int] | None = None) -> Value:
    """The result of a new node before `reader`; who takes over that of `reader` has its fact, too."""
    graph = graph_of(reader)
    value = Value(graph.fresh(reader.output.name))
    return graph.insert_before(reader, Node(op, operands, [value], attributes or {}, origin=reader.origin)).output


def _sizes(node: Node, extent: object) -> list[int]:
    split = node.operand(1)
    if not isinstance(extent, int):
        raise Left("the extent that is parted is not known")
    if split is None:
        return [1] * extent
    lengths = constant_numbers(split)
    if lengths is None or not isinstance(split.fact, TensorFact) or split.fact.shape is None:
        raise Left("the sizes are computed")
    numbers = [int(n) for n in lengths]
    if not split.fact.shape and numbers[0] > 0:
        numbers = [min(numbers[0], extent - start) for start in range(0, extent, numbers[0])]
    if sum(numbers) != extent or not numbers:
        raise Left("the sizes do not make up the extent")
    return numbers
