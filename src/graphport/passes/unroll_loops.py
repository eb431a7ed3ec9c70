"""Unroll short loops."""

from __future__ import annotations

import numpy as np

from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ops.builder import Builder
from graphport.ops.definitions.reshape import Concat, Unsqueeze
from graphport.ops.infer import Inference
from graphport.ops.products import constant_elements
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.substitution import add_constant, graph_of
from graphport.passes.transplant import replace_keeping_name, transplant

MOST_TURNS = 8
MAX_NODES = 64
"""Limit of nodes of all iterations together."""


def unroll_loops(graph: Graph, journal: Journal) -> None:
    """Unroll a `Loop` with a small constant trip count.

    Before  y = Loop(2, true, x, body={ (i, c, s) => return c, Mul(s, w) })
    After   s = Mul(x, w);  y = Mul(s, w)

    Does not apply to trip counts that are computed, 0 or large, to computed conditions, or to large bodies. Preserves
    values bit for bit.
    """
    apply(graph, journal, _unroll, {"Loop"})
    if journal.done:
        # A result of one iteration has its own shape, not that of all iterations.
        Inference().graph(graph)


def _unroll(node: Node) -> str | None:
    body = node.attributes.get("body")
    turns = constant_elements(node.operand(0))
    if not isinstance(body, Graph) or turns is None or turns.size != 1:
        return None
    count = int(turns.reshape(-1)[0])
    _check(node, body, count)
    graph = graph_of(node)
    carried: list[Value] = [value for value in node.inputs[2:] if value is not None]
    scanned: list[list[Value]] = []
    true = add_constant(graph, np.ones((), np.bool_), f"{node.output.name}.true")
    for turn in range(count):
        number = add_constant(graph, np.array(turn, np.int64), f"{node.output.name}.turn")
        given = dict(zip(body.inputs, [number, true, *carried], strict=True))
        moved = transplant(body, node, given, behind=f".{turn}" if turn else "")
        returned = [moved.get(value, value) for value in body.outputs[1:]]
        kept = len(carried)
        carried, rest = returned[:kept], returned[kept:]
        scanned.append(rest)
    results = carried + _stack_results(node, scanned)
    for old in node.results:
        replace_keeping_name(old, results[old.index])
    graph.remove(node)
    return f"unrolled to {count} iterations"


def _check(node: Node, body: Graph, count: int) -> None:
    condition = node.operand(1)
    begins = None if condition is None else constant_elements(condition)
    if condition is not None and (begins is None or not begins.all()):
        raise NotApplicable("the initial condition is computed")
    if not 0 < count <= MOST_TURNS or count * sum(map(len, walk(body))) > MAX_NODES:
        raise NotApplicable(f"{count} iterations of {len(body)} nodes: 0 or above the limit")
    if None in node.inputs[2:] or len(body.inputs) != len(node.inputs):
        raise NotApplicable("an initial value is absent")
    again = body.outputs[0]
    while again.producer is not None and again.producer.op == "Identity" and again.producer.graph is body:
        again = again.producer.operands[0]
    known = constant_elements(again)
    if again is not body.inputs[1] and (known is None or not known.all()):
        raise NotApplicable("the loop condition is computed")


def _stack_results(node: Node, scanned: list[list[Value]]) -> list[Value]:
    """Stack the scan outputs of the iterations along a new first axis."""
    builder = Builder(Inference(), graph_of(node), node, origin=node.origin, stem=node.output.name)
    stacked: list[Value] = []
    for parts in zip(*scanned, strict=True):
        raised = [builder(Unsqueeze, part, builder.constant(np.array([0]))) for part in parts]
        stacked.append(builder(Concat, *raised, axis=0))
    return stacked
