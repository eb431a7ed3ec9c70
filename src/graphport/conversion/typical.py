"""A small graph with one or two of each kind of node of a large one, next to what they stand next to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

LARGE = 20_000
"""Nodes from which on a graph is told by its typical nodes: how a node is written hangs on it and its neighbours."""

_KEPT = 2
"""Nodes of a kind that are kept: the first ones."""


def typical(graph: Graph, large: int = LARGE) -> tuple[Graph, dict[str, int]]:
    """A graph of the nodes that represent all of `graph`, and for how many each stands, by its first result's name.

    A graph of fewer than `large` nodes represents itself. Two nodes are of one kind if they have the same operator,
    attributes and facts of operands, and so have those they read from and are read by. Kept are the first two of a
    kind; their neighbours stand beside them, and for nobody.
    """
    if len(graph) < large:
        return graph, {}
    kinds: dict[Hashable, int] = {}
    own = {node: kinds.setdefault(_kind(node), len(kinds)) for node in graph}
    kept: dict[Hashable, list[Node]] = {}
    counts: Counter[Hashable] = Counter()
    for node in graph:
        key = own[node], tuple([_read(value, own) for value in node.inputs]), _readers(node, own)
        counts[key] += 1
        first = kept.setdefault(key, [])
        if len(first) < _KEPT:
            first.append(node)
    wanted = {near for first in kept.values() for node in first for near in (node, *_neighbours(node))}
    stands_for = {node.results[0].name: 0 for node in wanted if node.results}
    for key, first in kept.items():
        for index, node in enumerate(first):
            if node.results:
                stands_for[node.results[0].name] = 1 if index else counts[key] - len(first) + 1
    return _cut(graph, [node for node in graph if node in wanted]), stands_for


def _kind(node: Node) -> Hashable:
    """What decides how a node is written, apart from its neighbours."""
    operands = tuple((None, False) if value is None else (value.fact, value.is_constant) for value in node.inputs)
    return node.op, tuple(map(_frozen, node.stated.items())), operands, len(node.outputs)


def _frozen(attribute: tuple[str, Any]) -> Hashable:
    name, value = attribute
    try:
        hash(value)
    except TypeError:
        return name, id(value)
    return name, value


def _read(value: Value | None, own: Mapping[Node, int]) -> int:
    producer = None if value is None else value.producer
    return -1 if producer is None else own.get(producer, -2)


def _readers(node: Node, own: Mapping[Node, int]) -> frozenset[int]:
    return frozenset(own.get(user, -1) for value in node.results for user in value.users)


def _neighbours(node: Node) -> list[Node]:
    sources = [value.producer for value in node.operands if value.producer is not None]
    readers = [user for value in node.results for user in list(value.users)[:_KEPT]]
    return [near for near in (*sources, *readers) if near.graph is node.graph]


def _cut(graph: Graph, nodes: list[Node]) -> Graph:
    """A graph of some nodes of another one: what they read from elsewhere are inputs, what others read outputs."""
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
    part.set_outputs([known[value] for node in nodes for value in node.results if _is_wanted(value, kept)])
    return part


def _is_wanted(value: Value, kept: set[Node]) -> bool:
    return value.is_output or not value.uses or any(user not in kept for user in value.users)
