"""Rewrite the safe softmax of masked attention to a form without intermediate NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.ncnn.graph_passes.masked_rows import are_finite
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.ops.constant_folding import folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Graph

_LOWEST, _LEAST = -3.0e38, 1.0e-30
"""A finite number below every score, and a number below every sum of a row that has scores."""


def expand_safe_softmax(graph: Graph) -> int:
    """Rewrite a softmax that is 0 in rows of -inf to a formula without intermediate NaN; return the number of rewrites.

    Before  e = Equal(ReduceMax(a, [axis]), -inf) or IsNaN(Softmax(a, axis));  y = Where(e, 0, Softmax(a, axis))
    After   p = Exp(a - Max(ReduceMax(a, [axis]), lowest));  y = p / Max(ReduceSum(p, [axis]), least)

    Does not apply if the softmax has other consumers than condition and Where, or if, with IsNaN, operators may
    compute scores of NaN or +inf: the source returns 0 for their rows, the formula NaN.
    """
    count = 0
    for node in list(graph):
        softmax = _safe_softmax(node)
        if softmax is not None:
            rewrite.replace(node.output, _expanded(graph, node, softmax))
            graph.remove(node)
            count += 1
    if count:
        rewrite.remove_dead(graph)
    return count


def _safe_softmax(node: Node) -> Node | None:
    """Return the softmax whose fully masked rows `node` replaces by 0; `None` if `node` is no such Where."""
    if node.op != "Where" or len(node.operands) != 3 or not _is_constant_equal(node.operands[1], 0.0):
        return None
    condition, softmax = node.operands[0].producer, node.operands[2].producer
    if condition is None or softmax is None or softmax.op != "Softmax" or not softmax.output.shape:
        return None
    if any(user not in (node, condition) for user in softmax.output.users) or softmax.output.is_output:
        return None
    if condition.op == "IsNaN":
        is_masked_only = condition.operands[0] is softmax.output and are_finite(softmax.operands[0], may_be_masked=True)
        return softmax if is_masked_only else None
    if condition.op != "Equal" or not any(_is_constant_equal(value, -np.inf) for value in condition.operands):
        return None
    most = next((value.producer for value in condition.operands if value.producer is not None), None)
    is_same = most is not None and most.op == "ReduceMax" and most.operands[0] is softmax.operands[0]
    return softmax if is_same and most is not None and _axes(most) == [_axis(softmax)] else None


def _is_constant_equal(value: Value, number: float) -> bool:
    storage = folded(value)
    return storage is not None and storage.count == 1 and bool((storage.numpy() == number).all())


def _axis(softmax: Node) -> int:
    axis = softmax.attributes.get("axis", -1)
    return (axis if isinstance(axis, int) else -1) % len(softmax.output.shape or (1,))


def _axes(reduction: Node) -> list[int]:
    storage = folded(reduction.operands[1]) if len(reduction.operands) > 1 else None
    rank = len(reduction.operands[0].shape or ())
    return (
        []
        if storage is None or not reduction.attributes.get("keepdims", 1)
        else [int(axis) % rank for axis in storage.numpy().reshape(-1)]
    )


def _expanded(graph: Graph, place: Node, softmax: Node) -> Value:
    scores, axis = softmax.operands[0], _axis(softmax)
    axes = storage_of(np.array([axis]))
    along = graph.add_constant(graph.fresh("axes"), TensorFact.of(axes), axes)
    fact = softmax.output.fact
    dims = softmax.output.shape or ()
    kept = TensorFact(softmax.output.dtype, tuple(1 if index == axis else dim for index, dim in enumerate(dims)))

    def emit(op: str, operands: Sequence[Value], made: object) -> Value:
        result = Value(graph.fresh(place.output.name), made if isinstance(made, TensorFact) else kept)
        attributes = {"keepdims": 1} if op.startswith("Reduce") else {}
        graph.insert_before(place, Node(op, operands, [result], attributes, origin=place.unasked_origin))
        return result

    def add_limit(value: float) -> Value:
        storage = storage_of(np.array(value, np.float32))
        return graph.add_constant(graph.fresh("limit"), TensorFact.of(storage), storage)

    most = emit("Max", [emit("ReduceMax", [scores, along], kept), add_limit(_LOWEST)], kept)
    powers = emit("Exp", [emit("Sub", [scores, most], fact)], fact)
    total = emit("Max", [emit("ReduceSum", [powers, along], kept), add_limit(_LEAST)], kept)
    return emit("Div", [powers, total], fact)
