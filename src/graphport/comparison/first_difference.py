"""The first node of a graph that computes otherwise than another graph, and not for what came before it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.backends import reference
from graphport.comparison.metrics import Difference
from graphport.comparison.pairs import pairs
from graphport.comparison.stream import Pair, Stream, Unanswered, computed, has_floats, is_alike, is_array, values_of
from graphport.core.diagnostics import DiagnosticError
from graphport.core.short_repr import short_repr
from graphport.ir import subgraph
from graphport.ir.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphport.comparison.limits import Limits
    from graphport.ir.graph import Node, Value

SMALL = 3
"""Nodes from which on a part is small enough."""
_MOST_CHECKED = 300
"""Values that are looked at one by one."""
_DEEPEST = 16
_MOST_RUNS = 256
"""Bodies in bodies, and runs of one, that are looked into."""
_MOST_BLAMED = 24
"""Values of which the own difference is measured where none is beyond tolerance."""


@short_repr
@dataclass(frozen=True, eq=False)
class FirstDifference:
    """The first difference between two graphs.

    `a` and `b` are the smallest subgraphs found: on `inputs`, which both take, `value` of `b` differs by `difference`.
    `nodes` are the nodes of the second graph in its subgraph; the last one computes the value. If `is_beyond` is false,
    no single node exceeds the tolerance, and this one contributes most.
    """

    value: Value
    partner: Value
    """The value of the first graph that it should be equal to."""
    nodes: tuple[Node, ...]
    difference: Difference
    a: Graph
    b: Graph
    inputs: dict[str, Any]
    is_beyond: bool = True


class _Cell(NamedTuple):
    """The nodes that compute one value from values that both graphs contain."""

    a: Graph
    b: Graph
    inputs: dict[str, Any]
    nodes: tuple[Node, ...]


@dataclass(eq=False)
class Search:
    """The search for the first wrong node of `b`; `pairs` maps its values to the expected values of `a`."""

    a: Graph
    b: Graph
    pairs: dict[Value, Value]
    given_a: Mapping[str, Any]
    given_b: Mapping[str, Any]
    limits: Limits
    backend_a: str = "auto"
    backend_b: str = "auto"
    random: list[str] = field(default_factory=list[str])
    """Names of values that are other ones in every run."""
    depth: int = 0
    deadline: float | None = None
    """The reading of `time.monotonic` at which it gives up."""
    _checked: int = field(default=0, init=False)
    _moved: dict[Value, bool] = field(default_factory=dict["Value", bool], init=False)
    """Values with equal elements in another shape, and whether their rank differs."""

    def run(self) -> FirstDifference | None:
        """Return the first difference, from inside a body where possible; see `_outside`.

        Raises:
            DiagnosticError: the first graph does not run.
            TimeoutError: it is not found before `deadline`.
        """
        found = self._outside()
        return found if found is None or self.depth >= _DEEPEST else self._inside(found) or found

    def _outside(self) -> FirstDifference | None:
        """Return the first value that exceeds the tolerance when it is computed from the values of the first graph.

        If there is none, return the largest contribution; `None` if all values are equal.

        Raises:
            DiagnosticError: the first graph does not run.
        """
        stream = Stream(
            self.a,
            self.b,
            self.pairs,
            self.given_a,
            self.given_b,
            is_forced=True,
            backend_a=self.backend_a,
            backend_b=self.backend_b,
        )
        noisy: list[tuple[float, Value]] = []
        for step in stream:
            self._hurry()
            if isinstance(step, Unanswered):
                return self._unanswered(step, stream)
            for pair in step:
                found = self._differs(pair)
                if found is None:
                    continue
                if found.passed:
                    noisy.append((np.inf if found.snr_db is None else found.snr_db, pair.b))
                    continue
                wrong = self._examined(pair, stream.known_a)
                if wrong is not None:
                    return wrong
                noisy.append((-np.inf if found.snr_db is None else found.snr_db, pair.b))
        return self._moved_first() or self._loudest(noisy)

    def _inside(self, found: FirstDifference) -> FirstDifference | None:
        """Return the first difference inside the body of a node, in its first differing iteration."""
        first, second = found.a.outputs[0].producer, found.b.outputs[0].producer
        if first is None or second is None or not first.has_bodies:
            return None
        calls: list[tuple[Graph, Sequence[Any]]] = []

        def observe(body: Graph, inputs: Sequence[Any]) -> None:
            calls.append((body, inputs))

        try:
            reference.prepare(found.a).run(_declared(found.a, found.inputs), observe=observe)
        except DiagnosticError:
            return None
        twins = {
            body: second.attributes.get(name) for name, body in first.attributes.items() if isinstance(body, Graph)
        }
        for body, inputs in calls[:_MOST_RUNS]:
            twin = twins.get(body)
            if not isinstance(twin, Graph) or len(twin.inputs) != len(body.inputs) or not body.outputs:
                continue
            inner = self._of_body(found, (body, twin), inputs).run()
            if inner is not None and inner.is_beyond:
                return inner
        return None

    def _of_body(self, found: FirstDifference, bodies: tuple[Graph, Graph], inputs: Sequence[Any]) -> Search:
        """Return a search in two bodies with equal inputs."""
        parts = [subgraph.cut(body.outputs) for body in bodies]
        given: list[dict[str, Any]] = []
        for body, piece in zip(bodies, parts, strict=True):
            names = {piece.values[v].name: x for v, x in zip(body.inputs, inputs, strict=True) if v in piece.values}
            given.append({each.name: names.get(each.name, found.inputs.get(each.name)) for each in piece.graph.inputs})
        a, b = (piece.graph for piece in parts)
        return replace(
            self,
            a=a,
            b=b,
            pairs=pairs(a, b, outputs_first=True),
            given_a=given[0],
            given_b=given[1],
            depth=self.depth + 1,
        )

    def _moved_first(self) -> FirstDifference | None:
        """Return the first value with equal elements but another shape, which its consumers may reject."""
        return self._of_shape(next(iter(self._moved))) if self._moved else None

    def _of_shape(self, value: Value) -> FirstDifference | None:
        """Return the difference of a value of another shape, if it persists with the first graph's operands."""
        partner = self.pairs[value]
        cell = self._cell(value, {})
        local = self._local(Pair(partner, value, None, None), cell)
        if local is None or local.passed:
            return None
        return FirstDifference(value, partner, cell.nodes, local, cell.a, cell.b, cell.inputs)

    def _differs(self, pair: Pair) -> Difference | None:
        """Return the difference of two values; `None` if they are equal except for the layout, which proves nothing."""
        found = self.difference(pair.a, pair.b, pair.x, pair.y)
        if found.passed or found.max_abs is not None:
            return found
        if _is_moved(pair.x, pair.y):
            self._moved[pair.b] = np.ndim(pair.x) != np.ndim(pair.y)
            return None
        if _is_coded(pair.x, pair.y):
            del self.pairs[pair.b]
            return None
        return found

    def difference(self, a: Value, b: Value, x: Any, y: Any) -> Difference:
        """Return the difference of two values; values of different precisions are compared as floats."""
        if is_alike(x, y) and x.dtype != y.dtype:
            wide = np.float64 if has_floats(x) else np.int64
            x, y = x.astype(wide), y.astype(wide)
        return self.limits.difference(a.name, x, y, other=b.name)

    def _examined(self, pair: Pair, known: Mapping[Value, Any]) -> FirstDifference | None:
        """Return the difference of a single value, if any."""
        if self._checked >= _MOST_CHECKED:
            return None
        self._checked += 1
        cell = self._cell(pair.b, known)
        local = self._local(pair, cell)
        if local is None or local.passed:
            return None
        return self._reshaped(cell.nodes) or self._reduced(pair, cell, local)

    def _reshaped(self, nodes: Iterable[Node]) -> FirstDifference | None:
        """Return a result of the nodes whose rank differs: its consumers compute different results."""
        values = (value for node in nodes for value in node.results if self._moved.get(value))
        return next((found for value in values if (found := self._of_shape(value)) is not None), None)

    def _local(self, pair: Pair, cell: _Cell) -> Difference | None:
        """Return the difference of a value computed from the first graph's values; `None` if it is random."""
        self._hurry()
        x = _run(cell.a, cell.inputs, self.backend_a)
        try:
            y = _run(cell.b, cell.inputs, self.backend_b)
        except DiagnosticError as error:
            return Difference(pair.a.name, pair.b.name, passed=False, reason=error.diagnostics[0].message)
        again = _run(cell.a, cell.inputs, self.backend_a)
        if not self.limits.difference("", x, again).passed:
            self.random.append(pair.a.name)
            return None
        return self.difference(pair.a, pair.b, x, y)

    def _hurry(self) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeoutError

    def _cell(self, value: Value, known: Mapping[Value, Any]) -> _Cell:
        """Return the subgraphs of both graphs that compute a value from the nearest paired values."""
        partner = self.pairs[value]
        stops_b = {each for each in self.pairs if each is not value and each not in self._moved}
        partners = {self.pairs[each]: each for each in stops_b if self.pairs[each] is not partner}
        bound_b = subgraph.border([value], stops_b)
        bound_a = subgraph.border([partner], set(partners))
        shared = list(dict.fromkeys([*(self.pairs[each] for each in bound_b if each in self.pairs), *bound_a]))
        twins = [partners.get(each) for each in shared]
        piece_a = subgraph.cut([partner], shared)
        piece_b = subgraph.cut([value], [each for each in twins if each is not None])
        numbers = self._collect_values(shared, known)
        inputs: dict[str, Any] = {}
        for each, twin in zip(shared, twins, strict=True):
            x = numbers[each]
            inputs[each.name] = x if twin is None else _rounded(x, twin)
            if twin is not None:
                _call(piece_b.graph, piece_b.values[twin], each.name)
        _call(piece_b.graph, piece_b.values[value], partner.name)
        for piece, given in ((piece_a, self.given_a), (piece_b, self.given_b)):
            for own, twin in piece.values.items():
                if twin.is_input and twin.name not in inputs:
                    inputs[twin.name] = given[own.name]
        return _Cell(piece_a.graph, piece_b.graph, inputs, tuple(piece_b.nodes))

    def _collect_values(self, values: Iterable[Value], known: Mapping[Value, Any]) -> dict[Value, Any]:
        """Return values of the first graph: stored ones, or the results of one more run."""
        wanted = list(values)
        found = {value: known[value] for value in wanted if value in known}
        missing = [value for value in wanted if value not in found]
        if missing:
            found |= values_of(self.a, self.given_a, missing, self.backend_a)
        return found

    def _reduced(self, pair: Pair, cell: _Cell, local: Difference) -> FirstDifference:
        """Return the difference in a smaller subgraph, by pairing inner values of other names with equal elements."""
        if len(cell.nodes) > SMALL:
            for inner, partner in self._equal_within(cell):
                self.pairs.setdefault(inner, partner)
            smaller = self._cell(pair.b, {})
            again = self._local(pair, smaller)
            if again is not None and not again.passed and len(smaller.nodes) < len(cell.nodes):
                cell, local = smaller, again
        return FirstDifference(pair.b, pair.a, cell.nodes, local, cell.a, cell.b, cell.inputs)

    def _equal_within(self, cell: _Cell) -> list[tuple[Value, Value]]:
        """Return the values inside a cell that are equal in both graphs, independent of names."""
        own = {value.name: value for node in self.a for value in node.results}
        theirs = {value.name: value for node in cell.nodes for value in node.results}
        try:
            x = values_of(cell.a, cell.inputs, [v for n in cell.a for v in n.results], self.backend_a)
            y = values_of(cell.b, cell.inputs, [v for n in cell.b for v in n.results], self.backend_b)
        except DiagnosticError:
            return []
        found: list[tuple[Value, Value]] = []
        for mine, numbers in y.items():
            if mine.name not in theirs or mine.is_output:
                continue
            for other, expected in x.items():
                is_same = is_alike(expected, numbers) and self.limits.difference("", expected, numbers).passed
                if is_same and not other.is_output and other.name in own:
                    found.append((theirs[mine.name], own[other.name]))
                    break
        return found

    def _unanswered(self, step: Unanswered, stream: Stream) -> FirstDifference | None:
        """Return the difference of a node of the second graph that fails to run."""
        (node,) = step.nodes
        value = next((value for value in node.results if value in self.pairs), None)
        if value is None:
            value = _next_pair(node, self.pairs)
        if value is None:
            return None
        partner = self.pairs[value]
        cell = self._cell(value, stream.known_a)
        found = Difference(partner.name, value.name, passed=False, reason=step.reason.diagnostics[0].message)
        return self._reshaped(cell.nodes) or FirstDifference(
            value, partner, cell.nodes, found, cell.a, cell.b, cell.inputs
        )

    def _loudest(self, noisy: list[tuple[float, Value]]) -> FirstDifference | None:
        best: tuple[float, FirstDifference] | None = None
        for ratio, value in sorted(noisy, key=lambda item: item[0])[:_MOST_BLAMED]:
            if ratio == np.inf:
                continue
            cell = self._cell(value, {})
            pair = Pair(self.pairs[value], value, None, None)
            local = self._local(pair, cell)
            if local is None or local.snr_db is None:
                continue
            if best is None or local.snr_db < best[0]:
                found = FirstDifference(
                    value, pair.a, cell.nodes, local, cell.a, cell.b, cell.inputs, is_beyond=not local.passed
                )
                best = local.snr_db, found
        return None if best is None or best[0] == np.inf else best[1]


