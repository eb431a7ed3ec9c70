"""Runs an ordered list of passes over a graph until none of them finds anything to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

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
from graphport.passes.journal import Journal, Note

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Value
    from graphport.ops.declare import Exactness

    Work: TypeAlias = Callable[[Graph, Journal], None]

MOST_RUNS = 2000
"""How many times passes are run in all. They end by themselves, for none undoes what another one did."""

GROWTH = 10
"""Folding and copies of constants may make a model larger by one part in so many of its size."""

NODE = 100
"""Bytes that a node takes in a file, or thereabouts."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewriting of canonical graphs that keeps their meaning: `work` edits a graph in place and tells a journal.

    `exactness` is what outputs may differ by. `makes` is an operator that it puts together and not every format has.
    """

    name: str
    work: Work
    exactness: Exactness
    makes: str = ""

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        return (self.work.__doc__ or "").strip().partition("\n")[0].rstrip(".;")


@dataclass(frozen=True, slots=True)
class PassList:
    """Passes in their order, and what they are called together.

    `least_room` bytes are what folding and copies may add to even the smallest model, as much as fits. Without them
    they add only what leaves nothing for a second run. A list that `keeps_old_forms` leaves it to the format to say its
    operators as the source did.
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
    """What one pass did, and what it left alone the last time that it ran."""

    name: str
    done: tuple[Note, ...]
    left: tuple[Note, ...]

    @property
    def changes(self) -> int:
        """How many places it changed."""
        return sum(note.count for note in self.done)


def select(passes: PassList, only: Collection[str] = (), skip: Collection[str] = ()) -> PassList:
    """The passes of a list that are wanted, in the list's order.

    Raises:
        ValueError: a name is none of the list's.
    """
    known = [each.name for each in passes]
    unknown = [name for name in [*only, *skip] if name not in known]
    if unknown:
        stated = (f"there is no pass {name!r}{did_you_mean(name, known, 'passes')}" for name in unknown)
        raise ValueError("; ".join(stated))
    wanted = tuple(each for each in passes if (not only or each.name in only) and each.name not in skip)
    return replace(passes, passes=wanted)


def expressible(passes: PassList, dialect: str) -> PassList:
    """The passes of a list that make no operator which `dialect` cannot say."""
    pages = registry.pages()
    wanted = tuple(each for each in passes if not each.makes or registry.liftings(dialect, pages[each.makes]))
    return replace(passes, passes=wanted)


@spilling()
def run(graph: Graph, passes: PassList | Sequence[Pass]) -> list[Outcome]:
    """Run `passes` over `graph`, in place, each only when those before it find nothing to do, until none does.

    The graph is verified before, and after every pass that changed it. Facts that only a file claims are not relied
    on: passes see what follows from the inputs, outputs get their claims back at the end.
    """
    if not isinstance(passes, PassList):
        passes = PassList(tuple(passes))
    verify(graph)
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
        # Where the source's size ends the growth, a second run would go on: then it does not begin.
        trial = _Sweep(rewrite.copy(graph), passes, budget)
        trial.run(budget.fresh(graph))
        if not trial.would_go_on():
            sweep.run(budget.fresh(graph))
    return sweep.outcomes()


class _Sweep:
    """A list of passes, run over a graph from its first one on until none finds anything to do."""

    def __init__(self, graph: Graph, passes: PassList, budget: _Budget) -> None:
        self._graph = graph
        self._passes = passes.passes
        self._budget = budget
        self._done: dict[str, list[Note]] = {each.name: [] for each in passes}
        self._left: dict[str, tuple[Note, ...]] = {each.name: () for each in passes}
        self._wanted: dict[str, list[int]] = {}
        self._runs = 0

    def run(self, room: int | None) -> None:
        """Run them with `room` bytes for folding and copies; for `None` with what they themselves make free alone."""
        grows, index, room = room is not None, 0, room or 0
        while self._runs < MOST_RUNS:
            if index == len(self._passes):
                # What went has made room, of which a second run would make use.
                found = self._budget.fresh(self._graph) if grows and self.wants() else 0
                if found <= room:
                    break
                index, room = 0, found
            journal = self._once(self._passes[index], room)
            room = journal.room
            # What a pass did may give those before it work, and they come first: their results are the better ones.
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
        """Bytes that each of what was left alone for want of room would take."""
        return [want for each in self._wanted.values() for want in each]

    def would_go_on(self) -> bool:
        """Whether something was left alone that has room in a model of the size that this one has got."""
        return min(self.wants(), default=0) > 0 and min(self.wants()) <= _size(self._graph) // GROWTH

    def outcomes(self) -> list[Outcome]:
        """What each pass did, and what it left alone the last time that it ran."""
        return [Outcome(each.name, tuple(self._done[each.name]), self._left[each.name]) for each in self._passes]


@dataclass(frozen=True, slots=True)
class _Budget:
    """Bytes that a graph may take in all, and the least by which it may grow from where it is."""

    most: int
    least: int

    @classmethod
    def of(cls, graph: Graph, least: int) -> _Budget:
        size = _size(graph)
        return cls(size + max(least, size // GROWTH), least)

    def fresh(self, graph: Graph) -> int:
        """The room of a run that begins now."""
        size = _size(graph)
        return min(self.most - size, max(self.least, size // GROWTH))


def _size(graph: Graph) -> int:
    weights = [v.storage.nbytes for inner in walk(graph) for v in inner.constants if v.storage is not None]
    return sum(weights) + NODE * count_nodes(graph)


def _forget_claims(graph: Graph) -> dict[Value, Fact]:
    """Let facts be what follows from inputs, constants and opaque nodes; return what outputs were said to be."""
    claims = {value: value.fact for value in graph.outputs}
    refresh(graph)
    return claims


def refresh(graph: Graph) -> None:
    """Infer the facts of all values again; an opaque node's results keep theirs."""
    Inference().graph(graph)


def count_nodes(graph: Graph) -> int:
    """Nodes of a graph and of all its bodies."""
    return sum(map(len, walk(graph)))
