"""Bodies of If, Loop and Scan as segments with free inputs: what runs of whole models never execute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.facts import TensorFact
from graphport.proof.pieces.matching import Match
from graphport.proof.pieces.segments import Segmentation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Graph, Node
    from graphport.proof.pieces.segments import Segment

_OPERATORS = frozenset({"If", "Loop", "Scan"})


def body_segments(output: Match, segmentation: Segmentation) -> Iterator[Segment]:
    """The segments of the results of the bodies of two operators, given what the bodies are given.

    What a body reads from the graph around it is an input of the segment if it is matched.
    """
    a, b = output.a.producer, output.b.producer
    if a is None or b is None or a.op != b.op or a.op not in _OPERATORS:
        return
    for body_a, body_b in zip(a.bodies(), b.bodies(), strict=False):
        if len(body_a.inputs) != len(body_b.inputs) or len(body_a.outputs) != len(body_b.outputs):
            continue
        inputs = list(_inputs(a, (body_a, body_b), segmentation))
        inner = Segmentation([*segmentation.by_a.values(), *inputs])
        for one, two in zip(body_a.outputs, body_b.outputs, strict=True):
            if one.producer is None or two.producer is None:
                continue
            segment = inner.segment(Match(one, two, None, None))
            if segment is not None:
                yield segment


def _inputs(node: Node, bodies: tuple[Graph, Graph], segmentation: Segmentation) -> Iterator[Match]:
    """The inputs of the bodies that elements are known of: those of the operands of the node in a run."""
    operands = [segmentation.by_a.get(value) if value is not None else None for value in node.inputs]
    for index, (one, two) in enumerate(zip(bodies[0].inputs, bodies[1].inputs, strict=True)):
        elements = _elements(node, index, operands)
        if elements is None:
            elements = _constant(node, index)
        if elements is not None:
            yield Match(one, two, elements, elements)


def _elements(node: Node, index: int, operands: list[Match | None]) -> Any:
    """What a body is given for an input in its first iteration, as far as the operands are known."""
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
    """The elements of an operand that is a constant, or zeros of the shape that is known of it."""
    value = node.operand(index)
    if value is None:
        return None
    if value.storage is not None and not value.is_input:
        return value.storage.numpy()
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None or not fact.is_static:
        return None
    return np.zeros([dim for dim in fact.shape if isinstance(dim, int)], fact.dtype.numpy)
