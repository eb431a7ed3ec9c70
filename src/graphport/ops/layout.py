"""Layout optimization: move Transposes down past operators until adjacent ones cancel.

A dialect describes its Transposes and layout-agnostic operators in `layout_language`; the algorithm is the same for
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.spill import store_array
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.layout_reshapes import meets_inverse_transpose, move_transpose_after_reshape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ops.layout_language import Language

_MOST_ROUNDS = 8


def settle(graph: Graph, language: Language) -> None:
    """Move Transposes down past operators that permit it, and merge adjacent ones.

    Before  h = Transpose(x, p);  k = Relu(h);  y = Transpose(k, q)
    After   k = Relu(x);  y = Transpose(k, p then q), which is k itself for the identity

    A Reshape that joins or splits axes is adapted to the new order. Inputs and outputs keep their layout. Bit-exact.
    """
    for _ in range(_MOST_ROUNDS):
        changed = False
        for node in graph:
            if language.order(node) is not None:
                changed |= _merge(graph, node, language)
            elif language.shape(node) is not None:
                changed |= _pass_by_reshape(graph, node, language)
            elif (axes := language.removed_axes(node)) is not None:
                changed |= _pass_by_reduction(graph, node, axes, language)
            elif (order := _order_before(node, language)) is not None and not _grows(node, order, language):
                changed |= _pass_by(graph, node, order, language)
        for node in reversed(graph):
            if language.order(node) is not None and not any(value.uses for value in node.results):
                graph.remove(node)
        if not changed:
            return


def _merge(graph: Graph, node: Node, language: Language) -> bool:
    """Compose two consecutive Transposes; remove both if they cancel."""
    second, source = language.order(node), node.inputs[0]
    before = None if source is None else source.producer
    first = None if before is None else language.order(before)
    # A producer may have no operand, but a Transpose has one.
    start = None if before is None or first is None else before.inputs[0]
    if second is None or first is None or start is None or len(first) != len(second):
        return False
    both = tuple(first[axis] for axis in second)
    if both != tuple(range(len(both))):
        language.set_operands(graph, node, start, both)
        return True
    if not node.output.is_output:
        node.output.replace_uses(start)
        return True
    if start.is_output or start.producer is None or start.graph is not graph:
        return False
    # The output name moves to the value that already exists.
    name = node.output.name
    graph.rename(node.output, graph.fresh(f"{name}_unused"))
    graph.rename(start, name)
    node.output.replace_uses(start)
    return True


def _order_before(node: Node, language: Language) -> tuple[int, ...] | None:
    """Return the common permutation of the operands if moving it down does not add Transposes."""
    indices = language.carried(node)
    operands = [node.inputs[place] for place in indices if node.inputs[place] is not None]
    moved = [value for value in operands if value is not None and not value.is_constant]
    # A tensor with one non-unit axis adapts to the order of the other operands.
    candidates = [value for value in moved if not _is_line(value)] or moved
    orders = {None if value.producer is None else language.order(value.producer) for value in candidates}
    order = orders.pop() if len(orders) == 1 else None
    if order is None or any(_rank(value) != len(order) for value in node.results):
        return None
    for value in operands:
        rank = None if value is None else _rank(value)
        if value is None or rank is None:
            return None
        is_fixed = (value.is_constant and value.storage is not None) or _is_line(value)
        if rank != len(order) and not (is_fixed and rank < len(order)):
            return None
    return order


def _is_line(value: Value) -> bool:
    """Whether at most one axis is longer than 1, so that a Reshape can replace the Transpose."""
    fact = value.fact
    dims = fact.shape if isinstance(fact, TensorFact) else None
    return dims is not None and all(isinstance(n, int) for n in dims) and sum(n != 1 for n in dims) <= 1


def _grows(node: Node, order: tuple[int, ...], language: Language) -> bool:
    """Whether moving down would replace one Transpose by several at the results, none of which cancels."""
    if len(node.results) < 2:
        return False
    left = [result for result in node.results if not meets_inverse_transpose(result, order, language)]
    return len({use.user for result in left for use in result.uses}) > 1


def _rank(value: Value) -> int | None:
    fact = value.fact
    return None if not isinstance(fact, TensorFact) or fact.shape is None else len(fact.shape)


def _pass_by(graph: Graph, node: Node, order: tuple[int, ...], language: Language) -> bool:
    inverse = [int(axis) for axis in np.argsort(order)]
    facts = [value.fact for value in node.results]
    if not facts or not all(isinstance(fact, TensorFact) and fact.shape is not None for fact in facts):
        return False
    for place in language.carried(node):
        value = node.inputs[place]
        if value is not None and value.is_constant:
            node.set_input(place, _transposed(graph, value, inverse))
        elif value is not None:
            before = None if value.producer is None else language.order(value.producer)
            source = value.producer.inputs[0] if value.producer is not None and before == order else None
            node.set_input(place, source if source is not None else _moved_line(graph, node, value, inverse, language))
    language.reorder(graph, node, order)
    for old in node.results:
        _turn_back(graph, old, order, language)
    return True


def _pass_by_reduction(graph: Graph, node: Node, axes: Sequence[int], language: Language) -> bool:
    """Let a reduction that removes axes read the operand of the Transpose before it, if the others keep their order."""
    before = node.inputs[0]
    transpose = None if before is None else before.producer
    order = None if transpose is None else language.order(transpose)
    source = None if transpose is None or order is None else transpose.inputs[0]
    if order is None or source is None:
        return False
    removed = {axis % len(order) for axis in axes}
    kept = [place for axis, place in enumerate(order) if axis not in removed]
    if not removed or kept != sorted(kept):
        return False
    node.set_input(0, source)
    language.reorder(graph, node, order)
    return True


def _pass_by_reshape(graph: Graph, node: Node, language: Language) -> bool:
    """Let a Reshape read the operand of the Transpose before it, with the joined axes permuted if necessary."""
    before = node.inputs[0]
    transpose = None if before is None else before.producer
    order = None if transpose is None else language.order(transpose)
    source = None if transpose is None or order is None else transpose.inputs[0]
    if before is None or transpose is None or order is None or source is None:
        return False
    found = move_transpose_after_reshape(node, order, language)
    symbols = 0 if found is None else sum(not isinstance(n, int) for n in found[1])
    if found is None or symbols > 1:
        return False
    first, shape, second = found
    if first != tuple(range(len(first))):
        fact = source.fact
        if not isinstance(fact, TensorFact):
            return False
        result = Value(graph.fresh(f"{before.name}_joined"), fact.with_shape([fact.dims[axis] for axis in first]))
        moved = language.transpose(graph, result, transpose)
        graph.insert_before(node, moved)
        language.set_operands(graph, moved, source, first)
        source = result
    node.set_input(0, source)
    language.set_shape(graph, node, [n if isinstance(n, int) else -1 for n in shape])
    _turn_back(graph, node.output, second, language)
    return True


def _turn_back(graph: Graph, old: Value, order: tuple[int, ...], language: Language) -> None:
    """Set the result of a moved operator to the axis order before the Transpose, and insert the Transpose after it."""
    node, fact = old.producer, old.fact
    if node is None or not isinstance(fact, TensorFact):
        return
    result = Value(graph.fresh(f"{old.name}_first"), fact)
    move_transpose_after_reshape = language.transpose(graph, result, node)
    graph.insert_after(node, move_transpose_after_reshape)
    old.replace_uses(result)
    language.set_operands(graph, move_transpose_after_reshape, old, order)
    if result.is_output:
        name = old.name
        graph.rename(old, graph.fresh(f"{name}_last"))
        graph.rename(result, name)
    old.fact = fact.with_shape([fact.dims[int(axis)] for axis in np.argsort(order)])


def _moved_line(graph: Graph, node: Node, value: Value, perm: list[int], language: Language) -> Value:
    """Reshape a value with one non-unit axis to the new order."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dims.count(1) == len(fact.dims):
        return value
    padded = (*[1] * (len(perm) - len(fact.dims)), *fact.dims)
    result = Value(graph.fresh(f"{value.name}_moved"), fact.with_shape([padded[axis] for axis in perm]))
    graph.insert_before(node, language.reshape(graph, value, result, node))
    return result


def _transposed(graph: Graph, value: Value, perm: list[int]) -> Value:
    """Permute a constant to the new order."""
    storage = value.storage
    if storage is None or storage.count == 1:
        return value
    array = storage.numpy()
    padded = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    made = store_array(np.ascontiguousarray(padded.transpose(perm)), storage.dtype)
    return graph.add_constant(value.name, TensorFact.of(made), made)
