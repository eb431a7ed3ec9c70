"""Replace sequences with statically known elements by tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Node, Value
from graphport.ops.pattern import constant_numbers
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.substitution import add_constant, graph_of, take_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Graph


_MAKERS = frozenset({"SplitToSequence", "SequenceConstruct", "SequenceEmpty"})
_MOST_ITEMS = 1024


def resolve_sequences(graph: Graph, journal: Journal) -> None:
    """Replace sequences whose elements are statically known at each use.

    Before  s = SplitToSequence(x, sizes);  a = SequenceAt(s, 0);  t = SequenceErase(s, 0);  b = ConcatFromSequence(t)
    After   a, c, d = Split(x, sizes);  b = Concat(c, d)

    Does not apply to sequences that are outputs or have other consumers, to computed positions, to splits of unknown
    length, or to more than 1,024 elements. Preserves values bit for bit.
    """
    apply(graph, journal, _resolve, _MAKERS)


def _resolve(node: Node) -> str:
    sequence = node.output
    if node.op_type == "SplitToSequence":
        sizes = _sizes(node, *_parted(node))
        _check(sequence, len(sizes))
        items = _split_elements(node, sizes)
    else:
        items = [value for value in node.inputs if value is not None]
        _check(sequence, len(items))
    _replace_consumer(sequence, items)
    graph_of(node).remove(node)
    return f"is {len(items)} values"


def _parted(node: Node) -> tuple[object]:
    x = node.inputs[0]
    if x is None or not isinstance(x.fact, TensorFact) or x.fact.shape is None:
        raise NotApplicable("the shape of its operand is unknown")
    return (x.fact.shape[_axis(node, len(x.fact.shape))],)


def _axis(node: Node, rank: int) -> int:
    return int(str(node.attributes.get("axis") or 0)) % max(rank, 1)


def _check(sequence: Value, count: int) -> None:
    """Check that each consumer of a sequence of `count` elements can be replaced.

    Raises:
        Left: a consumer cannot be replaced, there is none, or the sequence is an output.
    """
    if sequence.is_output or not sequence.users:
        raise NotApplicable("the sequence is a graph output")
    if count > _MOST_ITEMS:
        raise NotApplicable(f"the sequence has {count} elements")
    maker = sequence.producer
    for reader in sequence.users:
        if maker is None or reader.graph is not maker.graph or reader.dialect:
            raise NotApplicable(_OTHERWISE)
        match reader.op_type:
            case "SequenceAt":
                _position(reader.operand(1), count, count)
            case "SequenceInsert":
                _position(reader.operand(2), count, count + 1)
                _check(reader.output, count + 1)
            case "SequenceErase":
                _position(reader.operand(1), count, count)
                _check(reader.output, count - 1)
            case "ConcatFromSequence" if count:
                pass
            case "SequenceLength":
                pass
            case _:
                raise NotApplicable(_OTHERWISE)


_OTHERWISE = "the sequence is not read by constant indices"


def _position(asked: Value | None, count: int, end: int) -> int:
    """Return a position in a sequence of `count` elements, below `end`; the last one if it is absent."""
    if asked is None:
        if not end:
            raise NotApplicable("the sequence is empty")
        return end - 1
    numbers = constant_numbers(asked)
    if numbers is None:
        raise NotApplicable(_OTHERWISE)
    place = int(numbers[0])
    place += count if place < 0 else 0
    if not 0 <= place < end:
        raise NotApplicable(f"element {int(numbers[0])} is out of range")
    return place


def _split_elements(node: Node, sizes: Sequence[int]) -> list[Value]:
    """Split the source of a sequence into elements, without the split axis if keepdims is 0."""
    graph, x = graph_of(node), node.inputs[0]
    if x is None or not isinstance(x.fact, TensorFact) or x.fact.shape is None:
        raise NotApplicable("the shape of its operand is unknown")
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


def _replace_consumer(sequence: Value, items: Sequence[Value]) -> None:
    """Replace each consumer of a sequence by its elements; `_check` has accepted all of them."""
    for reader in list(sequence.users):
        graph, count, old = graph_of(reader), len(items), reader.output
        match reader.op_type:
            case "SequenceAt":
                item = items[_position(reader.operand(1), count, count)]
                is_free = item.producer is not None and item.graph is old.graph and not (item.uses or item.is_output)
                take_over(old, item if is_free else _insert_before(reader, "Identity", [item]))
            case "SequenceLength":
                take_over(old, add_constant(graph, storage_of(np.array(count, np.int64)), old.name))
            case "SequenceInsert":
                place, tensor = _position(reader.operand(2), count, count + 1), reader.inputs[1]
                inserted = [] if tensor is None else [tensor]
                _replace_consumer(old, [*items[:place], *inserted, *items[place:]])
            case "SequenceErase":
                place = _position(reader.operand(1), count, count)
                _replace_consumer(old, [*items[:place], *items[place + 1 :]])
            case _:
                take_over(old, _concat_elements(reader, items))
        graph.remove(reader)


def _concat_elements(reader: Node, items: Sequence[Value]) -> Value:
    """Concatenate the elements for a ConcatFromSequence, along a new axis if requested."""
    graph = graph_of(reader)
    axis = int(str(reader.attributes["axis"]))
    if reader.attributes.get("new_axis"):
        axes = add_constant(graph, storage_of(np.array([axis], np.int64)), f"{reader.output.name}_axes")
        items = [_insert_before(reader, "Unsqueeze", [item, axes]) for item in items]
    return _insert_before(reader, "Concat", items, {"axis": axis})


def _insert_before(reader: Node, op: str, operands: Sequence[Value], attributes: dict[str, int] | None = None) -> Value:
    """Insert a node before `reader` and return its result with the fact of the reader's result."""
    graph = graph_of(reader)
    value = Value(graph.fresh(reader.output.name))
    return graph.insert_before(reader, Node(op, operands, [value], attributes or {}, origin=reader.origin)).output


def _sizes(node: Node, extent: object) -> list[int]:
    split = node.operand(1)
    if not isinstance(extent, int):
        raise NotApplicable("the length of the split axis is unknown")
    if split is None:
        return [1] * extent
    lengths = constant_numbers(split)
    if lengths is None or not isinstance(split.fact, TensorFact) or split.fact.shape is None:
        raise NotApplicable("the sizes are computed")
    numbers = [int(n) for n in lengths]
    if not split.fact.shape and numbers[0] > 0:
        numbers = [min(numbers[0], extent - start) for start in range(0, extent, numbers[0])]
    if sum(numbers) != extent or not numbers:
        raise NotApplicable("the split sizes do not sum to the axis length")
    return numbers
