"""What a body reads from the graphs around it, made inputs for languages whose bodies are given all that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, walk
from graphport.ops.builder import Builder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Value


def copied(b: Builder, body: Graph) -> Graph:
    """A body to be edited, in which new values are called like none around it."""
    twin = rewrite.copy(body)
    if b.graph is not None:
        b.graph.share_names(twin)
    return twin


def step_body(b: Builder, facts: Sequence[Fact]) -> tuple[Builder, Graph, list[Value]]:
    """What builds in a new body of a loop, the body, in which values are called like none around it, and its inputs."""
    body = Graph(f"{b.stem}.step")
    if b.graph is not None:
        b.graph.share_names(body)
    inner = Builder(b.inference, body, origin=b.origin, stem=f"{b.stem}.step")
    return inner, body, [body.add_input(f"{b.stem}.given", fact) for fact in facts]


def facts_of_results(b: Builder) -> list[Fact]:
    """The facts that the results of the node that is lifted have."""
    node = b.before
    return [] if node is None else [TensorFact(None, None) if value is None else value.fact for value in node.outputs]


def captured(body: Graph) -> dict[Value, None]:
    """Values that are computed or given outside, which a body or one inside of it reads; constants are copied in."""
    inside = set(walk(body))
    found: dict[Value, None] = {}
    copies: dict[Value, Value] = {}
    for inner in inside:
        reads = [(node, index, value) for node in inner for index, value in enumerate(node.inputs)]
        for node, index, value in reads:
            if value is None or value.graph in inside:
                continue
            if value.storage is not None and value.is_constant:
                node.set_input(index, _constant_in(body, value, copies))
            else:
                found[value] = None
        for index, value in enumerate(inner.outputs):
            if value.graph in inside:
                continue
            if value.storage is not None and value.is_constant:
                inner.set_output(index, _constant_in(body, value, copies))
            else:
                found[value] = None
    return found


def _constant_in(body: Graph, value: Value, copies: dict[Value, Value]) -> Value:
    if value not in copies:
        copies[value] = body.add_constant(value.name, value.fact, value.storage, origin=value.origin)
    return copies[value]


def close(body: Graph, given: list[Value]) -> list[int]:
    """Make inputs of what a body reads from outside; return which of `given` each input is."""
    inside = set(walk(body))
    positions: list[int] = []
    for place, value in enumerate(given):
        uses = [use for use in value.uses if (use.user.graph if isinstance(use.user, Node) else use.user) in inside]
        if not uses:
            continue
        inner = body.add_input(value.name, value.fact)
        for use in uses:
            use.read(inner)
        positions.append(place)
    return positions
