"""Patterns along edges: paths from a start over relays to an end, the nodes on them, and activations.

A condition is a function of a node, the name of an operator, or a collection of names (`node.op`). A path has at least
two nodes: a start, any number of relays, and the first end that it meets. It goes `down`, from a node to those that
read its results, or `up`, to those that compute its operands; a node whose bodies read a value counts as a reader of
it, and bodies are searched by themselves.

    %a = Conv(%x)
    %b = Relu(%a)                 paths(graph, "Conv", "Conv", relay={"Relu", "Clip"})
    %c = Conv(%b)                 → [(Conv %a, Relu %b, Conv %c)]
    %d = Add(%c, %a)
    %e = Conv(%d)                 paths(graph, "Add", "Conv", direction="up")
                                  → [(Add %d, Conv %c), (Add %d, Conv %a)]

                                  nodes_on_paths(graph, "Conv", lambda node: node.word == "Conv", relay=["Add", "Relu"])
                                  → [Conv %a, Relu %b, Conv %c, Add %d, Conv %e]

                                  activations(graph, {"Conv"}, {"Relu", "Clip"})
                                  → {Conv %a: [Relu %b]}

Everything comes in the same order every time: starts as they stand in the graph, neighbours as they read or are read.
A search takes time in proportion to the graph and to what it returns. There may be exponentially many paths; whether
there is one, and which nodes are on any, is told without following each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from graphport.ir.graph import Graph, Node
from graphport.ir.rewrite import captured

if TYPE_CHECKING:
    from collections.abc import Iterator

Condition: TypeAlias = Callable[[Node], bool] | Collection[str]
"""A function of a node, or names of operators; a single text is one name."""
Step: TypeAlias = Callable[[Node, Node], bool]
"""Whether a path may go on from one node to the next, a relay."""
Direction: TypeAlias = Literal["down", "up"]
Path: TypeAlias = tuple[Node, ...]

LIMIT = 10_000
"""Most paths that are returned where nothing else is asked for."""


def paths(
    graph: Graph,
    start: Condition,
    end: Condition,
    *,
    relay: Condition = (),
    step: Step | None = None,
    direction: Direction = "down",
    limit: int = LIMIT,
) -> list[Path]:
    """Paths from a start over relays to the first end, at most `limit` of them.

    Args:
        graph: in order (`verify` accepts it).
        start: where paths begin.
        end: where they end; what is an end is no relay.
        relay: what may stand between, nothing by default.
        step: whether a path may go from a node to the relay behind it.
        direction: `down` to readers or `up` to producers; the start comes first either way.
        limit: the search stops after so many; ask for one more than you can use to see whether there are more.
    """
    ways = _ways(graph, start, end, relay, step, direction)
    found: list[Path] = []
    for node in ways.starts:
        for path in _walk(node, ways):
            if len(found) >= limit:
                return found
            found.append(path)
    return found


def has_path(
    graph: Graph,
    start: Condition,
    end: Condition,
    *,
    relay: Condition = (),
    step: Step | None = None,
    direction: Direction = "down",
) -> bool:
    """Whether `paths` would find any; in time linear in the graph, however many there are."""
    return bool(_ways(graph, start, end, relay, step, direction).starts)


def nodes_on_paths(
    graph: Graph,
    start: Condition,
    end: Condition | None,
    *,
    relay: Condition = (),
    step: Step | None = None,
    direction: Direction = "down",
) -> list[Node]:
    """Every node on a path that `paths` would find, in the order of the graph; linear, however many paths there are.

    Without an `end`, the starts and every relay that is reached from them.
    """
    ways = _ways(graph, start, end, relay, step, direction)
    passed: set[Node] = set()
    reached: set[Node] = set()
    pending = list(ways.starts)
    while pending:
        node = pending.pop()
        if node in passed:
            continue
        passed.add(node)
        for other in ways.nexts[node]:
            if other in ways.ends:
                reached.add(other)
            else:
                pending.append(other)
    return [node for node in graph if node in passed or node in reached]


def activations(graph: Graph, start: Condition, end: Condition) -> dict[Node, list[Node]]:
    """For each start, the ends that read its results directly; starts without any are left out."""
    ways = _ways(graph, start, end, (), None, "down")
    return {node: ways.nexts[node] for node in ways.starts}


class _Ways(NamedTuple):
    """The steps that lead to an end, and no other."""

    starts: list[Node]
    nexts: dict[Node, list[Node]]
    ends: set[Node]


def _ways(
    graph: Graph, start: Condition, end: Condition | None, relay: Condition, step: Step | None, direction: Direction
) -> _Ways:
    is_start, is_end, is_relay = _predicate(start), _remembered(end or ()), _remembered(relay)
    beside = _readers if direction == "down" else _producers
    starts = [node for node in graph if is_start(node)]
    nexts: dict[Node, list[Node]] = {}
    ends: set[Node] = set()
    pending = list(starts)
    while pending:
        node = pending.pop()
        if node in nexts:
            continue
        nexts[node] = []
        for other in beside(graph, node):
            if is_end(other):
                ends.add(other)
            elif is_relay(other) and (step is None or step(node, other)):
                pending.append(other)
            else:
                continue
            nexts[node].append(other)
    if end is None:
        return _Ways(starts, nexts, ends)
    leading = _leading(nexts, ends)
    kept = {node: [other for other in nexts[node] if other in ends or other in leading] for node in leading}
    return _Ways([node for node in starts if node in leading], kept, ends)


def _leading(nexts: dict[Node, list[Node]], ends: set[Node]) -> set[Node]:
    """The nodes from which an end is reached."""
    before: dict[Node, list[Node]] = {}
    pending: list[Node] = []
    for node, found in nexts.items():
        for other in found:
            if other in ends:
                pending.append(node)
            else:
                before.setdefault(other, []).append(node)
    leading: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in leading:
            leading.add(node)
            pending += before.get(node, ())
    return leading


def _walk(start: Node, ways: _Ways) -> Iterator[Path]:
    path = [start]
    pending = [iter(ways.nexts[start])]
    while pending:
        node = next(pending[-1], None)
        if node is None:
            pending.pop()
            path.pop()
        elif node in ways.ends:
            yield (*path, node)
        else:
            path.append(node)
            pending.append(iter(ways.nexts[node]))


def _predicate(condition: Condition) -> Callable[[Node], bool]:
    if isinstance(condition, str):
        return lambda node: node.op == condition
    if not callable(condition):
        names = frozenset(condition)
        return lambda node: node.op in names
    return condition


def _remembered(condition: Condition) -> Callable[[Node], bool]:
    """The condition, asked once of each node: it is met once on each edge."""
    asked = _predicate(condition)
    answers: dict[Node, bool] = {}

    def answer(node: Node) -> bool:
        if node not in answers:
            answers[node] = asked(node)
        return answers[node]

    return answer


def _readers(graph: Graph, node: Node) -> list[Node]:
    users = dict.fromkeys(use.user for value in node.results for use in value.uses)
    holders = [_holder(graph, user) for user in users]
    return list(dict.fromkeys(holder for holder in holders if holder is not None))


def _holder(graph: Graph, user: Node | Graph) -> Node | None:
    """The node of `graph` that `user` is, or lies in a body of."""
    node = user.parent if isinstance(user, Graph) else user
    while node is not None and node.graph is not graph:
        node = None if node.graph is None else node.graph.parent
    return node


def _producers(graph: Graph, node: Node) -> list[Node]:
    found = dict.fromkeys(value.producer for value in [*node.operands, *captured(node)])
    return [producer for producer in found if producer is not None and producer.graph is graph]
