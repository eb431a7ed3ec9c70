"""Replace conditions that can have only one value by constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import UNKNOWN
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.ops.infer import Inference
from graphport.ops.products import constant_elements
from graphport.passes.journal import Journal, apply
from graphport.passes.substitution import add_constant, graph_of

if TYPE_CHECKING:
    from graphport.core.facts import Fact

MAX_FOLLOWED_NODES = 64
"""Limit of nodes after an If that are checked for compatibility with a branch result."""


def resolve_branches(graph: Graph, journal: Journal) -> None:
    """Replace the condition of an `If` by a constant if the consumers cannot accept the result of one branch.

    Before  h = If(c, { Unsqueeze(s, [0]) }, { s });  y, … = LSTM(x, w, r, initial_h=Unsqueeze(h, [0]))        s [N, C]
    After   h = If(false, { Unsqueeze(s, [0]) }, { s });  …        since initial_h has rank 3

    In each run that does not fail, the condition has that value; failing runs still fail. Does not apply if both
    branches are possible, or of unknown shape. Preserves values bit for bit.
    """
    apply(graph, journal, _resolve, {"If"})


def _resolve(node: Node) -> str | None:
    condition = node.operand(0)
    if condition is None or constant_elements(condition) is not None:
        return None
    possible = {name: _is_possible(node, node.attributes.get(name)) for name in ("then_branch", "else_branch")}
    if all(possible.values()) or not any(possible.values()):
        return None
    answer = possible["then_branch"]
    _set_condition(node, condition, answer=answer)
    return f"its condition is {str(answer).lower()} for all inputs that its consumers accept"


def _set_condition(node: Node, condition: Value, *, answer: bool) -> None:
    """Replace `condition` by the constant in the graph of `node` and its bodies."""
    graph = graph_of(node)
    shape = condition.shape
    array = np.array([answer]) if shape is not None and len(shape) == 1 else np.array(answer)
    constant = add_constant(graph, array, f"{condition.name}.known")
    for user, index in list(condition.uses):
        if isinstance(user, Node) and _is_within(user.graph, graph):
            user.set_input(index, constant)


def _is_within(inner: Graph | None, outer: Graph) -> bool:
    while inner is not None:
        if inner is outer:
            return True
        inner = None if inner.parent is None else inner.parent.graph
    return False


def _is_possible(node: Node, body: object) -> bool:
    """Whether shape inference of the nodes after an `If` accepts the results of its branch `body`."""
    if not isinstance(body, Graph):
        return True
    inference = Inference()
    facts: dict[Value, Fact] = {}
    for value in node.results:
        given = body.outputs[value.index].fact if value.index < len(body.outputs) else UNKNOWN
        if given != value.fact:
            facts[value] = given
    reader = node.next
    for _ in range(MAX_FOLLOWED_NODES):
        if reader is None or not facts:
            break
        try:
            _align_branch(reader, facts, inference)
        except ShapeError:
            return False
        reader = reader.next
    return True


def _align_branch(reader: Node, facts: dict[Value, Fact], inference: Inference) -> None:
    op_def = None if reader.dialect else registry.op_defs().get(reader.op_type)
    if op_def is None or any(True for _ in reader.bodies()) or not any(value in facts for value in reader.operands):
        return
    operands = [None if value is None else facts.get(value, value.fact) for value in reader.inputs]
    found = inference.infer_operator(op_def, operands, reader.attributes, len(reader.outputs))
    for value in reader.results:
        if found[value.index] != value.fact:
            facts[value] = found[value.index]
