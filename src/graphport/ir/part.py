"""Parts of a graph as graphs of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphport.core.facts import TensorFact
from graphport.ir import rewrite, states
from graphport.ir.graph import Graph, Value, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence

    from graphport.ir.graph import Node


class Part(NamedTuple):
    """A part of a graph, the value in it for each of the original's, and the original's nodes in it."""

    graph: Graph
    values: dict[Value, Value]
    nodes: Sequence[Node]


def part_of(nodes: Sequence[Node], outputs: Iterable[Value], inputs: Iterable[Value] = ()) -> Part:
    """A graph of `nodes` that returns `outputs`; numbers of constants are shared, origins and bodies kept.

    What they read and nobody among them computes is an input, behind `inputs`, or a constant where it is one.

    Args:
        nodes: in an order of computation, of one graph and of graphs around it.
        outputs: results of nodes, inputs or constants.
        inputs: what is given, whoever computes it; read or not.
    """
    first = next((node.graph for node in nodes if node.graph is not None), None)
    root = first.root if first is not None else None
    part = Graph("part" if root is None else root.name, opsets={} if root is None else root.opsets)
    if root is not None:
        part.origin = root.origin
        part.extents = root.extents.copy()
        part.notes.update(root.notes)
    given = dict.fromkeys(inputs)
    twins = {value: part.adopt_input(_input(value)) for value in given}
    computed = {value for node in nodes for value in node.results if value not in given}
    wanted = list(outputs)
    read = dict.fromkeys([*(value for node in nodes for value in reads(node)), *wanted])
    # What the whole is given stays in the order in which it is given.
    order = {} if root is None else {value: place for place, value in enumerate(root.inputs)}
    for value in sorted(read, key=lambda value: order.get(value, len(order))):
        if value in twins or value in computed:
            continue
        if value.is_constant:
            twins[value] = part.adopt_constant(value.twin())
        else:
            twins[value] = part.adopt_input(_input(value))
    for node in nodes:
        results = [None if value is None else value.twin() for value in node.outputs]
        pairs = list(zip(node.outputs, results, strict=True))
        for old, new in pairs:
            if old in given and new is not None:
                # Given from outside, and so read by nobody; how many results there are may say what they are.
                new.name = part.fresh(new.name)
        part.append(rewrite.copy_node(node, twins, results))
        twins.update((old, new) for old, new in pairs if old is not None and new is not None and old not in given)
    part.set_outputs(twins[value] for value in wanted)
    rename_doubles(part)
    _forget_states(part)
    return Part(part, twins, nodes)


def cut(outputs: Sequence[Value], inputs: Collection[Value] = ()) -> Part:
    """The part of a graph that computes `outputs` from `inputs`, and from what else it takes.

    Values in bodies may be among both: what their nodes read from around the body is computed, too; what the node of a
    body hands to it is an input.
    """
    given = dict.fromkeys(inputs)
    return part_of(_in_order(_nodes(outputs, given)), outputs, given)


def border(outputs: Sequence[Value], stops: Container[Value]) -> list[Value]:
    """The nearest of `stops`, inputs included, that `outputs` are computed from."""
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


def varies(value: Value) -> bool:
    """Whether it hangs on an input of a graph, and is not the same in every run."""
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


def _in_order(nodes: Mapping[Node, None]) -> list[Node]:
    """The nodes as they are computed; those of a body before the node that has it."""
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


def _input(value: Value) -> Value:
    """A twin of `value` that is given: what its numbers were is not known of it any more."""
    twin = value.twin()
    twin.is_literal = False
    if not value.is_input:
        twin.storage = None
    if isinstance(twin.fact, TensorFact):
        twin.fact = twin.fact.with_shape(twin.fact.shape)
    return twin


def rename_doubles(part: Graph) -> None:
    """Give names of their own to values of bodies whose names stand outside of them, too."""
    taken: set[str] = set()
    for graph in walk(part):
        for value in graph.values():
            if value.name in taken and graph is not part:
                graph.rename(value, part.fresh(value.name))
        if graph is part:
            taken = {value.name for value in part.values()}


def _forget_states(part: Graph) -> None:
    """Let an input be one like any other whose output is not here."""
    kept = {value for value, _, _ in states.kept(part)}
    for value in part.inputs:
        if value not in kept:
            states.forget(value)
