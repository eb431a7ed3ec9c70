"""The parts of a graph that a run may or may not reach: branches, bodies, limits, sides of choices, rows of tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ir.graph import walk
from graphport.proof.coverage.record import Coverage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphport.ir.graph import Graph, Node, Value

    Reaches = Callable[[Sequence[Any], Sequence[Any]], bool]

MANY = 3
"""Iterations from which a loop counts as run several times."""


MAX_NODES = 4
"""Maximum number of canonical nodes of a file's operator; choices in larger ones belong to its import rule."""


class Wish(NamedTuple):
    """A condition under which a part of the graph is executed: `value` above (1), below (-1) or equal to (0) `bound`.

    If `bound` is an array, all of its elements must occur in the value.
    """

    value: Value
    sign: int
    bound: Any = 0


class CoveragePoint(NamedTuple):
    """One part of a graph."""

    phrase: str
    reaches: Reaches | None
    """Whether operands and results of one run of the node reach it; `None` where iterations or rows are counted."""
    wish: Wish | None = None

    @property
    def is_structural(self) -> bool:
        """Whether the part is a branch, a body, a side of Where or a table."""
        return self.phrase.partition("'")[0].strip().rpartition(" ")[2] in _STRUCTURAL


_STRUCTURAL = frozenset({"If", "Loop", "Scan", "Where", "of"})
"""The words in front of the name in phrases of such parts; `of` is that of tables."""
_NOT_NEGATIVE = frozenset({"MaxPool", "ArgMax", "ArgMin", "TopK", "Shape", "Size", "NonZero", "Abs"})
"""Operators of which an integer result is not negative."""
_COMPARISONS = {"Less": -1, "LessOrEqual": -1, "Greater": 1, "GreaterOrEqual": 1, "Equal": 0}
"""Sign of the operand difference for which a comparison is true."""


class CoveragePoints(NamedTuple):
    """The parts of a graph by node, and the phrases of parts that do not count."""

    of: dict[Node, list[CoveragePoint]]
    uncounted: frozenset[str]


def coverage_points(graph: Graph, uncounted: frozenset[str] = frozenset()) -> CoveragePoints:
    """Return the parts of a canonical graph and its bodies, without choices that are equal in every run.

    Choices inside an operator that an import rule expands to many nodes do not count: they are an implementation
    detail.

    Args:
        graph: canonical.
        uncounted: phrases of parts that do not count in the graph that this one was written from.
    """
    fixed = _fixed_values(graph)
    found: dict[Node, list[CoveragePoint]] = {}
    for inner in walk(graph):
        for node in inner:
            parts = [part for part in _points_of_node(node, fixed) if part.phrase not in uncounted]
            if parts:
                found[node] = parts
    nodes = [node for inner in walk(graph) for node in inner]
    counts = Counter(origin for node in nodes if (origin := node.origin) is not None)
    left_out = {node for node in found if (origin := node.origin) is not None and counts[origin] > MAX_NODES}
    phrases = {part.phrase for node in left_out for part in found[node]}
    return CoveragePoints({node: parts for node, parts in found.items() if node not in left_out}, uncounted | phrases)


def name_of(node: Node) -> str:
    """Format operator and name of a node for phrases, for example `Clip 'act'`."""
    result = next(iter(node.results), None)
    name = node.name or ("" if result is None else result.name)
    return f"{node.op} '{name}'"


def _fixed_values(graph: Graph) -> set[Value]:
    """Return the values that are equal in every run."""
    fixed: set[Value] = set()
    for inner in walk(graph):
        fixed.update(inner.constants)
        for node in inner:
            is_fixed = not node.has_bodies and all(operand in fixed for operand in node.operands)
            fixed.update(value for value in node.results if is_fixed or _has_known_elements(value))
    return fixed


def _has_known_elements(value: Value) -> bool:
    elements = value.fact.elements if isinstance(value.fact, TensorFact) else None
    return elements is not None and all(isinstance(element, int) for element in elements)


def _points_of_node(node: Node, fixed: set[Value]) -> Iterator[CoveragePoint]:
    operands = node.inputs
    condition = operands[0] if operands else None
    match node.op:
        case "If" if condition not in fixed and condition is not None:
            yield CoveragePoint(f"then branch of {name_of(node)}", _is_somewhere(is_true=True), Wish(condition, 1))
            yield CoveragePoint(f"else branch of {name_of(node)}", _is_somewhere(is_true=False), Wish(condition, -1))
        case "Where" if condition not in fixed and condition is not None and operands[1] is not operands[2]:
            yield CoveragePoint(f"true side of {name_of(node)}", _is_somewhere(is_true=True), Wish(condition, 1))
            yield CoveragePoint(f"false side of {name_of(node)}", _is_somewhere(is_true=False), Wish(condition, -1))
        case "Loop" | "Scan":
            yield from _parts_of_loop(node, fixed)
        case "Clip" | "Max" | "Min" | "HardSigmoid" | "HardSwish":
            yield from _limits(node, fixed)
        case "Mod":
            yield from _signs(node, fixed)
        case "Gather" | "GatherElements" | "GatherND":
            yield from _rows(node, fixed)
        case "IsNaN" | "IsInf" if condition not in fixed and condition is not None:
            number = np.nan if node.op == "IsNaN" else np.inf
            yield CoveragePoint(
                f"true result of {name_of(node)}", _results_in(is_true=True), Wish(condition, 0, number)
            )
        case op if op in _COMPARISONS:
            yield from _results_of_comparison(node, fixed)
        case _:
            pass


