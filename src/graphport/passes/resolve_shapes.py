"""Replace shape arithmetic with statically known results by constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.passes.journal import Journal, apply
from graphport.passes.substitution import add_constant, graph_of, take_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value


def resolve_shapes(graph: Graph, journal: Journal) -> None:
    """Replace shapes, axes and lengths that the facts contain by constants; derive Reshape targets from the operand.

    Before  s = Shape(x);  n = Gather(s, 0);  t = Concat(n, [-1]);  y = Reshape(x, t)        x [N, 3, 4]
    After   y = Reshape(x, [0, -1])

    An unknown element becomes 0 if it equals the length of the operand's axis at that index; one other becomes -1. Does
    not apply to values known at run time only. Preserves values bit for bit.
    """
    apply(graph, journal, _resolve)


def _resolve(node: Node) -> str | None:
    if node.dialect or node.op == "Constant":
        return None
    if node.op == "Reshape":
        done = _target(node)
        if done is not None:
            return done
    known = {value: _elements(value) for value in node.results}
    if not known or any(elements is None for elements in known.values()) or any(True for _ in node.bodies()):
        return None
    if all(value.is_constant for value in node.operands):
        return None  # constant folding handles it, and knows the exceptions
    graph = graph_of(node)
    for value, elements in known.items():
        take_over(value, _constant(graph, value, elements or ()))
    graph.remove(node)
    return "constant for the known shapes"


def _elements(value: Value) -> tuple[int, ...] | tuple[float, ...] | None:
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None:
        return None
    if fact.elements is None:
        return fact.reals
    found = tuple(element for element in fact.elements if isinstance(element, int))
    return found if len(found) == len(fact.elements) else None


def _constant(graph: Graph, value: Value, elements: Sequence[float]) -> Value:
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None:
        message = f"%{value.name} has no elements"
        raise ValueError(message)
    array = np.array(elements, fact.dtype.numpy).reshape([n for n in fact.shape if isinstance(n, int)])
    return add_constant(graph, array, value.name)


def _target(node: Node) -> str | None:
    """Return a constant target for a Reshape with a computed target, if its facts permit one."""
    data, target = node.operand(0), node.operand(1)
    if data is None or target is None or target.is_constant:
        return None
    fact = target.fact
    if not isinstance(fact, TensorFact) or fact.elements is None:
        return None
    if node.attributes.get("allowzero") and 0 in fact.elements:
        return None
    shape = data.shape
    elements = target_shape(fact.elements, shape or ())
    if elements is None:
        return None
    node.set_input(1, add_constant(graph_of(node), np.array(elements, np.int64), f"{target.name}.known"))
    # No dim is a literal 0, and PyTorch's `allowzero` would forbid a 0 that copies.
    node.remove_attribute("allowzero")
    return f"its target is {list(elements)}"


def target_shape(elements: Sequence[Dim], shape: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return `elements` as a Reshape target: integers, 0 for a copied axis, one -1; None if that is impossible."""
    target_shape: list[int] = []
    for axis, element in enumerate(elements):
        if isinstance(element, int):
            target_shape.append(element)
        elif axis < len(shape) and shape[axis] == element:
            target_shape.append(0)
        else:
            target_shape.append(-1)
    return tuple(target_shape) if target_shape.count(-1) <= 1 else None
