"""Search for paths, activations and small subgraphs.

A condition is a predicate on nodes, an op type, or a collection of op types (`node.op`). A path has at least two
nodes: a start, any number of relays, and the first end. It goes `down`, from producers to consumers, or `up`; a node
whose bodies use a value counts as a consumer, and bodies are searched separately.

    %a = Conv(%x)
    %b = Relu(%a)                 paths(graph, "Conv", "Conv", relay={"Relu", "Clip"})
    %c = Conv(%b)                 → [(Conv %a, Relu %b, Conv %c)]
    %d = Add(%c, %a)
    %e = Conv(%d)                 paths(graph, "Add", "Conv", direction="up")
                                  → [(Add %d, Conv %c), (Add %d, Conv %a)]

                                  nodes_on_paths(graph, "Conv", lambda n: n.op_type == "Conv", relay=["Add", "Relu"])
                                  → [Conv %a, Relu %b, Conv %c, Add %d, Conv %e]

                                  activations(graph, {"Conv"}, {"Relu", "Clip"})
                                  → {Conv %a: [Relu %b]}

                                  matches(graph, ["Conv", "Relu", "Add"], [(0, 1), (0, 2)])
                                  → [(Conv %a, Relu %b, Add %d)]

The order of results is deterministic: starts in graph order, neighbours in operand or use order. The time is linear in
the graph and in the result. There may be exponentially many paths; the existence of one, and the nodes on any, are
computed without enumeration. The subgraph search visits neighbours only, first discards nodes that cannot match, and
raises an error if it would have to truncate the result.
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

DEFAULT_LIMIT = 10_000
"""Default limit of returned paths or subgraphs."""

MAX_TRIED = 1_000_000
"""Nodes that a search for subgraphs tries in a place before it gives up."""


def paths(
    graph: Graph,
    start: Condition,
    end: Condition,
    *,
    relay: Condition = (),
    step: Step | None = None,
    direction: Direction = "down",
    limit: int = DEFAULT_LIMIT,
) -> list[Path]:
    """Return paths from a start over relays to the first end, at most `limit`.

    Args:
        graph: a sorted graph (`verify` accepts it).
        start: condition on the first node.
        end: condition on the last node; an end is never a relay.
        relay: condition on the nodes between; none by default.
        step: whether a path may continue from a node to the next relay.
        direction: `down` to consumers or `up` to producers; the start is the first node either way.
        limit: the search stops after this number; request one more than needed to detect a truncation.
    """
    ways = _find_routes(graph, start, end, relay, step, direction)
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
    return bool(_find_routes(graph, start, end, relay, step, direction).starts)


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
    ways = _find_routes(graph, start, end, relay, step, direction)
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
    """Return, for each start, the ends that use its results directly; starts without any are omitted."""
    ways = _find_routes(graph, start, end, (), None, "down")
    return {node: ways.nexts[node] for node in ways.starts}


def matches(
    graph: Graph,
    pattern: Sequence[Condition],
    edges: Sequence[tuple[int, int]],
    *,
    is_closed: bool = False,
    limit: int = DEFAULT_LIMIT,
) -> list[Path]:
    """Return subgraphs of distinct nodes that match `pattern`, at most `limit`, in the order of the pattern.

    Args:
        graph: a sorted graph (`verify` accepts it).
        pattern: one condition per pattern node.
        edges: pairs of pattern indices; the second node uses a result of the first. All are connected to index 0.
        is_closed: whether results of all but the last node have no consumers outside the match, so that a fusion may
            remove them.
        limit: the search stops after this number.

    Raises:
        ValueError: an edge has an index out of range, the pattern is not connected, or more than `MOST_TRIED` nodes
            were
            tried.
    """
    steps = _steps(len(pattern), edges)
    fitting = _filter_candidates(graph, pattern, edges)
    found: list[Path] = []
    for match in _extend_match(graph, steps, fitting):
        if len(found) >= limit:
            break
        if not is_closed or _is_closed(graph, match):
            found.append(match)
    return found


class _Step(NamedTuple):
    """How a pattern node is found: as neighbour of an earlier one; and its other edges."""

    place: int
    anchor: int
    is_reader: bool
    checks: tuple[tuple[int, int], ...]


def _steps(count: int, edges: Sequence[tuple[int, int]]) -> list[_Step]:
    """Return the pattern nodes other than 0 in an order in which each is a neighbour of an earlier one."""
    if not count or any(not (0 <= a < count and 0 <= b < count) or a == b for a, b in edges):
        message = f"edges {list(edges)} do not connect {count} pattern nodes"
        raise ValueError(message)
    steps: list[_Step] = []
    known = {0}
    while len(known) < count:
        edge = next((edge for edge in edges if (edge[0] in known) != (edge[1] in known)), None)
        if edge is None:
            message = f"pattern node {min(set(range(count)) - known)} is not connected to an earlier one"
            raise ValueError(message)
        is_reader = edge[0] in known
        anchor, place = edge if is_reader else (edge[1], edge[0])
        known.add(place)
        checks = tuple(each for each in edges if each != edge and place in each and known.issuperset(each))
        steps.append(_Step(place, anchor, is_reader, checks))
    return steps


def _filter_candidates(
    graph: Graph, pattern: Sequence[Condition], edges: Sequence[tuple[int, int]]
) -> list[dict[Node, None]]:
    """Return, per pattern node, the nodes that match it and have a matching neighbour for each edge, in graph order."""
    fitting = [dict.fromkeys(filter(_predicate(condition), graph)) for condition in pattern]
    for _ in pattern:
        before = sum(map(len, fitting))
        for a, b in edges:
            fitting[a] = {node: None for node in fitting[a] if any(n in fitting[b] for n in _readers(graph, node))}
            fitting[b] = {node: None for node in fitting[b] if any(n in fitting[a] for n in _producers(graph, node))}
        if sum(map(len, fitting)) == before:
            break
    return fitting


def _extend_match(graph: Graph, steps: list[_Step], fitting: list[dict[Node, None]]) -> Iterator[Path]:
    """Yield each assignment of distinct nodes to the pattern."""
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
            if tried > MAX_TRIED:
                message = f"more than {MAX_TRIED} nodes were tried; the pattern is too loose for this graph"
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
    """Whether all uses of results of a match, except those of the last node, are in the match."""
    inside = set(match)
    inner = [value for node in match[:-1] for value in node.results]
    return not any(value.is_output for value in inner) and all(
        reader in inside for node in match[:-1] for reader in _readers(graph, node)
    )


class _RouteTable(NamedTuple):
    """The states that can reach an end."""

    starts: list[Node]
    nexts: dict[Node, list[Node]]
    ends: set[Node]


def _find_routes(
    graph: Graph, start: Condition, end: Condition | None, relay: Condition, step: Step | None, direction: Direction
) -> _RouteTable:
    is_start, is_end, is_relay = _predicate(start), _memoize(end or ()), _memoize(relay)
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
        return _RouteTable(starts, nexts, ends)
    leading = _leading(nexts, ends)
    kept = {node: [other for other in nexts[node] if other in ends or other in leading] for node in leading}
    return _RouteTable([node for node in starts if node in leading], kept, ends)


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


def _walk(start: Node, ways: _RouteTable) -> Iterator[Path]:
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


def _memoize(condition: Condition) -> Callable[[Node], bool]:
    """Memoize a condition per node, because a node is visited once per edge."""
    asked = _predicate(condition)
    answers: dict[Node, bool] = {}

    def answer(node: Node) -> bool:
        if node not in answers:
            answers[node] = asked(node)
        return answers[node]

    return answer


def _readers(graph: Graph, node: Node) -> list[Node]:
    users = dict.fromkeys(use.user for value in node.results for use in value.uses)
    holders = [_enclosing_node(graph, user) for user in users]
    return list(dict.fromkeys(holder for holder in holders if holder is not None))


def _enclosing_node(graph: Graph, user: Node | Graph) -> Node | None:
    """Return the node of `graph` that is `user` or contains it in a body."""
    node = user.parent if isinstance(user, Graph) else user
    while node is not None and node.graph is not graph:
        node = None if node.graph is None else node.graph.parent
    return node


def _producers(graph: Graph, node: Node) -> list[Node]:
    found = dict.fromkeys(value.producer for value in [*node.operands, *captured(node)])
    return [producer for producer in found if producer is not None and producer.graph is graph]
