"""Hierarchical scopes of a graph: the modules that its nodes belong to.

Scopes come from the source (modules, fragments) if it has them, otherwise from structured names if nodes of a scope are
adjacent. A node with bodies is a scope of its own. Long scopes are split by repeated blocks, then into segments, so
that no scope has more than `MAX_ENTRIES` entries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphport.core.storage import Storage
from graphport.ir.graph import Graph, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphport.ir.graph import Node

MAX_ENTRIES = 100
"""Limit of entries of a scope."""
_SEGMENT_LENGTH = 50
_MIN_BLOCK_LENGTH = 4
_MAX_BLOCK_LENGTH = 400
_MAX_SCOPE_DEPTH = 24
_MAX_INTERRUPTIONS = 3.0
"""Limit of the mean number of interruptions of a scope by other nodes."""
_NUMBER = re.compile(r"\d+")

Kind = Literal["module", "body", "block", "piece"]


@dataclass(slots=True, eq=False)
class _Scope:
    name: str
    kind: Kind
    entries: list[_Scope | int] = field(default_factory=list["_Scope | int"])
    inner: dict[str, _Scope] = field(default_factory=dict[str, "_Scope"])

    def child(self, name: str, kind: Kind) -> _Scope:
        found = self.inner.get(name)
        if found is None:
            found = self.inner[name] = _Scope(name, kind)
            self.entries.append(found)
        return found


def find_scopes(graph: Graph, nodes: Sequence[Node]) -> tuple[list[dict[str, Any]], list[int | None]]:
    """Return the scopes of a graph with its bodies, and the scope index of each of `nodes` (all nodes of the graph).

    A scope has `name`, `kind` and `parent` (an index, absent for a top-level scope), in node order. Constant nodes have
    none.
    """
    root = _Scope("", "module")
    homes: dict[Graph, _Scope] = {graph: root}
    numbers = {node: number for number, node in enumerate(nodes)}
    for inner in walk(graph):
        home = homes[inner]
        parts = _find_scope_rule(inner)
        for node in inner:
            if is_constant(node):
                continue
            place = home
            for name in parts(_scope_owner(node))[:_MAX_SCOPE_DEPTH]:
                place = place.child(name, "module")
            if not node.has_bodies:
                place.entries.append(numbers[node])
                continue
            around = place.child(f"{node.op} {node_label(node)}".rstrip() + f" #{numbers[node]}", "body")
            around.entries.append(numbers[node])
            for name, body in zip(_body_names(node), node.bodies(), strict=True):
                homes[body] = around.child(name, "body")
    _merge_trivial_scopes(root)
    _limit_scopes(root, [_node_signature(node) for node in nodes])
    return _flatten_scopes(root, len(nodes))


def node_label(node: Node) -> str:
    """Return the name of a node, or of its first result."""
    if node.name:
        return node.name
    return next((value.name for value in node.outputs if value is not None), "")


def is_constant(node: Node) -> bool:
    """Whether the node is a constant tensor; exporters store weights as constant nodes."""
    return not node.inputs and len(node.attributes) == 1 and isinstance(next(iter(node.attributes.values())), Storage)


def _scope_owner(node: Node) -> Node:
    """Return the node that determines the scope of `node`: its only consumer if all operands are constant."""
    readers = node.results[0].users if len(node.results) == 1 else []
    if len(readers) != 1 or readers[0].graph is not node.graph or not node.operands:
        return node
    is_fixed = all(v.is_constant or (v.producer is not None and is_constant(v.producer)) for v in node.operands)
    return readers[0] if is_fixed else node


def _body_names(node: Node) -> list[str]:
    names = [name for name, attribute in node.attributes.items() if isinstance(attribute, Graph)]
    count = sum(1 for _ in node.bodies())
    return names if len(names) == count else [f"body {index + 1}" for index in range(count)]


def _find_scope_rule(graph: Graph) -> Callable[[Node], list[str]]:
    """Return the first usable rule that maps nodes of `graph` to scope names."""
    nodes = [node for node in graph if not is_constant(node)]
    for rule, is_trusted in ((_source_scopes, True), (_slash_scopes, False), (_dotted_scopes, False)):
        found = [rule(_scope_owner(node)) for node in nodes]
        some = sum(map(bool, found))
        if some and (is_trusted or (some * 4 >= len(found) and _are_adjacent(found))):
            return rule
    return lambda _: []


def _source_scopes(node: Node) -> list[str]:
    span = node.origin
    return [] if span is None or not span.scope else [part for part in span.scope.split("/") if part]


def _slash_scopes(node: Node) -> list[str]:
    parts = [part for part in node_label(node).partition(";")[0].split("/") if part]
    return parts[:-1]


def _dotted_scopes(node: Node) -> list[str]:
    return [part for part in node_label(node).split(".")[:-1] if part]


def _are_adjacent(found: Sequence[list[str]]) -> bool:
    """Whether nodes of one part follow each other, and there are fewer parts than nodes."""
    keys = [tuple(parts) for parts in found]
    runs = 1 + sum(a != b for a, b in pairwise(keys))
    distinct = len(set(keys))
    return runs <= _MAX_INTERRUPTIONS * distinct and distinct * 2 <= len(keys) + 2


def _merge_trivial_scopes(root: _Scope) -> None:
    """Merge scopes with a single child scope, and dissolve scopes with a single node."""
    for scope in reversed(list(_walk_scopes(root))):
        kept: list[_Scope | int] = []
        for entry in scope.entries:
            if isinstance(entry, int) or entry.kind == "body" or len(entry.entries) > 1:
                kept.append(entry)
                continue
            for only in entry.entries:
                if isinstance(only, _Scope) and only.kind != "body":
                    only.name = f"{entry.name}/{only.name}"
                kept.append(only)
        scope.entries = kept


def _walk_scopes(root: _Scope) -> Iterator[_Scope]:
    pending = [root]
    while pending:
        scope = pending.pop()
        yield scope
        pending += [entry for entry in scope.entries if isinstance(entry, _Scope)]


def _node_signature(node: Node) -> str:
    return f"{node.op}/{len(node.inputs)}"


def _limit_scopes(root: _Scope, tokens: Sequence[str]) -> None:
    for scope in _walk_scopes(root):
        if len(scope.entries) > MAX_ENTRIES:
            scope.entries = _limit_entries(scope.entries, tokens)


def _limit_entries(entries: list[_Scope | int], tokens: Sequence[str]) -> list[_Scope | int]:
    """Reduce to at most `MOST` entries: repeated blocks first, then segments."""
    stated = [tokens[e] if isinstance(e, int) else "scope " + _NUMBER.sub("#", e.name) for e in entries]
    start, period, count = _find_repetition(stated)
    if count:
        blocks = [
            _Scope(f"block {i + 1}", "block", entries[start + i * period : start + (i + 1) * period])
            for i in range(count)
        ]
        entries = [*entries[:start], *blocks, *entries[start + count * period :]]
    while len(entries) > MAX_ENTRIES:
        entries = list(_split_segments(entries))
    return entries


def _split_segments(entries: list[_Scope | int]) -> Iterator[_Scope | int]:
    for begin in range(0, len(entries), _SEGMENT_LENGTH):
        some = entries[begin : begin + _SEGMENT_LENGTH]
        if len(some) == 1:
            yield some[0]
        else:
            yield _Scope(_segment_name(some), "piece", some)


def _segment_name(entries: Sequence[_Scope | int]) -> str:
    return f"nodes {_end_index(entries[0], 0) + 1} to {_end_index(entries[-1], -1) + 1}"


def _end_index(entry: _Scope | int, index: int) -> int:
    while isinstance(entry, _Scope):
        entry = entry.entries[index]
    return entry


def _find_repetition(stated: Sequence[str]) -> tuple[int, int, int]:
    """Find the best run of repeated blocks and return (first index, block length, number of blocks)."""
    words = {op_type: number for number, op_type in enumerate(dict.fromkeys(stated))}
    text = np.array([words[op_type] for op_type in stated])
    best, covered = (0, 0, 0), len(stated) // 2
    for period in range(_MIN_BLOCK_LENGTH, min(_MAX_BLOCK_LENGTH, len(stated) // 2) + 1):
        begin, length = _longest_run(text[:-period] == text[period:])
        count = (length + period) // period if length >= period else 0
        # A longer block must cover more: two consecutive blocks repeat as well as one.
        if count * period > covered * 1.02:
            best, covered = (begin, period, count), count * period
    return best


def _longest_run(holds: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return index and length of the longest run of `True`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    if not edges.size:
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[2 * longest]), int(lengths[longest])


def _flatten_scopes(root: _Scope, count: int) -> tuple[list[dict[str, Any]], list[int | None]]:
    found: list[dict[str, Any]] = []
    positions: list[int | None] = [None] * count
    pending: list[tuple[_Scope, int | None]] = [(root, None)]
    while pending:
        scope, number = pending.pop()
        inner: list[tuple[_Scope, int | None]] = []
        for entry in scope.entries:
            if isinstance(entry, int):
                positions[entry] = number
                continue
            inner.append((entry, len(found)))
            around = {} if number is None else {"parent": number}
            found.append({"name": entry.name, "kind": entry.kind, **around})
        pending += reversed(inner)
    return found, positions
