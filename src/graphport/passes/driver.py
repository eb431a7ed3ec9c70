"""Runs an ordered list of passes over a graph until none of them finds anything to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from graphport.core.facts import TensorFact
from graphport.ir.graph import walk
from graphport.ir.verify import verify
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

GROWTH = 0.1
"""By what share of a model's size folding may make it larger."""

NODE = 100
"""Bytes that a node takes in a file, or thereabouts."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewriting of canonical graphs that keeps their meaning: `work` edits a graph in place and tells a journal.

    `exactness` is what outputs may differ by.
    """

    name: str
    work: Work
    exactness: Exactness

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        return (self.work.__doc__ or "").strip().partition("\n")[0].rstrip(".;")


@dataclass(frozen=True, slots=True)
class PassList:
    """Passes in their order.

    `least_room` bytes are what folding may add to even the smallest model. A list that `keeps_old_forms` leaves it to
    the format to say its operators as the source did.
    """

    passes: tuple[Pass, ...]
    least_room: int = 0
    keeps_old_forms: bool = True

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
        message = f"there is no pass {', '.join(map(repr, unknown))}; passes: {', '.join(known)}"
        raise ValueError(message)
    wanted = tuple(each for each in passes if (not only or each.name in only) and each.name not in skip)
    return replace(passes, passes=wanted)


def run(graph: Graph, passes: PassList | Sequence[Pass]) -> list[Outcome]:
    """Run `passes` over `graph`, in place, each only when those before it find nothing to do, until none does.

    The graph is verified before, and after every pass that changed it. Facts that only a file claims are not relied
    on: passes see what follows from the inputs, outputs get their claims back at the end.
    """
    if not isinstance(passes, PassList):
        passes = PassList(tuple(passes))
    verify(graph)
    claims = _forget_claims(graph)
    done: dict[str, list[Note]] = {each.name: [] for each in passes}
    left: dict[str, list[Note]] = {each.name: [] for each in passes}
    index, room = 0, _room(graph, passes.least_room)
    for _ in range(MOST_RUNS):
        if index == len(passes):
            break
        each = passes.passes[index]
        journal = _once(graph, each, room)
        room = journal.room
        done[each.name] += journal.done
        left[each.name] = journal.left
        # What a pass did may give those before it work, and they come first: their results are the better ones.
        index = 0 if journal.done and index else index + 1
    for value, claim in claims.items():
        if value.returns and isinstance(value.fact, TensorFact) and value.fact.shape is None:
            value.fact = claim
    return [Outcome(each.name, tuple(done[each.name]), tuple(left[each.name])) for each in passes]


def _room(graph: Graph, least: int) -> int:
    weights = [v.storage.nbytes for inner in walk(graph) for v in inner.constants if v.storage is not None]
    return max(least, int((sum(weights) + NODE * count_nodes(graph)) * GROWTH))


def _once(graph: Graph, each: Pass, room: int) -> Journal:
    journal = Journal(room=room)
    each.work(graph, journal)
    if journal.done:
        verify(graph)
    return journal


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
