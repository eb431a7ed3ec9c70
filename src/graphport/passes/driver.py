"""Run an ordered list of passes over a graph until no pass changes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from graphport.core.docstrings import docstring
from graphport.core.facts import TensorFact
from graphport.core.faults import as_finding
from graphport.core.names import did_you_mean
from graphport.core.progress import stage
from graphport.core.spill import spilling
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ir.verify import verify
from graphport.ops import registry
from graphport.ops.infer import Inference
from graphport.ops.operand_presence import require_operands
from graphport.passes.journal import Journal, Note

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Value
    from graphport.ops.declare import Exactness

    Work: TypeAlias = Callable[[Graph, Journal], None]

MAX_RUNS = 2000
"""Limit of pass runs; a safeguard, because no pass undoes another one."""

GROWTH_DIVISOR = 10
"""Folding and copies of constants may enlarge a model by 1/GROWTH of its size."""

NODE_BYTES = 100
"""Approximate bytes of a node in a file."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of canonical graphs that preserves semantics; `work` edits a graph in place and reports to a journal.

    `exactness` describes permitted differences of outputs. `makes` is an operator that it creates and that not every
    format supports.
    """

    name: str
    work: Work
    exactness: Exactness
    makes: str = ""

    @property
    def summary(self) -> str:
        """Return the summary sentence of the pass."""
        return docstring(self.work).partition("\n")[0].rstrip(".;")


@dataclass(frozen=True, slots=True)
class PassList:
    """Passes in order, and the name of the list.

    `least_room` is the number of bytes that folding and copies may always add. Without it they add only
    as much as leaves no work for a second run. A list that `keeps_old_forms` leaves it to the format to write operators
    in the source's opset.
    """

    passes: tuple[Pass, ...]
    least_room: int = 0
    keeps_old_forms: bool = True
    name: str = ""

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Changes of one pass, and the nodes that its last run skipped."""

    name: str
    done: tuple[Note, ...]
    left: tuple[Note, ...]

    @property
    def changes(self) -> int:
        """Return the number of changes."""
        return sum(note.count for note in self.done)


def select(passes: PassList, only: Collection[str] = (), skip: Collection[str] = ()) -> PassList:
    """Return the selected passes of a list, in the order of the list.

    Raises:
        ValueError: the list has no pass of that name.
    """
    known = [each.name for each in passes]
    unknown = [name for name in [*only, *skip] if name not in known]
    if unknown:
        stated = (f"there is no pass {name!r}{did_you_mean(name, known, 'passes')}" for name in unknown)
        raise ValueError("; ".join(stated))
    wanted = tuple(each for each in passes if (not only or each.name in only) and each.name not in skip)
    return replace(passes, passes=wanted)


def supported_passes(passes: PassList, dialect: str) -> PassList:
    """Return the passes of a list whose created operators `dialect` supports."""
    op_defs = registry.op_defs()
    wanted = tuple(each for each in passes if not each.makes or registry.export_rules(dialect, op_defs[each.makes]))
    return replace(passes, passes=wanted)


@spilling()
def run(graph: Graph, passes: PassList | Sequence[Pass]) -> list[Outcome]:
    """Run `passes` over `graph` in place, each when all earlier ones change nothing, until none changes it.

    The graph is verified before, and after each pass that changed it. Facts that only the file declares are not used:
    passes see facts inferred from the inputs; the declared facts of outputs are restored at the end.

    Raises:
        DiagnosticError: SHAPE0001 a node lacks a required operand.
    """
    if not isinstance(passes, PassList):
        passes = PassList(tuple(passes))
    verify(graph)
    require_operands(graph)
    claims = _forget_claims(graph)
    outcomes = _swept(graph, passes)
    if any(outcome.done for outcome in outcomes):
        refresh(graph)
    for value, claim in claims.items():
        if value.returns and isinstance(value.fact, TensorFact) and value.fact.shape is None:
            value.fact = claim
    return outcomes


