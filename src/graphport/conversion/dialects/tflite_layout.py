"""Transposes between operators of TFLite: what they may be moved past, for `graphport.ops.layout`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.dialects.tflite.binding import LAYOUTS
from graphport.ops.layout import settle

if TYPE_CHECKING:
    from collections.abc import Sequence


_TRANSPOSE = "TRANSPOSE"


def turn(graph: Graph) -> None:
    """Move Transposes down past operators on single elements, and let those that meet become one or none."""
    registry.load("tflite")  # fills LAYOUTS
    settle(graph, _Words())


class _Words:
    """Transposes have their order as a constant operand; what is said of axes are options and constant operands."""

    def order(self, node: Node) -> tuple[int, ...] | None:
        if node.word != _TRANSPOSE or len(node.inputs) < 2:
            return None
        order = node.inputs[1]
        if order is None or not order.is_constant or order.storage is None:
            return None
        return tuple(int(axis) for axis in order.storage.numpy().reshape(-1))

    def transpose(self, graph: Graph, result: Value, like: Node) -> Node:
        del graph
        return Node(_TRANSPOSE, [], [result], dialect="tflite", origin=like.unasked_origin)

    def set_operands(self, graph: Graph, node: Node, source: Value, order: Sequence[int]) -> None:
        node.inputs = [source, _ints(graph, order)]

    def carried(self, node: Node) -> Sequence[int]:
        kind = _layout(node)
        if kind in ("axes", "rows"):
            return (0,) if all(_numbers(value) is not None for value in node.inputs[1:]) else ()
        return range(len(node.inputs)) if kind else ()

    def reorder(self, graph: Graph, node: Node, order: Sequence[int]) -> None:
        kind, axis = _layout(node), node.attributes.get("axis")
        if kind == "axis" and isinstance(axis, int):
            node.set_attribute("axis", order[axis])
            return
        for place in range(1, len(node.inputs)) if kind == "rows" else (1,) if kind == "axes" else ():
            numbers = _numbers(node.inputs[place])
            if numbers is None or (kind == "rows" and numbers.shape[:1] != (len(order),)):
                # The number that PADV2 fills with.
                continue
            if kind == "axes":
                told = np.array([order[axis] for axis in numbers.reshape(-1)], np.int32).reshape(numbers.shape)
            else:
                told = np.ascontiguousarray(numbers[np.argsort(order)])
            node.set_input(place, _ints(graph, told))


def _numbers(value: Value | None) -> np.ndarray[Any, Any] | None:
    if value is None or not value.is_constant or value.storage is None:
        return None
    return value.storage.numpy()


def _ints(graph: Graph, numbers: Sequence[int] | np.ndarray[Any, Any]) -> Value:
    storage = storage_of(np.array(numbers, np.int32))
    return graph.add_constant("order", TensorFact.of(storage), storage)


def _layout(node: Node) -> str:
    """How a node tells axes apart: `any` not at all, `axis` by an option, `axes` and `rows` by constant operands."""
    told: list[Any] = [*_entries(node, "quantized"), *_entries(node, "quantized_results")]
    if len(node.outputs) != 1 or any(each is not None and each[1] != -1 for each in told):
        return ""
    kind = LAYOUTS.get(node.word, "")
    return "" if kind == "axes" and not node.attributes.get("keep_dims") else kind


def _entries(node: Node, name: str) -> tuple[Any, ...]:
    told = node.attributes.get(name)
    return cast("tuple[Any, ...]", told) if isinstance(told, tuple) else ()
