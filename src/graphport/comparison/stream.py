"""Slice-wise execution of two graphs: values of both are available together and then released.

A slice of the first graph is a run of some nodes; the second graph computes all nodes whose operands are available.
Values without later consumers are released, so memory is little more than for a single run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from graphport.backends import prepare
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import subgraph

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphport.ir.graph import Graph, Node, Value

MOST_BYTES = 8 << 20
"""Of weights and results in a slice; a node that has more is a slice by itself."""
MOST_NODES = 256

_WHOLE = "biu"
_UNKNOWN = 1 << 12
"""Assumed size in bytes of a value of unknown shape."""


class Pair(NamedTuple):
    """A value of the first graph, its partner in the second graph, and their computed arrays."""

    a: Value
    b: Value
    x: Any
    y: Any


class Unanswered(NamedTuple):
    """Nodes of the second graph that fail to run, the reason, and their operands."""

    nodes: list[Node]
    reason: DiagnosticError
    given: dict[Value, Any]


@dataclass(eq=False)
class Stream:
    """Two graphs with inputs for both, and the values that should be equal.

    Both are canonical, or in dialects of their backends. With `is_forced` the second graph continues with the values of
    the first graph wherever paired values have equal type and shape: differences then do not propagate across slices.
    """

    a: Graph
    b: Graph
    pairs: Mapping[Value, Value]
    """By value of the second."""
    given_a: Mapping[str, Any]
    given_b: Mapping[str, Any]
    is_forced: bool = False
    backend_a: str = "auto"
    backend_b: str = "auto"
    known_a: dict[Value, Any] = field(default_factory=dict["Value", Any])
    known_b: dict[Value, Any] = field(default_factory=dict["Value", Any])

    def __iter__(self) -> Iterator[list[Pair] | Unanswered]:
        """The pairs of one slice after another, in the order of the second graph.

        Raises:
            DiagnosticError: the first graph does not run; the second neither, unless it is forced.
        """
        slices_a, slices_b = self._slices()
        last_a, last_b = _index_last_reads(slices_a), _index_last_reads(slices_b)
        partners = set(self.pairs.values())
        wanted_by_b: dict[Value, int] = {}
        for number, nodes in enumerate(slices_b):
            for node in nodes:
                for value in [*subgraph.reads(node), *node.results]:
                    if value in self.pairs:
                        wanted_by_b[self.pairs[value]] = number
        self.known_a = {value: self.given_a[value.name] for value in self.a.inputs}
        self.known_b = {value: self.given_b[value.name] for value in self.b.inputs}
        for number, (nodes_a, nodes_b) in enumerate(zip(slices_a, slices_b, strict=True)):
            wanted = [v for n in nodes_a for v in n.results if _is_read(v, last_a, number) or v in partners]
            self.known_a.update(computed(nodes_a, wanted, self.known_a, self.backend_a))
            for step in self._second(nodes_b, last_b, number):
                yield step
                if isinstance(step, Unanswered):
                    return
            for value in list(self.known_a):
                if not _is_read(value, last_a, number) and not _is_read(value, wanted_by_b, number):
                    del self.known_a[value]
            for value in list(self.known_b):
                if not _is_read(value, last_b, number):
                    del self.known_b[value]

    def _second(self, nodes: list[Node], last: Mapping[Value, int], number: int) -> Iterator[list[Pair] | Unanswered]:
        """Compute nodes of the second graph, in smaller groups if they do not run together."""
        pending = [nodes]
        while pending:
            step = pending.pop()
            # In a divided slice, each group uses the results of the groups before it.
            behind = number if step is nodes else number - 1
            wanted = [v for n in step for v in n.results if _is_read(v, last, behind) or v in self.pairs]
            try:
                found = computed(step, wanted, self.known_b, self.backend_b)
            except DiagnosticError as error:
                if len(step) > 1:
                    middle = len(step) // 2
                    pending += [step[middle:], step[:middle]]
                    continue
                if not self.is_forced:
                    raise
                yield Unanswered(step, error, dict(self.known_b))
                return
            self.known_b.update(found)
            pairs = [
                Pair(self.pairs[v], v, self.known_a[self.pairs[v]], found[v])
                for v in found
                if v in self.pairs and self.pairs[v] in self.known_a
            ]
            if pairs:
                yield pairs
            if self.is_forced:
                self.known_b.update((each.b, each.x.astype(each.y.dtype)) for each in pairs if is_alike(each.x, each.y))

    def _slices(self) -> tuple[list[list[Node]], list[list[Node]]]:
        first = sliced(self.a)
        place = {value: number for number, nodes in enumerate(first) for node in nodes for value in node.results}
        stages: dict[Value, int] = {}
        second: list[list[Node]] = [[] for _ in first] or [[]]
        for node in self.b:
            operands = [stages[value] for value in subgraph.reads(node) if value in stages]
            partners = [self.pairs[value] for value in node.results if value in self.pairs]
            stage = max([*operands, *(place[value] for value in partners if value in place)], default=0)
            stages.update((value, stage) for value in node.results)
            second[stage].append(node)
        return first or [[]], second


def is_alike(x: Any, y: Any) -> bool:
    """Whether one array can replace the other one, possibly with another float precision."""
    if not is_array(x) or not is_array(y) or x.shape != y.shape:
        return False
    return (
        x.dtype == y.dtype or (has_floats(x) and has_floats(y)) or (x.dtype.kind in _WHOLE and y.dtype.kind in _WHOLE)
    )


def is_array(x: object) -> TypeGuard[np.ndarray[Any, Any]]:
    """Whether it is an array rather than a sequence or nothing."""
    return isinstance(x, np.ndarray)


def has_floats(x: np.ndarray[Any, Any]) -> bool:
    """Whether an array has a float dtype of any precision."""
    return x.dtype.kind == "f" or (x.dtype.kind not in "biucOSU" and DType.of(x.dtype).is_floating)


def sliced(graph: Graph) -> list[list[Node]]:
    """Divide the nodes of a graph into slices of limited size in bytes and nodes."""
    found: list[list[Node]] = []
    spent = 0
    for node in graph:
        cost = sum(_nbytes(value) for value in [*node.results, *(v for v in node.operands if v.is_constant)])
        if not found or spent + cost > MOST_BYTES or len(found[-1]) >= MOST_NODES:
            found.append([])
            spent = 0
        found[-1].append(node)
        spent += cost
    return found


def computed(
    nodes: Sequence[Node], wanted: Iterable[Value], known: Mapping[Value, Any], backend: str = "auto"
) -> dict[Value, Any]:
    """Compute some nodes of a graph from known values.

    Raises:
        DiagnosticError: the backend does not load or run the nodes.
    """
    outputs = list(dict.fromkeys(wanted))
    if not outputs:
        return {}
    piece, twins, _ = subgraph.extract_subgraph(nodes, outputs)
    originals = {twin: value for value, twin in twins.items()}
    given = {value.name: known[originals[value]] for value in piece.inputs}
    found = prepare(piece, backend, once=True).run(given)
    return {value: found[twins[value].name] for value in outputs}


def values_of(
    graph: Graph, given: Mapping[str, Any], wanted: Iterable[Value], backend: str = "auto"
) -> dict[Value, Any]:
    """Return the `wanted` values of a graph for inputs by name, computed slice by slice."""
    asked = set(wanted)
    slices = sliced(graph)
    last = _index_last_reads(slices)
    known: dict[Value, Any] = {value: given[value.name] for value in graph.inputs}
    found = {value: known[value] for value in asked if value in known}
    for number, nodes in enumerate(slices):
        if len(found) == len(asked):
            break
        results = [v for node in nodes for v in node.results if _is_read(v, last, number) or v in asked]
        known.update(computed(nodes, results, known, backend))
        found.update((value, known[value]) for value in results if value in asked)
        known = {value: x for value, x in known.items() if _is_read(value, last, number)}
    return found


def _index_last_reads(slices: Iterable[Sequence[Node]]) -> dict[Value, int]:
    """Return the index of the last slice that reads each value."""
    return {value: number for number, nodes in enumerate(slices) for node in nodes for value in subgraph.reads(node)}


def _is_read(value: Value, last: Mapping[Value, int], number: int) -> bool:
    """Whether a slice after index `number` uses `value`."""
    return value in last and last[value] > number


def _nbytes(value: Value) -> int:
    if value.storage is not None:
        return value.storage.nbytes
    fact = value.fact
    if not isinstance(fact, TensorFact) or not fact.is_static or fact.dtype is None:
        return _UNKNOWN
    return math.prod(dim for dim in fact.dims if isinstance(dim, int)) * max(fact.dtype.bits, 8) // 8
