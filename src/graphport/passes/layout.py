"""Change the layout of inputs and outputs: channels last, channels first, or any permutation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.layout import settle
from graphport.ops.layout_of_operators import OperatorLayouts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEAST_IMAGE = 4
"""Rank of an image: batch, channels, height and width."""


def channels(graph: Graph, *, are_last: bool) -> dict[str, tuple[int, ...]]:
    """Return, for each image or volume among inputs and outputs, the permutation that moves its channels.

    With `are_last`, channels move from axis 1 to the last axis; else from the last axis to axis 1.
    """
    found: dict[str, tuple[int, ...]] = {}
    for value in (*graph.inputs, *graph.outputs):
        rank = len(value.fact.shape or ()) if isinstance(value.fact, TensorFact) else 0
        if rank >= _LEAST_IMAGE:
            found[value.name] = (0, *range(2, rank), 1) if are_last else (0, rank - 1, *range(1, rank - 1))
    return found


def layout(graph: Graph, orders: Mapping[str, Sequence[int]]) -> list[str]:
    """Permute the axes of inputs and outputs, as `numpy.transpose` does; return the changed names.

    Before  y = Relu(Conv(x, w))                          x [N, C, H, W], y [N, M, P, Q]
    After   y = Transpose(Relu(Conv(Transpose(x), w)))    x [N, H, W, C], y [N, P, Q, M]  with orders (0, 2, 3, 1)

    Transposes are then moved past all operators that permit it, with constants and axes permuted, until adjacent ones
    cancel. Intermediate values keep their names if they keep their layout. Preserves values bit for bit except for the
    rounding of reordered sums.

    Does not apply to unknown names and to orders that are not permutations of the axes.
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
    settle(graph, OperatorLayouts())
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
    first = graph.first_node
    graph.append(node) if first is None else graph.insert_before(first, node)
    value.fact = _permuted(value, order)


def _let_out(graph: Graph, index: int, value: Value, order: tuple[int, ...]) -> None:
    name = value.name
    graph.rename(value, graph.fresh(name))
    result = Value(name, _permuted(value, order))
    graph.append(Node("Transpose", [value], [result], {"perm": order}, origin=value.origin))
    graph.set_output(index, result)