def _has(array: Any, *, is_true: bool) -> bool:
    """Whether an element of a boolean array equals `is_true`."""
    found = np.asarray(array, np.bool_)
    return bool(np.any(found if is_true else ~found))


def _is_somewhere(*, is_true: bool) -> Reaches:
    """Return a predicate: an element of operand 0 (a condition) equals `is_true`."""
    return lambda operands, _: _has(operands[0], is_true=is_true)


def _results_in(*, is_true: bool) -> Reaches:
    return lambda _, results: _has(results[0], is_true=is_true)


def _is_below(bound: float) -> Reaches:
    """Return a predicate: an element of operand 0 is below a number, or below the operand at index `bound`."""
    return lambda operands, _: _has(operands[0] < _bound(operands, bound), is_true=True)


def _is_above(bound: float) -> Reaches:
    return lambda operands, _: _has(operands[0] > _bound(operands, bound), is_true=True)


def _bound(operands: Sequence[Any], bound: float) -> Any:
    return operands[bound] if isinstance(bound, int) else bound


def _parts_of_loop(node: Node, fixed: set[Value]) -> Iterator[CoveragePoint]:
    name = name_of(node)
    yield CoveragePoint(f"body of {name}", None)
    trip = node.operand(0) if node.op == "Loop" else None
    if node.op == "Loop" and trip is not None and trip not in fixed:
        least = 1 if _is_dim(trip) else 0
        for count in range(least, MANY):
            noun = "iteration" if count == 1 else "iterations"
            yield CoveragePoint(f"{count} {noun} of {name}", None, Wish(trip, 0, count))
        yield CoveragePoint(f"several iterations of {name}", None, Wish(trip, 1, MANY))


def _is_dim(value: Value) -> bool:
    fact = value.fact
    return isinstance(fact, TensorFact) and bool(fact.elements)


def _limits(node: Node, fixed: set[Value]) -> Iterator[CoveragePoint]:
    x, name = node.operand(0), name_of(node)
    if x is None:
        return
    match node.op:
        case "Clip" if x not in fixed:
            low, high = node.operand(1), node.operand(2)
            if low is not None:
                yield CoveragePoint(f"lower limit of {name}", _is_below(1), Wish(x, -1, low))
            if high is not None:
                yield CoveragePoint(f"upper limit of {name}", _is_above(2), Wish(x, 1, high))
        case "Max" | "Min" if len(node.inputs) == 2:
            yield from _choices(node, fixed)
        case "HardSigmoid" | "HardSwish" if x not in fixed:
            slope, offset = 1 / 6, 0.5
            if node.op == "HardSigmoid":
                slope, offset = _float_attribute(node, "alpha", 0.2), _float_attribute(node, "beta", 0.5)
            if slope:
                low, high = -offset / slope, (1 - offset) / slope
                yield CoveragePoint(f"lower limit of {name}", _is_below(low), Wish(x, -1, low))
                yield CoveragePoint(f"upper limit of {name}", _is_above(high), Wish(x, 1, high))
        case _:
            pass


def _float_attribute(node: Node, name: str, default: float) -> float:
    found = node.attributes.get(name, default)
    return float(found) if isinstance(found, (int, float)) else default


def _choices(node: Node, fixed: set[Value]) -> Iterator[CoveragePoint]:
    """Yield a part for each of the two operands of Max or Min: it is selected for an element."""
    x, y = node.operands[0], node.operands[1]
    if all(value in fixed for value in (x, y, *node.results)):
        return
    sign = 1 if node.op == "Max" else -1
    for position, (one, two) in enumerate(((x, y), (y, x))):
        wish = Wish(one, sign, two) if one not in fixed else Wish(two, -sign, one)
        yield CoveragePoint(f"operand {position} of {name_of(node)}", _selects_operand(position, sign), wish)


def _selects_operand(position: int, sign: int) -> Reaches:
    def is_selected(operands: Sequence[Any], _: Sequence[Any]) -> bool:
        one, two = operands[position], operands[1 - position]
        return _has(one > two if sign > 0 else one < two, is_true=True)

    return is_selected


def _signs(node: Node, fixed: set[Value]) -> Iterator[CoveragePoint]:
    x = node.operands[0]
    if x in fixed or (x.dtype is not None and x.dtype.kind == "u") or _is_dim(x):
        return
    if x.producer is None or x.producer.op not in _NOT_NEGATIVE:
        yield CoveragePoint(f"negative dividend of {name_of(node)}", _is_below(0.0), Wish(x, -1, 0))
    yield CoveragePoint(f"positive dividend of {name_of(node)}", _is_above(0.0), Wish(x, 1, 0))


