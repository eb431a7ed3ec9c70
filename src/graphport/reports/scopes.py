"""How a graph is folded: the parts of the network that its nodes belong to.

Where the source has told parts (modules, fragments), they are the scopes. Else names do that have parts, if the nodes
of a part stand together; a node with bodies is a scope around them. What is left long is folded by blocks that repeat,
and after that into pieces, so that no scope has more than `MOST` entries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphport.core.storage import Storage
from graphport.formats.onnx.notes import KEY, NodeNotes
from graphport.ir.graph import Graph, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphport.ir.graph import Node

MOST = 100
"""Entries of a scope."""
_PIECE = 50
_LEAST_BLOCK = 4
_LONGEST_BLOCK = 400
_DEEPEST = 24
_SCATTERED = 3.0
"""How often the nodes of a part may be interrupted by others, on the average."""
_NAME_SCOPES = "pkg.torch.onnx.name_scopes"
_QUOTED = re.compile(r"'([^']*)'")
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


def scopes(graph: Graph, nodes: Sequence[Node]) -> tuple[list[dict[str, Any]], list[int | None]]:
    """The scopes of a graph with its bodies, and for each of `nodes`, which are all of it, the number of its own.

    A scope is `name`, `kind` and `parent` (a number, or not there for the outermost), in the order of their nodes.
    Constants that are nodes have none.
    """
    root = _Scope("", "module")
    homes: dict[Graph, _Scope] = {graph: root}
    numbers = {node: number for number, node in enumerate(nodes)}
    for inner in walk(graph):
        home = homes[inner]
        parts = _parts(inner)
        for node in inner:
            if is_constant(node):
                continue
            place = home
            for name in parts(_standing_in(node))[:_DEEPEST]:
                place = place.child(name, "module")
            if not node.has_bodies:
                place.entries.append(numbers[node])
                continue
            around = place.child(f"{node.op} {label(node)}".rstrip() + f" #{numbers[node]}", "body")
            around.entries.append(numbers[node])
            for name, body in zip(_body_names(node), node.bodies(), strict=True):
                homes[body] = around.child(name, "body")
    _tidy(root)
    _fold(root, [_token(node) for node in nodes])
    return _numbered(root, len(nodes))


def label(node: Node) -> str:
    """What a node is called: its own name, or that of its first result."""
    if node.name:
        return node.name
    return next((value.name for value in node.outputs if value is not None), "")


def is_constant(node: Node) -> bool:
    """Whether it is a tensor and no computation: exporters write weights so, too."""
    return not node.inputs and len(node.attributes) == 1 and isinstance(next(iter(node.attributes.values())), Storage)


def _standing_in(node: Node) -> Node:
    """Who says where `node` belongs: its only reader, if it computes from constants alone."""
    readers = node.results[0].users if len(node.results) == 1 else []
    if len(readers) != 1 or readers[0].graph is not node.graph or not node.operands:
        return node
    is_fixed = all(v.is_constant or (v.producer is not None and is_constant(v.producer)) for v in node.operands)
    return readers[0] if is_fixed else node


def _body_names(node: Node) -> list[str]:
    names = [name for name, attribute in node.attributes.items() if isinstance(attribute, Graph)]
    count = sum(1 for _ in node.bodies())
    return names if len(names) == count else [f"body {index + 1}" for index in range(count)]


def _parts(graph: Graph) -> Callable[[Node], list[str]]:
    """The function that tells the parts of a node of `graph`: the first one that tells some that stand together."""
    nodes = [node for node in graph if not is_constant(node)]
    for rule, is_trusted in ((_scope_parts, True), (_exported, True), (_slashes, False), (_dots, False)):
        found = [rule(_standing_in(node)) for node in nodes]
        some = sum(map(bool, found))
        if some and (is_trusted or (some * 4 >= len(found) and _stand_together(found))):
            return rule
    return lambda _: []


def _scope_parts(node: Node) -> list[str]:
    span = node.origin
    return [] if span is None or not span.scope else [part for part in span.scope.split("/") if part]


def _exported(node: Node) -> list[str]:
    """What PyTorch's exporter to ONNX notes: the full names of all modules around a node, and its own."""
    notes = node.notes.get(KEY) if node.has_notes else None
    if not isinstance(notes, NodeNotes):
        return []
    names: list[str] = _QUOTED.findall(dict(notes.metadata).get(_NAME_SCOPES, ""))
    found: list[str] = []
    before = ""
    for name in names[:-1]:
        if name:
            found.append(name.removeprefix(f"{before}.") if before else name)
            before = name
    return found


