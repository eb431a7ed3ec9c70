"""Transposes between operators of TFLite: moved past what treats every element alike, until they meet and cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.spill import kept
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.manual import spoken
from graphport.ops.tflite import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ops.declare import Page

_TRANSPOSE = "TRANSPOSE"
_MOST_ROUNDS = 8


def turn(graph: Graph) -> None:
    """Move Transposes down past operators on single elements, and let those that meet become one or none.

    Before  h = TRANSPOSE(x, p);  k = RELU(h);  y = TRANSPOSE(k, q)
    After   k = RELU(x);  y = TRANSPOSE(k, p then q), which is k itself where that changes nothing
    """
    for _ in range(_MOST_ROUNDS):
        changed = False
        for node in graph:
            if node.word == _TRANSPOSE:
                changed |= _merge(graph, node)
            elif _order_before(node) is not None:
                changed |= _pass_by(graph, node)
        _drop(graph)
        if not changed:
            return


def _order(node: Node | None) -> tuple[int, ...] | None:
    """The order of axes that a Transpose gives; `None` of any other node."""
    if node is None or node.word != _TRANSPOSE or len(node.inputs) < 2:
        return None
    order = node.inputs[1]
    if order is None or not order.is_constant or order.storage is None:
        return None
    return tuple(int(axis) for axis in order.storage.numpy().reshape(-1))


def _merge(graph: Graph, node: Node) -> bool:
    """Let a Transpose read what the one before it reads, or take its place where both change nothing."""
    second, source = _order(node), node.inputs[0]
    first = None if source is None else _order(source.producer)
    if second is None or source is None:
        return False
    if first is not None and source.producer is not None and len(first) == len(second):
        both = tuple(first[axis] for axis in second)
        start = source.producer.inputs[0]
        if start is None:
            return False
        if both == tuple(range(len(both))) and not (
            node.output.is_output and (start.is_output or start.producer is None)
        ):
            if node.output.is_output:
                return _hand_over(graph, node, start)
            node.output.replace_uses(start)
            return True
        if both != tuple(range(len(both))):
            node.set_input(0, start)
            node.set_input(1, _ints(graph, both))
            return True
    return False


def _hand_over(graph: Graph, node: Node, start: Value) -> bool:
    """Let what is computed already be the output, by its name."""
    name = node.output.name
    graph.rename(node.output, graph.fresh(f"{name}_unused"))
    graph.rename(start, name)
    node.output.replace_uses(start)
    return True


def _ints(graph: Graph, numbers: Sequence[int]) -> Value:
    storage = storage_of(np.array(numbers, np.int32))
    return graph.add_constant("order", TensorFact.of(storage), storage)


def _layout(node: Node) -> str:
    """`any` if a node treats every element alike, `axis` if its option `axis` alone tells axes apart."""
    told: list[Any] = [*_entries(node, "quantized"), *_entries(node, "quantized_results")]
    if len(node.outputs) != 1 or any(each is not None and each[1] != -1 for each in told):
        return ""
    if node.word in LAYOUTS:
        return LAYOUTS[node.word]
    pages = [registry.pages()[name] for name in spoken("tflite").get(node.word, ())]
    is_plain = any(page.role == "pointwise" for page in pages) and all(map(_is_pointwise, pages))
    return "any" if is_plain and "axis" not in node.attributes else ""


def _entries(node: Node, name: str) -> tuple[Any, ...]:
    told = node.attributes.get(name)
    return cast("tuple[Any, ...]", told) if isinstance(told, tuple) else ()


def _is_pointwise(page: Page) -> bool:
    keywords = set(page.signature.keywords)
    if "to" in keywords:
        return True
    return page.role == "pointwise" and page.exactness != "accumulation" and not {"axis", "axes", "size"} & keywords


def _order_before(node: Node) -> tuple[int, ...] | None:
    """The order that operands come in, where passing by removes at least as many Transposes as it makes."""
    if not _layout(node):
        return None
    orders = {_order(value.producer) for value in node.operands if not value.is_constant}
    order = orders.pop() if len(orders) == 1 else None
    if order is None or not isinstance(node.output.fact, TensorFact) or node.output.fact.shape is None:
        return None
    if len(node.output.fact.shape) != len(order):
        return None
    for value in node.operands:
        shape = value.fact.shape if isinstance(value.fact, TensorFact) else None
        is_whole = shape is not None and len(shape) == len(order)
        if not is_whole and not (value.is_constant and value.storage is not None and shape is not None):
            return None
    return order


def _pass_by(graph: Graph, node: Node) -> bool:
    order = _order_before(node)
    if order is None:
        return False
    inverse = [int(axis) for axis in np.argsort(order)]
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        if value.is_constant:
            node.set_input(index, _turned_constant(graph, value, inverse))
        elif value.producer is not None:
            node.set_input(index, value.producer.inputs[0])
    axis = node.attributes.get("axis")
    if _layout(node) == "axis" and isinstance(axis, int):
        node.set_attribute("axis", order[axis])
    old = node.output
    fact = old.fact
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return False
    # What it holds is in another order from now on; what it held comes out of a Transpose behind it.
    result = Value(graph.fresh(f"{old.name}_first"), fact)
    behind = Node(_TRANSPOSE, [], [result], dialect="tflite", origin=node.unasked_origin)
    graph.insert_after(node, behind)
    old.replace_uses(result)
    behind.inputs = [old, _ints(graph, order)]
    if result.is_output:
        name = old.name
        graph.rename(old, graph.fresh(f"{name}_last"))
        graph.rename(result, name)
    old.fact = fact.with_shape([fact.shape[axis] for axis in inverse])
    return True


def _turned_constant(graph: Graph, value: Value, perm: list[int]) -> Value:
    """A constant as it stands beside what is in another order now."""
    storage = value.storage
    if storage is None or storage.count == 1:
        return value
    array = storage.numpy()
    padded = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    made = kept(np.ascontiguousarray(padded.transpose(perm)), storage.dtype)
    return graph.add_constant(value.name, TensorFact.of(made), made)


def _drop(graph: Graph) -> None:
    for node in reversed(graph):
        if node.word == _TRANSPOSE and not any(value.uses for value in node.results):
            graph.remove(node)
