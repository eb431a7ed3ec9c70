"""Bodies of If, Loop and Scan as segments with free inputs: what runs of whole models never execute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph
from graphport.proof.segments.matching import Match
from graphport.proof.segments.segments import Segmentation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Node, Value
    from graphport.proof.segments.segments import Segment

_OPERATORS = frozenset({"If", "Loop", "Scan"})


def body_segments(output: Match, segmentation: Segmentation) -> Iterator[tuple[Graph, Segment | None]]:
    """Return body pairs of two operators with the segments from matched body inputs to body results.

    A matched value that a body captures from the enclosing graph is an input of the segment. There is no segment for a
    result that is not computed from matched values.
    """
    a, b = output.a.producer, output.b.producer
    if a is None or b is None or a.op != b.op or a.op not in _OPERATORS:
        return
    states = _common_states(a, b, segmentation)
    # Files list the branches of If in either order.
    attributes = [(graph, b.attributes.get(name)) for name, graph in a.attributes.items()]
    for body_a, body_b in attributes:
        if not isinstance(body_a, Graph) or not isinstance(body_b, Graph):
            continue
        inputs = [_input(a, (body_a.inputs[i], body_b.inputs[j]), i, segmentation) for i, j in states]
        inner = Segmentation([*segmentation.by_a.values(), *(each for each in inputs if each is not None)])
        for i, j in _common_results(a, (body_a, body_b), states):
            one, two = body_a.outputs[i], body_b.outputs[j]
            if one in inner.by_a and inner.by_a[one].b is two:
                continue
            yield body_a, inner.segment(Match(one, two, None, None)) if one.producer and two.producer else None


def _common_states(a: Node, b: Node, segmentation: Segmentation) -> list[tuple[int, int]]:
    """Return index pairs of body inputs whose initial operands match."""
    if a.op == "If":
        return []
    if len(a.inputs) == len(b.inputs):
        return [(index, index) for index in range(len(a.inputs))]
    fixed = 2 if a.op == "Loop" else 0
    found = [(index, index) for index in range(fixed)]
    free = list(range(fixed, len(b.inputs)))
    for i in range(fixed, len(a.inputs)):
        partner = next((j for j in free if _is_common(a.operand(i), b.operand(j), segmentation)), None)
        if partner is not None:
            free.remove(partner)
            found.append((i, partner))
    return found


def _is_common(a: Value | None, b: Value | None, segmentation: Segmentation) -> bool:
    if a is None or b is None:
        return False
    match = segmentation.by_a.get(a)
    return match is not None and match.b is b


def _common_results(a: Node, bodies: tuple[Graph, Graph], states: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return index pairs of corresponding body results: equal indices for equal counts, else common states.

    The body of a Loop has no result for the number of the iteration.
    """
    counts = len(bodies[0].outputs), len(bodies[1].outputs)
    if counts[0] == counts[1]:
        return [(index, index) for index in range(counts[0])]
    first = 1 if a.op == "Loop" else 0
    return [(i - first, j - first) for i, j in states if i >= first and i - first < counts[0] and j - first < counts[1]]


def _input(node: Node, pair: tuple[Value, Value], index: int, segmentation: Segmentation) -> Match | None:
    """Return the match of two body inputs with their initial elements; `None` if the elements are unknown."""
    operands = [segmentation.by_a.get(value) if value is not None else None for value in node.inputs]
    elements = _elements(node, index, operands)
    if elements is None:
        elements = _constant(node, index)
    if elements is None:
        return None
    dtype = pair[1].dtype
    of_b = elements if dtype is None or dtype.kind == "s" else np.asarray(elements).astype(dtype.numpy)
    return Match(*pair, elements, of_b)


def _elements(node: Node, index: int, operands: list[Match | None]) -> Any:
    """Return the elements of a body input in the first iteration; `None` if they are unknown."""
    if node.op == "Loop" and index == 0:
        return np.zeros((), np.int64)
    if node.op == "Loop" and index == 1:
        return np.ones((), np.bool_)
    match = operands[index] if index < len(operands) else None
    if match is None:
        return None
    if node.op != "Scan":
        return match.x
    count = node.attributes.get("num_scan_inputs", 0)
    states = len(operands) - count if isinstance(count, int) else 0
    if index < states:
        return match.x
    axes = node.attributes.get("scan_input_axes")
    axis = axes[index - states] if isinstance(axes, tuple) else 0
    return np.take(match.x, 0, axis=axis) if isinstance(axis, int) and np.size(match.x) else None


def _constant(node: Node, index: int) -> Any:
    """Return the elements of a constant operand, or zeros of the operand's inferred shape."""
    value = node.operand(index)
    if value is None:
        return None
    if value.storage is not None and not value.is_input:
        return value.storage.numpy()
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None or not fact.is_static:
        return None
    return np.zeros([dim for dim in fact.shape if isinstance(dim, int)], fact.dtype.numpy)
