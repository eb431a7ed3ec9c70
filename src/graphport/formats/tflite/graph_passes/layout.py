"""Transposes between operators of TFLite: what they may be moved past, for `graphport.ops.layout`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.rules.binding import LAYOUTS
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.layout import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim

_DIALECT, _TRANSPOSE = "tflite", "TRANSPOSE"
_PICKS, _STRIDES = "picks", "strides"
_MASKS, _OTHER_MASKS = ("begin_mask", "end_mask"), ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_PARTS = {"parts by 0": (0, 1), "parts by 2": (2, 0)}
"""Which operand is the axis, and which is parted along it."""


def turn(graph: Graph) -> None:
    """Move Transposes down past operators on single elements, and let those that meet become one or none."""
    registry.load("tflite")  # fills LAYOUTS
    settle(graph, _Words())


class _Words:
    """Transposes have their order as a constant operand; what is said of axes are options and constant operands."""

    def order(self, node: Node) -> tuple[int, ...] | None:
        if node.word != _TRANSPOSE or node.dialect != _DIALECT or len(node.inputs) < 2:
            return None
        order = node.inputs[1]
        if order is None or not order.is_constant or order.storage is None:
            return None
        return tuple(int(axis) for axis in order.storage.numpy().reshape(-1))

    def transpose(self, graph: Graph, result: Value, like: Node) -> Node:
        del graph
        return Node(_TRANSPOSE, [], [result], dialect=_DIALECT, origin=like.unasked_origin)

    def set_operands(self, graph: Graph, node: Node, source: Value, order: Sequence[int]) -> None:
        node.inputs = [source, _ints(graph, order)]

    def carried(self, node: Node) -> Sequence[int]:
        kind = _layout(node)
        if kind in (_PICKS, _STRIDES) and len(node.operands[0].uses) > 1:
            # A Transpose that others read too would become one for each of what is cut out.
            return ()
        if kind == _PICKS:
            return () if node.attributes.get("batch_dims") else (0,)
        if kind in _PARTS:
            return (_PARTS[kind][1],) if _numbers(node.inputs[_PARTS[kind][0]]) is not None else ()
        if kind == _STRIDES and not _is_of_each_axis(node):
            return ()
        if kind in ("axes", "rows", _STRIDES):
            return (0,) if all(_numbers(value) is not None for value in node.inputs[1:]) else ()
        return range(len(node.inputs)) if kind else ()

    def reorder(self, graph: Graph, node: Node, order: Sequence[int]) -> None:
        kind, axis = _layout(node), node.attributes.get("axis")
        if kind in ("axis", _PICKS):
            node.set_attribute("axis", order[axis if isinstance(axis, int) else 0])
            return
        if kind in _PARTS:
            place = _PARTS[kind][0]
            entries = _numbers(node.inputs[place])
            if entries is not None:
                node.set_input(place, _ints(graph, np.array(order[int(entries.item())]).reshape(entries.shape)))
            return
        if kind == _STRIDES:
            for name in _MASKS:
                bits = int(cast("int", node.attributes.get(name) or 0))
                node.set_attribute(name, sum(1 << new for old, new in enumerate(order) if bits >> old & 1))
            kind = "rows"
        for place in range(1, len(node.inputs)) if kind == "rows" else (1,) if kind == "axes" else ():
            numbers = _numbers(node.inputs[place])
            if numbers is None or (kind == "rows" and numbers.shape[:1] != (len(order),)):
                # The number that PADV2 fills with.
                continue
            if kind == "axes":
                entries = np.array([order[axis] for axis in numbers.reshape(-1)], np.int32).reshape(numbers.shape)
            else:
                entries = np.ascontiguousarray(numbers[np.argsort(order)])
            node.set_input(place, _ints(graph, entries))

    def reshape(self, graph: Graph, source: Value, result: Value, like: Node) -> Node:
        fact = result.fact
        target = _ints(graph, [n for n in fact.dims if isinstance(n, int)] if isinstance(fact, TensorFact) else [])
        return Node("RESHAPE", [source, target], [result], dialect=_DIALECT, origin=like.unasked_origin)

    def shape(self, node: Node) -> tuple[Dim, ...] | None:
        if node.word != "RESHAPE" or node.dialect != _DIALECT or _is_by_axis(node) or len(node.inputs) < 2:
            return None
        fact = node.results[0].fact
        return fact.shape if isinstance(fact, TensorFact) and _numbers(node.inputs[1]) is not None else None

    def set_shape(self, graph: Graph, node: Node, shape: Sequence[int]) -> None:
        node.set_input(1, _ints(graph, shape))


def _numbers(value: Value | None) -> np.ndarray[Any, Any] | None:
    if value is None or not value.is_constant or value.storage is None:
        return None
    return value.storage.numpy()


def _ints(graph: Graph, numbers: Sequence[int] | np.ndarray[Any, Any]) -> Value:
    array = np.array(numbers, np.int64)
    # Extents past its integers are left to the writer, which tells of them.
    is_narrow = array.max(initial=0) <= np.iinfo(np.int32).max
    storage = storage_of(array.astype(np.int32) if is_narrow else array)
    return graph.add_constant("order", TensorFact.of(storage), storage)


def _layout(node: Node) -> str:
    """How a node tells axes apart: see `binding.word`."""
    kind = LAYOUTS.get(node.word, "") if node.dialect == _DIALECT else ""
    if (len(node.outputs) != 1 and kind not in _PARTS) or _is_by_axis(node):
        return ""
    return "" if kind == "axes" and not node.attributes.get("keep_dims") else kind


def _is_of_each_axis(node: Node) -> bool:
    """Whether slices have an entry for each axis, and leave none out and put none in."""
    rank = len(fact.shape or ()) if isinstance(fact := node.results[0].fact, TensorFact) else 0
    rows = [_numbers(value) for value in node.inputs[1:]]
    return not any(node.attributes.get(name) for name in _OTHER_MASKS) and all(
        each is not None and each.shape == (rank,) for each in rows
    )


def _is_by_axis(node: Node) -> bool:
    """Whether scales differ along an axis."""
    quantizations: list[Any] = [*_entries(node, "quantized"), *_entries(node, "quantized_results")]
    return any(each is not None and each[1] != -1 for each in quantizations)


def _entries(node: Node, name: str) -> tuple[Any, ...]:
    entries = node.attributes.get(name)
    return cast("tuple[Any, ...]", entries) if isinstance(entries, tuple) else ()