def _slashes(node: Node) -> list[str]:
    parts = [part for part in label(node).partition(";")[0].split("/") if part]
    return parts[:-1]


def _dots(node: Node) -> list[str]:
    return [part for part in label(node).split(".")[:-1] if part]


def _stand_together(found: Sequence[list[str]]) -> bool:
    """Whether nodes of one part follow each other, and there are fewer parts than nodes."""
    keys = [tuple(parts) for parts in found]
    runs = 1 + sum(a != b for a, b in pairwise(keys))
    distinct = len(set(keys))
    return runs <= _SCATTERED * distinct and distinct * 2 <= len(keys) + 2


def _tidy(root: _Scope) -> None:
    """Join scopes that hold nothing but one other, and let go of those that hold one node."""
    for scope in reversed(list(_all(root))):
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


def _all(root: _Scope) -> Iterator[_Scope]:
    pending = [root]
    while pending:
        scope = pending.pop()
        yield scope
        pending += [entry for entry in scope.entries if isinstance(entry, _Scope)]


def _token(node: Node) -> str:
    return f"{node.op}/{len(node.inputs)}"


def _fold(root: _Scope, tokens: Sequence[str]) -> None:
    for scope in _all(root):
        if len(scope.entries) > MOST:
            scope.entries = _folded(scope.entries, tokens)


def _folded(entries: list[_Scope | int], tokens: Sequence[str]) -> list[_Scope | int]:
    """At most `MOST` entries: blocks that repeat where most of them do, then pieces of these."""
    stated = [tokens[e] if isinstance(e, int) else "scope " + _NUMBER.sub("#", e.name) for e in entries]
    start, period, count = _repetition(stated)
    if count:
        blocks = [
            _Scope(f"block {i + 1}", "block", entries[start + i * period : start + (i + 1) * period])
            for i in range(count)
        ]
        entries = [*entries[:start], *blocks, *entries[start + count * period :]]
    while len(entries) > MOST:
        entries = list(_pieces(entries))
    return entries


def _pieces(entries: list[_Scope | int]) -> Iterator[_Scope | int]:
    for begin in range(0, len(entries), _PIECE):
        some = entries[begin : begin + _PIECE]
        if len(some) == 1:
            yield some[0]
        else:
            yield _Scope(_span_of(some), "piece", some)


def _span_of(entries: Sequence[_Scope | int]) -> str:
    return f"nodes {_end(entries[0], 0) + 1} to {_end(entries[-1], -1) + 1}"


def _end(entry: _Scope | int, index: int) -> int:
    while isinstance(entry, _Scope):
        entry = entry.entries[index]
    return entry


def _repetition(stated: Sequence[str]) -> tuple[int, int, int]:
    """Where blocks of the same words begin that follow each other, how long they are, and how many there are."""
    words = {word: number for number, word in enumerate(dict.fromkeys(stated))}
    text = np.array([words[word] for word in stated])
    best, covered = (0, 0, 0), len(stated) // 2
    for period in range(_LEAST_BLOCK, min(_LONGEST_BLOCK, len(stated) // 2) + 1):
        begin, length = _longest_run(text[:-period] == text[period:])
        count = (length + period) // period if length >= period else 0
        # A longer block has to be worth it: two blocks in a row repeat as well as one does.
        if count * period > covered * 1.02:
            best, covered = (begin, period, count), count * period
    return best


def _longest_run(holds: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Where the longest run of `True` begins, and how long it is."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    if not edges.size:
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(edges[2 * longest]), int(lengths[longest])


def _numbered(root: _Scope, count: int) -> tuple[list[dict[str, Any]], list[int | None]]:
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
