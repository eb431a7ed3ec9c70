"""Extraction of subgraphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphport.core.facts import TensorFact
from graphport.ir import rewrite, states
from graphport.ir.graph import Graph, Value, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence

    from graphport.ir.graph import Node


class Subgraph(NamedTuple):
    """A part of a graph, the value in it for each of the original's, and the original's nodes in it."""

    graph: Graph
    values: dict[Value, Value]
    nodes: Sequence[Node]


def extract_subgraph(nodes: Sequence[Node], outputs: Iterable[Value], inputs: Iterable[Value] = ()) -> Subgraph:
    """Return a graph of `nodes` with the given outputs; constants share storage, origins and bodies are kept.

    Values that the nodes use but do not compute are inputs after `inputs`, or constants.

    Args:
        nodes: nodes in topological order, of one graph and the graphs around it.
        outputs: results of nodes, inputs or constants.
        inputs: inputs of the part, used or not.
    """
    first = next((node.graph for node in nodes if node.graph is not None), None)
    root = first.root if first is not None else None
    part = Graph("part" if root is None else root.name, opsets={} if root is None else root.opsets)
    if root is not None:
        part.origin = root.origin
        part.extents = root.extents.copy()
        part.notes.update(root.notes)
    given = dict.fromkeys(inputs)
    twins = {value: part.adopt_input(_copy_as_input(value)) for value in given}
    computed = {value for node in nodes for value in node.results if value not in given}
    wanted = list(outputs)
    read = dict.fromkeys([*(value for node in nodes for value in reads(node)), *wanted])
    # Inputs of the whole graph keep their order.
    order = {} if root is None else {value: place for place, value in enumerate(root.inputs)}
    for value in sorted(read, key=lambda value: order.get(value, len(order))):
        if value in twins or value in computed:
            continue
        if value.is_constant:
            twins[value] = part.adopt_constant(value.copy_detached())
        else:
            twins[value] = part.adopt_input(_copy_as_input(value))
    for node in nodes:
        results = [None if value is None else value.copy_detached() for value in node.outputs]
        pairs = list(zip(node.outputs, results, strict=True))
        for old, new in pairs:
            if old in given and new is not None:
                # Inputs without consumers; their number may be part of the interface.
                new.name = part.fresh(new.name)
        part.append(rewrite.copy_node(node, twins, results))
        twins.update((old, new) for old, new in pairs if old is not None and new is not None and old not in given)
    part.set_outputs(twins[value] for value in wanted)
    rename_duplicates(part)
    _forget_states(part)
    return Subgraph(part, twins, nodes)


def cut(outputs: Sequence[Value], inputs: Collection[Value] = ()) -> Subgraph:
    """Return the subgraph that computes `outputs` from `inputs` and from other values that it needs.

    Both may contain values of bodies: captured values are computed too; values that the node passes to its body are
    inputs.
    """
    given = dict.fromkeys(inputs)
    return extract_subgraph(_sort_nodes(_nodes(outputs, given)), outputs, given)


def border(outputs: Sequence[Value], stops: Container[Value]) -> list[Value]:
    """Return the values of `stops`, or inputs, at which a walk backwards from `outputs` ends."""
    nodes = _nodes(outputs, stops)
    computed = {value for node in nodes for value in node.results}
    read = dict.fromkeys(value for node in nodes for value in reads(node))
    return [value for value in read if value in stops or (value not in computed and not value.is_constant)]


def _nodes(outputs: Sequence[Value], stops: Container[Value]) -> dict[Node, None]:
    """The nodes that compute `outputs` from `stops`."""
    nodes: dict[Node, None] = {}
    pending = [value for value in outputs if value not in stops]
    while pending:
        node = pending.pop().producer
        if node is not None and node not in nodes:
            nodes[node] = None
            pending += [value for value in reads(node) if value not in stops]
    return nodes


def reads(node: Node) -> list[Value]:
    """The values that a node and its bodies read, each once."""
    return list(dict.fromkeys([*node.operands, *(rewrite.captured(node) if node.has_bodies else ())]))


def is_input_dependent(value: Value) -> bool:
    """Whether the value depends on a graph input and is not constant."""
    seen: set[Value] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        if each.is_input:
            return True
        if each.producer is not None and each not in seen:
            seen.add(each)
            pending += reads(each.producer)
    return False


def _sort_nodes(nodes: Mapping[Node, None]) -> list[Node]:
    """Return the nodes in topological order; nodes of a body precede the node that owns it."""
    roots = dict.fromkeys(node.graph.root for node in nodes if node.graph is not None)
    positions: dict[Node, int] = {}
    for root in roots:
        pending = [iter(root)]
        while pending:
            node = next(pending[-1], None)
            if node is None:
                pending.pop()
                continue
            positions[node] = len(positions)
            pending += [iter(body) for body in node.bodies()]
    return sorted(nodes, key=lambda node: positions[node])


def _copy_as_input(value: Value) -> Value:
    """Return a copy of `value` as an input, without known elements."""
    twin = value.copy_detached()
    twin.is_literal = False
    if not value.is_input:
        twin.storage = None
    if isinstance(twin.fact, TensorFact):
        twin.fact = twin.fact.with_shape(twin.fact.shape)
    return twin


def rename_duplicates(part: Graph) -> None:
    """Rename values of bodies whose names also occur outside the bodies."""
    taken: set[str] = set()
    for graph in walk(part):
        for value in graph.values():
            if value.name in taken and graph is not part:
                graph.rename(value, part.fresh(value.name))
        if graph is part:
            taken = {value.name for value in part.values()}


def _forget_states(part: Graph) -> None:
    """Make state inputs whose next value is not an output of the part ordinary inputs."""
    kept = {value for value, _, _ in states.state_pairs(part)}
    for value in part.inputs:
        if value not in kept:
            states.unmark(value)
