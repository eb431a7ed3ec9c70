"""Sampling of a large graph: a small graph with one or two nodes of each kind and their neighbours."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

MIN_SAMPLED_NODES = 500
"""Minimum number of nodes for sampling. Export of a node depends only on the node and its neighbours."""

_MAX_NODES_PER_KIND = 2
"""Maximum number of nodes of one kind in the sample."""


def sample_graph(graph: Graph, large: int = MIN_SAMPLED_NODES) -> tuple[Graph, dict[str, int]]:
    """Sample a large graph. Return the sample and, by first result name, the number of nodes that each node represents.

    A graph of fewer than `large` nodes is returned itself. Two nodes are of one kind if operator, attributes and facts
    of operands are equal, and if their producers and consumers are of equal kinds. The sample contains the first two
    nodes of each kind; their neighbours are included with a count of 0.
    """
    if len(graph) < large:
        return graph, {}
    kinds: dict[Hashable, int] = {}
    own = {node: kinds.setdefault(_node_kind(node), len(kinds)) for node in graph}
    kept: dict[Hashable, list[Node]] = {}
    counts: Counter[Hashable] = Counter()
    for node in graph:
        key = own[node], tuple([_producer_kind(value, own) for value in node.inputs]), _consumer_kinds(node, own)
        counts[key] += 1
        first = kept.setdefault(key, [])
        if len(first) < _MAX_NODES_PER_KIND:
            first.append(node)
    wanted = {near for first in kept.values() for node in first for near in (node, *_neighbours(node))}
    stands_for = {node.results[0].name: 0 for node in wanted if node.results}
    for key, first in kept.items():
        for index, node in enumerate(first):
            if node.results:
                stands_for[node.results[0].name] = 1 if index else counts[key] - len(first) + 1
    return _extract(graph, [node for node in graph if node in wanted]), stands_for


def _node_kind(node: Node) -> Hashable:
    """Return everything besides neighbours that decides how a node is exported."""
    operands = tuple((None, False) if value is None else (value.fact, value.is_constant) for value in node.inputs)
    return node.op, tuple(map(_hashable_attribute, node.stated.items())), operands, len(node.outputs)


def _hashable_attribute(attribute: tuple[str, Any]) -> Hashable:
    name, value = attribute
    try:
        hash(value)
    except TypeError:
        return name, id(value)
    return name, value


def _producer_kind(value: Value | None, own: Mapping[Node, int]) -> int:
    producer = None if value is None else value.producer
    return -1 if producer is None else own.get(producer, -2)


def _consumer_kinds(node: Node, own: Mapping[Node, int]) -> frozenset[int]:
    return frozenset(own.get(user, -1) for value in node.results for user in value.users)


def _neighbours(node: Node) -> list[Node]:
    sources = [value.producer for value in node.operands if value.producer is not None]
    readers = [user for value in node.results for user in list(value.users)[:_MAX_NODES_PER_KIND]]
    return [near for near in (*sources, *readers) if near.graph is node.graph]


def _extract(graph: Graph, nodes: list[Node]) -> Graph:
    """Extract `nodes` into a graph; operands from outside are its inputs, results used outside its outputs."""
    part = Graph(graph.name)
    part.opsets = dict(graph.opsets)
    known: dict[Value, Value] = {}
    for node in nodes:
        for value in [*node.operands, *rewrite.captured(node)]:
            if value not in known:
                known[value] = (
                    part.add_constant(value.name, value.fact, value.storage)
                    if value.is_constant
                    else part.add_input(value.name, value.fact)
                )
        results = [None if value is None else Value(value.name, value.fact) for value in node.outputs]
        part.append(rewrite.copy_node(node, known, results))
        pairs = zip(node.outputs, results, strict=True)
        known.update((old, new) for old, new in pairs if old is not None and new is not None)
    kept = set(nodes)
    part.set_outputs([known[value] for node in nodes for value in node.results if _is_boundary_value(value, kept)])
    return part


def _is_boundary_value(value: Value, kept: set[Node]) -> bool:
    return value.is_output or not value.uses or any(user not in kept for user in value.users)
