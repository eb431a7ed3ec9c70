"""Conversion of captured values to body inputs, for dialects whose bodies have no access to outer values."""

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
    """Copy a body for editing; new values get names that are unique in the outer graphs too."""
    twin = rewrite.copy(body)
    if b.graph is not None:
        b.graph.share_names(twin)
    return twin


def step_body(b: Builder, facts: Sequence[Fact]) -> tuple[Builder, Graph, list[Value]]:
    """Create a loop body whose names are unique in the outer graphs. Return its builder, the body and its inputs."""
    body = Graph(f"{b.stem}.step")
    if b.graph is not None:
        b.graph.share_names(body)
    inner = Builder(b.inference, body, origin=b.origin, stem=f"{b.stem}.step")
    return inner, body, [body.add_input(f"{b.stem}.given", fact) for fact in facts]


def facts_of_results(b: Builder) -> list[Fact]:
    """Return the facts of the results of the node that is exported."""
    node = b.before
    return [] if node is None else [TensorFact(None, None) if value is None else value.fact for value in node.outputs]


def captured(body: Graph) -> dict[Value, None]:
    """Return the outer values that a body or a nested body uses; constants are copied into the body."""
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
    """Convert the outer values among `given` that a body captures into inputs. Return their indices in `given`."""
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