def _swept(graph: Graph, passes: PassList) -> list[Outcome]:
    budget = _Budget.of(graph, passes.least_room)
    sweep = _Sweep(graph, passes, budget)
    if passes.least_room:
        sweep.run(budget.fresh(graph))
        return sweep.outcomes()
    sweep.run(None)
    if sweep.wants():
        # If the source's size limits the growth, a second run would continue it: then the growth does not start.
        trial = _Sweep(rewrite.copy(graph), passes, budget)
        trial.run(budget.fresh(graph))
        if not trial.would_go_on():
            sweep.run(budget.fresh(graph))
    return sweep.outcomes()


class _Sweep:
    """A list of passes applied repeatedly to a graph until no pass changes it."""

    def __init__(self, graph: Graph, passes: PassList, budget: _Budget) -> None:
        self._graph = graph
        self._passes = passes.passes
        self._budget = budget
        self._done: dict[str, list[Note]] = {each.name: [] for each in passes}
        self._left: dict[str, tuple[Note, ...]] = {each.name: () for each in passes}
        self._wanted: dict[str, list[int]] = {}
        self._runs = 0

    def run(self, room: int | None) -> None:
        """Run the passes with `room` bytes for folding and copies; None permits only bytes that the passes free."""
        grows, index, room = room is not None, 0, room or 0
        while self._runs < MAX_RUNS:
            if index == len(self._passes):
                # Removed nodes free room that a second run would use.
                found = self._budget.fresh(self._graph) if grows and self.wants() else 0
                if found <= room:
                    break
                index, room = 0, found
            journal = self._once(self._passes[index], room)
            room = journal.room
            # A change may enable earlier passes, which run first because their results are preferable.
            index = 0 if journal.done and index else index + 1

    def _once(self, each: Pass, room: int) -> Journal:
        self._runs += 1
        journal = Journal(room=room)
        with as_finding(f"the pass {each.name}"), stage(f"pass {each.name}"):
            each.work(self._graph, journal)
        if journal.done:
            verify(self._graph)
        self._wanted[each.name] = journal.wanted
        self._done[each.name] += journal.done
        self._left[each.name] = tuple(journal.left)
        return journal

    def wants(self) -> list[int]:
        """Return the bytes that each change needs that was skipped because of the size limit."""
        return [want for each in self._wanted.values() for want in each]

    def would_go_on(self) -> bool:
        """Whether the smallest skipped change fits into the room that the present model size permits."""
        return min(self.wants(), default=0) > 0 and min(self.wants()) <= _size(self._graph) // GROWTH_DIVISOR

    def outcomes(self) -> list[Outcome]:
        """Return changes and skipped nodes of each pass."""
        return [Outcome(each.name, tuple(self._done[each.name]), self._left[each.name]) for each in self._passes]


@dataclass(frozen=True, slots=True)
class _Budget:
    """Limit of the bytes of a graph, and the minimum growth from its present size."""

    most: int
    least: int

    @classmethod
    def of(cls, graph: Graph, least: int) -> _Budget:
        size = _size(graph)
        return cls(size + max(least, size // GROWTH_DIVISOR), least)

    def fresh(self, graph: Graph) -> int:
        """Return the bytes that a new run may add to `graph`."""
        size = _size(graph)
        return min(self.most - size, max(self.least, size // GROWTH_DIVISOR))


def _size(graph: Graph) -> int:
    weights = [v.storage.nbytes for inner in walk(graph) for v in inner.constants if v.storage is not None]
    return sum(weights) + NODE_BYTES * count_nodes(graph)


def _forget_claims(graph: Graph) -> dict[Value, Fact]:
    """Replace facts by those inferred from inputs, constants and opaque nodes; return the declared facts of outputs."""
    claims = {value: value.fact for value in graph.outputs}
    refresh(graph)
    return claims


def refresh(graph: Graph) -> None:
    """Infer the facts of all values again; results of opaque nodes keep theirs."""
    Inference().graph(graph)


def count_nodes(graph: Graph) -> int:
    """Count the nodes of a graph and of all its bodies."""
    return sum(map(len, walk(graph)))
