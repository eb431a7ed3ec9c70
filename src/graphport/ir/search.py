"""Patterns along edges: paths from a start over relays to an end, the nodes on them, activations, and small subgraphs.

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

                                  matches(graph, ["Conv", "Relu", "Add"], [(0, 1), (0, 2)])
                                  → [(Conv %a, Relu %b, Add %d)]

Everything comes in the same order every time: starts as they stand in the graph, neighbours as they read or are read.
A search takes time in proportion to the graph and to what it returns. There may be exponentially many paths; whether
there is one, and which nodes are on any, is told without following each. A search for subgraphs looks at neighbours
alone, leaves out first what cannot be part of any, and gives up with an error rather than without all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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
"""Most paths or subgraphs that are returned where nothing else is asked for."""

MOST_TRIED = 1_000_000
"""Nodes that a search for subgraphs tries in a place before it gives up."""


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


def matches(
    graph: Graph,
    pattern: Sequence[Condition],
    edges: Sequence[tuple[int, int]],
    *,
    is_closed: bool = False,
    limit: int = LIMIT,
) -> list[Path]:
    """Subgraphs of different nodes that meet `pattern`, at most `limit` of them, each in the order of the pattern.

    Args:
        graph: in order (`verify` accepts it).
        pattern: what stands in each place.
        edges: pairs of places; the second reads a result of the first. They hang together and come from place 0.
        is_closed: whether nobody but the match reads its results, save those of the last place: whoever fuses it into
            one node may then remove the others.
        limit: the search stops after so many.

    Raises:
        ValueError: an edge is between no two places, a place hangs together with no other, or more than `MOST_TRIED`
            nodes were tried.
    """
    steps = _steps(len(pattern), edges)
    fitting = _fitting(graph, pattern, edges)
    found: list[Path] = []
    for match in _extended(graph, steps, fitting):
        if len(found) >= limit:
            break
        if not is_closed or _is_closed(graph, match):
            found.append(match)
    return found


class _Step(NamedTuple):
    """How the node for a place is found: beside the node of a place before it; and where else it must stand."""

    place: int
    anchor: int
    is_reader: bool
    checks: tuple[tuple[int, int], ...]


def _steps(count: int, edges: Sequence[tuple[int, int]]) -> list[_Step]:
    """The places other than 0 in an order in which each is beside one before it."""
    if not count or any(not (0 <= a < count and 0 <= b < count) or a == b for a, b in edges):
        message = f"edges {list(edges)} are between no two of {count} places"
        raise ValueError(message)
    steps: list[_Step] = []
    known = {0}
    while len(known) < count:
        edge = next((edge for edge in edges if (edge[0] in known) != (edge[1] in known)), None)
        if edge is None:
            message = f"place {min(set(range(count)) - known)} hangs together with none before it"
            raise ValueError(message)
        is_reader = edge[0] in known
        anchor, place = edge if is_reader else (edge[1], edge[0])
        known.add(place)
        checks = tuple(each for each in edges if each != edge and place in each and known.issuperset(each))
        steps.append(_Step(place, anchor, is_reader, checks))
    return steps


def _fitting(graph: Graph, pattern: Sequence[Condition], edges: Sequence[tuple[int, int]]) -> list[dict[Node, None]]:
    """For each place the nodes that meet it and have for each edge a neighbour that does, in the order of the graph."""
    fitting = [dict.fromkeys(filter(_predicate(condition), graph)) for condition in pattern]
    for _ in pattern:
        before = sum(map(len, fitting))
        for a, b in edges:
            fitting[a] = {node: None for node in fitting[a] if any(n in fitting[b] for n in _readers(graph, node))}
            fitting[b] = {node: None for node in fitting[b] if any(n in fitting[a] for n in _producers(graph, node))}
        if sum(map(len, fitting)) == before:
            break
    return fitting


def _extended(graph: Graph, steps: list[_Step], fitting: list[dict[Node, None]]) -> Iterator[Path]:
    """Every way to put different nodes in all places."""
    tried = 0
    for first in fitting[0]:
        placed = {0: first}
        pending: list[Iterator[Node]] = []
        while True:
            if len(placed) == len(fitting):
                yield tuple(placed[place] for place in range(len(fitting)))
            else:
                pending.append(_candidates(graph, steps[len(placed) - 1], placed, fitting))
            while pending:
                node = next(pending[-1], None)
                placed.pop(steps[len(pending) - 1].place, None)
                if node is not None:
                    break
                pending.pop()
            else:
                break
            tried += 1
            if tried > MOST_TRIED:
                message = f"more than {MOST_TRIED} nodes were tried; the pattern is too loose for this graph"
                raise ValueError(message)
            placed[steps[len(pending) - 1].place] = node


def _candidates(graph: Graph, step: _Step, placed: dict[int, Node], fitting: list[dict[Node, None]]) -> Iterator[Node]:
    anchor, taken = placed[step.anchor], set(placed.values())
    beside = _readers(graph, anchor) if step.is_reader else _producers(graph, anchor)
    for node in beside:
        if node not in fitting[step.place] or node in taken:
            continue
        nodes = {**placed, step.place: node}
        if all(nodes[b] in _readers(graph, nodes[a]) for a, b in step.checks):
            yield node


def _is_closed(graph: Graph, match: Path) -> bool:
    """Whether all that reads results of a match is in it, those of its last node aside."""
    inside = set(match)
    inner = [value for node in match[:-1] for value in node.results]
    return not any(value.is_output for value in inner) and all(
        reader in inside for node in match[:-1] for reader in _readers(graph, node)
    )


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