def _rows(node: Node, fixed: set[Value]) -> Iterator[CoveragePoint]:
    """Yield the part that covers all rows of a constant table of Gather."""
    table, indices = node.operands[0], node.operands[1]
    if table.storage is not None and indices not in fixed and _length_of_table(node) > 1:
        every = np.arange(_length_of_table(node))
        yield CoveragePoint(f"rows of '{table.name}'", None, Wish(indices, 0, every))


def _length_of_table(node: Node) -> int:
    storage = node.operands[0].storage
    axis = node.attributes.get("axis", 0)
    if storage is None or node.op != "Gather" or not storage.shape or not isinstance(axis, int):
        return 0
    return storage.shape[axis]


def _results_of_comparison(node: Node, fixed: set[Value]) -> Iterator[CoveragePoint]:
    """Yield the parts true and false of a comparison; none if its result is the condition of another operator."""
    x, y = node.operands[0], node.operands[1]
    if _decides(node) or (x in fixed and y in fixed) or node.output in fixed:
        return
    sign = _COMPARISONS[node.op]
    one, two = (x, y) if x not in fixed else (y, x)
    sign = sign if one is x else -sign
    yield CoveragePoint(f"true result of {name_of(node)}", _results_in(is_true=True), Wish(one, sign, two))
    opposite = Wish(one, -sign if sign else 1, two)
    yield CoveragePoint(f"false result of {name_of(node)}", _results_in(is_true=False), opposite)


def _decides(node: Node) -> bool:
    users = node.output.users
    return bool(users) and all(user.op in {"Where", "If"} and user.operand(0) is node.output for user in users)


@dataclass(eq=False)
class CoverageRecorder:
    """Record the parts of a graph that runs have reached; the reference interpreter calls `observe` and `watch`."""

    parts: Mapping[Node, list[CoveragePoint]]
    reached: set[str] = field(default_factory=set[str])
    iterations: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    rows: dict[str, Any] = field(default_factory=dict[str, Any])
    _bodies: Counter[Node] = field(default_factory=Counter["Node"])

    def observe(self, body: Graph, _: Sequence[Any]) -> None:
        """Count an iteration of a body."""
        if body.parent is not None:
            self._bodies[body.parent] += 1

    def watch(self, node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Record the parts that one run of a node reaches."""
        for phrase, reaches, *_ in self.parts.get(node, ()):
            if reaches is None or phrase in self.reached:
                continue
            with np.errstate(all="ignore"):
                if reaches(operands, results):
                    self.reached.add(phrase)
        if node in self.parts and node.op in {"Loop", "Scan"}:
            self._count(node)
        elif node in self.parts and node.op == "Gather":
            self._mark_rows(node, operands)

    def copy(self) -> tuple[set[str], dict[str, set[int]], dict[str, Any]]:
        """Return a copy of the record, for `restore`."""
        iterations = {phrase: set(counts) for phrase, counts in self.iterations.items()}
        return set(self.reached), iterations, {phrase: seen.copy() for phrase, seen in self.rows.items()}

    def restore(self, state: tuple[set[str], dict[str, set[int]], dict[str, Any]]) -> None:
        """Restore the record of `copy`, so that later runs do not count."""
        self.reached, self.iterations, self.rows = state
        self._bodies.clear()

    def _count(self, node: Node) -> None:
        count, name = self._bodies.pop(node, 0), name_of(node)
        self.iterations.setdefault(f"body of {name}", set()).add(count)
        if count:
            self.reached.add(f"body of {name}")
        noun = "iteration" if count == 1 else "iterations"
        self.reached.add(f"{count if count < MANY else 'several'} {noun} of {name}")

    def _mark_rows(self, node: Node, operands: Sequence[Any]) -> None:
        phrase = f"rows of '{node.operands[0].name}'"
        if phrase in self.reached:
            return
        seen = self.rows.setdefault(phrase, np.zeros(_length_of_table(node), np.bool_))
        seen[np.asarray(operands[1]).reshape(-1)] = True
        if seen.all():
            self.reached.add(phrase)

    @property
    def missing(self) -> dict[str, CoveragePoint]:
        """Return the parts that no run has reached, in graph order."""
        every = {part.phrase: part for parts in self.parts.values() for part in parts}
        return {phrase: part for phrase, part in every.items() if phrase not in self.reached}

    @property
    def state(self) -> tuple[int, int]:
        """A measure that grows whenever a run reaches something new."""
        return len(self.reached), sum(int(np.sum(seen)) for seen in self.rows.values())

    def coverage(self, *, is_written: bool = False) -> Coverage:
        """Return the coverage.

        Args:
            is_written: whether it is the graph of the written file, whose limits and comparisons may be details of
                an export
                rule: then only control flow, choices by a condition and tables are reported.
        """
        known = {part.phrase for parts in self.parts.values() for part in parts}
        branches = frozenset(phrase for phrase in self.reached & known if not phrase.startswith("body of "))
        counts = {phrase: frozenset(found) for phrase, found in self.iterations.items()}
        never = [part for part in self.missing.values() if not is_written or part.is_structural]
        return Coverage(branches, counts, never=tuple(part.phrase for part in never))