def _declared(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: _as_declared(inputs[each.name], each) for each in graph.inputs}


def _run(graph: Graph, inputs: Mapping[str, Any], backend: str) -> Any:
    (value,) = graph.outputs
    arrays = _declared(graph, inputs)
    known = {each: arrays[each.name] for each in graph.inputs}
    if value in known:
        return known[value]
    return computed(list(graph), [value], known, backend)[value]


def _as_declared(x: Any, value: Value) -> Any:
    dtype = value.dtype
    if dtype is None or not is_array(x) or not has_floats(x) or not dtype.is_floating:
        return x
    return x.astype(dtype.numpy)


def _rounded(x: Any, twin: Value) -> Any:
    """Round `x` to the float precision of its twin."""
    return x if not is_array(x) else _as_declared(x, twin).astype(x.dtype)


def _is_moved(x: Any, y: Any) -> bool:
    """Whether two values have equal elements in another order of axes or with an added axis."""
    if not is_array(x) or not is_array(y) or x.size != y.size or x.dtype != y.dtype:
        return False
    if x.dtype.kind not in "fiu" or not x.size:
        return False
    return bool(np.allclose(np.sort(x, None), np.sort(y, None), rtol=1e-3, atol=1e-5))


def _is_coded(x: Any, y: Any) -> bool:
    """Whether one value has floats, and the other one quantized codes."""
    return is_array(x) and is_array(y) and has_floats(x) != has_floats(y)


def _next_pair(node: Node, pairs: Mapping[Value, Value]) -> Value | None:
    """Return the first value after a node that is paired with a value of the other graph."""
    pending = [node]
    seen: set[Node] = set()
    while pending:
        each = pending.pop(0)
        for value in each.results:
            if value in pairs:
                return value
            pending += [user for user in value.users if user not in seen and user.graph is node.graph]
        seen.add(each)
    return None


def _call(graph: Graph, value: Value, name: str) -> None:
    """Rename `value` to `name`; rename another value with that name."""
    if value.name == name:
        return
    for other in graph.values():
        if other.name == name:
            graph.rename(other, graph.fresh(name))
    graph.rename(value, name)
