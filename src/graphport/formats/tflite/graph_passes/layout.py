"""Moving Transposes past operators of TFLite, for `graphport.ops.layout`."""

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
_SPLIT_OPERANDS = {"parts by 0": (0, 1), "parts by 2": (2, 0)}
"""Operand index of the axis and of the split value."""


def move_transposes_down(graph: Graph) -> None:
    """Move Transposes down past element-wise operators, and cancel or merge adjacent ones."""
    registry.load("tflite")  # fills LAYOUTS
    settle(graph, _TfliteLayout())


class _TfliteLayout:
    """Permutations are constant operands of Transposes; axes are options and constant operands."""

    def order(self, node: Node) -> tuple[int, ...] | None:
        if node.op_type != _TRANSPOSE or node.dialect != _DIALECT or len(node.inputs) < 2:
            return None
        order = node.operand(1)
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
            # A Transpose with other consumers would be duplicated for each slice.
            return ()
        if kind == _PICKS:
            return () if node.attributes.get("batch_dims") else (0,)
        if kind in _SPLIT_OPERANDS:
            return (
                (_SPLIT_OPERANDS[kind][1],)
                if _constant_elements(node.inputs[_SPLIT_OPERANDS[kind][0]]) is not None
                else ()
            )
        if kind == _STRIDES and not _is_of_each_axis(node):
            return ()
        if kind in ("axes", "rows", _STRIDES):
            return (0,) if all(_constant_elements(value) is not None for value in node.inputs[1:]) else ()
        return range(len(node.inputs)) if kind else ()

    def removed_axes(self, node: Node) -> Sequence[int] | None:
        del node
        return None

    def reorder(self, graph: Graph, node: Node, order: Sequence[int]) -> None:
        kind, axis = _layout(node), node.attributes.get("axis")
        if kind in ("axis", _PICKS):
            node.set_attribute("axis", order[axis if isinstance(axis, int) else 0])
            return
        if kind in _SPLIT_OPERANDS:
            place = _SPLIT_OPERANDS[kind][0]
            entries = _constant_elements(node.inputs[place])
            if entries is not None:
                node.set_input(place, _ints(graph, np.array(order[int(entries.item())]).reshape(entries.shape)))
            return
        if kind == _STRIDES:
            for name in _MASKS:
                bits = int(cast("int", node.attributes.get(name) or 0))
                node.set_attribute(name, sum(1 << new for old, new in enumerate(order) if bits >> old & 1))
            kind = "rows"
        for place in range(1, len(node.inputs)) if kind == "rows" else (1,) if kind == "axes" else ():
            numbers = _constant_elements(node.inputs[place])
            if numbers is None or (kind == "rows" and numbers.shape[:1] != (len(order),)):
                # The fill value of PADV2.
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
        if node.op_type != "RESHAPE" or node.dialect != _DIALECT or _is_by_axis(node) or len(node.inputs) < 2:
            return None
        fact = node.results[0].fact
        return fact.shape if isinstance(fact, TensorFact) and _constant_elements(node.operand(1)) is not None else None

    def set_shape(self, graph: Graph, node: Node, shape: Sequence[int]) -> None:
        node.set_input(1, _ints(graph, shape))


def _constant_elements(value: Value | None) -> np.ndarray[Any, Any] | None:
    if value is None or not value.is_constant or value.storage is None:
        return None
    return value.storage.numpy()


def _ints(graph: Graph, numbers: Sequence[int] | np.ndarray[Any, Any]) -> Value:
    array = np.array(numbers, np.int64)
    # The writer reports sizes that exceed int32.
    is_narrow = array.max(initial=0) <= np.iinfo(np.int32).max
    storage = storage_of(array.astype(np.int32) if is_narrow else array)
    return graph.add_constant("order", TensorFact.of(storage), storage)


def _layout(node: Node) -> str:
    """Return the kind of axis reference of a node's operator (a value of `LAYOUTS`, for example `axis` or `rows`).

    Empty if Transposes cannot move past the node.
    """
    kind = LAYOUTS.get(node.op_type, "") if node.dialect == _DIALECT else ""
    if (len(node.outputs) != 1 and kind not in _SPLIT_OPERANDS) or _is_by_axis(node):
        return ""
    return "" if kind == "axes" and not node.attributes.get("keep_dims") else kind


def _is_of_each_axis(node: Node) -> bool:
    """Whether the slice bounds cover all axes, without dropped or inserted axes."""
    rank = len(fact.shape or ()) if isinstance(fact := node.results[0].fact, TensorFact) else 0
    rows = [_constant_elements(value) for value in node.inputs[1:]]
    return not any(node.attributes.get(name) for name in _OTHER_MASKS) and all(
        each is not None and each.shape == (rank,) for each in rows
    )


def _is_by_axis(node: Node) -> bool:
    """Whether an operand or a result has per-axis scales."""
    quantizations: list[Any] = [*_quantization_list(node, "quantized"), *_quantization_list(node, "quantized_results")]
    return any(each is not None and each[1] != -1 for each in quantizations)


def _quantization_list(node: Node, name: str) -> tuple[Any, ...]:
    entries = node.attributes.get(name)
    return cast("tuple[Any, ...]", entries) if isinstance(entries, tuple) else ()
