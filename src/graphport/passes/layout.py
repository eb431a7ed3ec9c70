"""Another order of axes for inputs and outputs: channels last, channels first, or any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.layout import settle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ops.declare import Page

_LEAST_IMAGE = 4
"""Axes of an image: batch, channels, height and width."""


def channels(graph: Graph, *, are_last: bool) -> dict[str, tuple[int, ...]]:
    """For each input and output that may be an image or a volume, the order that moves its channels.

    They are taken to stand where they do not yet: behind the batch if they are to be last, else behind everything.
    """
    found: dict[str, tuple[int, ...]] = {}
    for value in (*graph.inputs, *graph.outputs):
        rank = len(value.fact.shape or ()) if isinstance(value.fact, TensorFact) else 0
        if rank >= _LEAST_IMAGE:
            found[value.name] = (0, *range(2, rank), 1) if are_last else (0, rank - 1, *range(1, rank - 1))
    return found


def layout(graph: Graph, orders: Mapping[str, Sequence[int]]) -> list[str]:
    """Give inputs and outputs another order of axes, as `numpy.transpose` does; return which were changed.

    Before  y = Relu(Conv(x, w))                          x [N, C, H, W], y [N, M, P, Q]
    After   y = Transpose(Relu(Conv(Transpose(x), w)))    x [N, H, W, C], y [N, P, Q, M]  with orders (0, 2, 3, 1)

    Transposes are then moved past all that computes the same in any order of axes, with its constants and axes
    permuted, until those that meet cancel. Values between keep their names where they keep their order. Keeps numbers
    bit for bit but for the rounding of sums, whose order changes.

    Leaves alone: names of no input or output, orders that are none of the value's axes.
    """
    changed: list[str] = []
    for value in list(graph.inputs):
        if (order := _order_of(value, orders)) is not None:
            _let_in(graph, value, order)
            changed.append(value.name)
    for index, value in enumerate(graph.outputs):
        if (order := _order_of(value, orders)) is not None and not value.is_input:
            _let_out(graph, index, value, order)
            changed.append(graph.outputs[index].name)
    settle(graph, _Pages())
    return changed


def _order_of(value: Value, orders: Mapping[str, Sequence[int]]) -> tuple[int, ...] | None:
    order = orders.get(value.name)
    if order is None or not isinstance(value.fact, TensorFact) or value.fact.shape is None:
        return None
    return tuple(order) if sorted(order) == list(range(len(value.fact.shape))) else None


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.argsort(order))


def _permuted(value: Value, order: Sequence[int]) -> TensorFact:
    fact = value.fact
    dims = fact.dims if isinstance(fact, TensorFact) else ()
    return TensorFact(fact.dtype if isinstance(fact, TensorFact) else None, tuple(dims[axis] for axis in order))


def _let_in(graph: Graph, value: Value, order: tuple[int, ...]) -> None:
    result = Value(graph.fresh(value.name), value.fact)
    value.replace_uses(result)
    node = Node("Transpose", [value], [result], {"perm": _inverse(order)}, origin=value.origin)
    first = graph.first
    graph.append(node) if first is None else graph.insert_before(first, node)
    value.fact = _permuted(value, order)


def _let_out(graph: Graph, index: int, value: Value, order: tuple[int, ...]) -> None:
    name = value.name
    graph.rename(value, graph.fresh(name))
    result = Value(name, _permuted(value, order))
    graph.append(Node("Transpose", [value], [result], {"perm": order}, origin=value.origin))
    graph.set_output(index, result)


class _Pages:
    """What the pages of canonical operators say of axes."""

    def order(self, node: Node) -> tuple[int, ...] | None:
        if node.op != "Transpose":
            return None
        perm, fact = node.attributes.get("perm"), node.output.fact
        if isinstance(perm, tuple):
            return tuple(axis for axis in perm if isinstance(axis, int))
        rank = len(fact.shape) if isinstance(fact, TensorFact) and fact.shape is not None else None
        return None if rank is None else tuple(reversed(range(rank)))

    def transpose(self, graph: Graph, result: Value, like: Node) -> Node:
        del graph
        return Node("Transpose", [], [result], origin=like.unasked_origin)

    def set_operands(self, graph: Graph, node: Node, source: Value, order: Sequence[int]) -> None:
        del graph
        node.inputs = [source]
        node.set_attribute("perm", tuple(order))

    def carried(self, node: Node) -> Sequence[int]:
        page = None if node.dialect else registry.pages().get(node.word)
        if page is None or page.is_random or node.attributes.get("block_size"):
            return ()
        if not page.turns:
            keywords = page.signature.keywords.keys()
            is_plain = page.role == "pointwise" and page.exactness != "accumulation"
            return range(len(node.inputs)) if is_plain and not {"axis", "axes", "size"} & keywords else ()
        if page.turns == "axis":
            return range(len(node.inputs)) if page.signature.variadic is not None else (0,)
        if page.turns == "reduced" and not node.attributes.get("keepdims", 1):
            return ()
        axes = _axes(node, page)
        is_known = axes is None or (axes.is_constant and axes.storage is not None)
        return (0,) if is_known else ()

    def reorder(self, graph: Graph, node: Node, order: Sequence[int]) -> None:
        page = registry.pages()[node.word]
        if page.turns == "axis":
            axis = node.attributes.get("axis", page.signature.keywords["axis"].default)
            if isinstance(axis, int):
                node.set_attribute("axis", order[axis])
        elif page.turns:
            _reorder_axes(graph, node, page, order)


def _place(page: Page) -> int | None:
    """Which operand lists axes; `None` where an attribute does."""
    names = [operand.name for operand in page.signature.operands]
    return names.index("axes") if "axes" in names else None


def _axes(node: Node, page: Page) -> Value | None:
    place = _place(page)
    return None if place is None or place >= len(node.inputs) else node.inputs[place]


def _count(node: Node, rank: int) -> int:
    """Of how many axes a node tells in order."""
    rows = node.inputs[1] if len(node.inputs) > 1 else None
    shape = rows.fact.shape if rows is not None and isinstance(rows.fact, TensorFact) else None
    length = shape[0] if shape else rank
    return min(length, rank) if isinstance(length, int) and length else rank


def _reorder_axes(graph: Graph, node: Node, page: Page, order: Sequence[int]) -> None:
    given, place = _axes(node, page), _place(page)
    told: list[int] | None = None
    attribute = node.attributes.get("axes")
    if given is not None and given.storage is not None:
        told = [int(axis) for axis in given.storage.numpy().reshape(-1)]
    elif place is None and isinstance(attribute, tuple):
        told = [axis for axis in attribute if isinstance(axis, int)]
    if not told:
        if page.turns == "reduced":
            return
        # What is said of all axes, or of the first, in their order is said of them by name from now on.
        told = list(range(_count(node, len(order))))
    new = [order[axis] for axis in told]
    if place is None:
        node.set_attribute("axes", tuple(new))
        return
    beside = node.inputs[1] if len(node.inputs) > 1 else None
    dtype = beside.fact.dtype if beside is not None and isinstance(beside.fact, TensorFact) else None
    kind = DType.INT32 if dtype is DType.INT32 else DType.INT64
    storage = storage_of(np.array(new, kind.numpy), kind)
    value = graph.add_constant("axes", TensorFact.of(storage), storage)
    node.inputs = [*node.inputs, *[None] * (place - len(node.inputs) + 1)]
    node.set_input(place, value)
