"""Further test inputs, which reach uncovered parts or show differences."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.ir.graph import walk
from graphport.ops import registry
from graphport.proof.coverage import work_budget
from graphport.proof.coverage.candidates import (
    Candidate,
    Names,
    candidates_by_kind,
    candidates_for_part,
    differing_candidates,
    normal,
)
from graphport.proof.coverage.parts import coverage_points
from graphport.proof.coverage.record import Coverage
from graphport.proof.coverage.search import Finding, Search, Subject
from graphport.proof.coverage.sizes import more_sizes, telling_sizes
from graphport.proof.coverage.undefined import has_nan
from graphport.proof.coverage.work_budget import WorkBudget
from graphport.proof.side import paired
from graphport.proof.test_inputs import TestInput, bound_by
from graphport.runtimes import memory, work
from graphport.runtimes.inputs import checked
from graphport.runtimes.relations import completed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphport.ir.graph import Graph
    from graphport.runtimes.relations import Relations

MAX_INPUTS = 6
"""Further test inputs that both files are run on."""
MAX_BYTES = 1 << 28
"""Memory of a run: of a graph that needs more, or more time, only the parts of the source file are looked at."""
MIN_CANDIDATES = 200
"""Test inputs of both files and of their rounding errors that there is time for, if the smallest sizes allow it."""
MAX_SHARE = 0.05
"""The part of the time that the smallest test input may take."""


MAX_KINDS = 48
"""Kinds of values that are tried to reach parts."""


class Further(NamedTuple):
    """A test input beyond the standard ones."""

    test_input: TestInput
    is_ordinary: bool
    """Whether the outputs have to agree; if not, only a difference that the readings of both files show counts."""


@dataclass(eq=False)
class Exploration:
    """A search for differing outputs that starts from the test inputs run on both files."""

    search: Search
    inputs: Sequence[TestInput]
    names: Names
    relations: Relations
    fixed: frozenset[str]
    """Open dims with a static size in the other graph."""
    has_independent_samples: bool = False
    _further: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    _before: list[Any] = field(default_factory=list[Any])
    """What both graphs had reached before the last further input."""

    @classmethod
    def of(
        cls,
        a: Graph,
        b: Graph,
        inputs: Sequence[TestInput],
        *,
        seconds: float,
        compares: bool = True,
        is_same: bool = False,
        relations: Relations | None = None,
        has_independent_samples: bool = False,
    ) -> Exploration | None:
        """Create the exploration of two graphs; `None` if the reference interpreter cannot compute both.

        Args:
            a: canonical graph of the source file.
            b: canonical graph of the written file.
            inputs: test inputs that both files computed.
            seconds: estimated processor time.
            compares: whether to search for differences, or only for uncovered parts.
            is_same: whether equal nodes compute both graphs: only `a` is computed then.
            relations: open dims as functions of other dims.
            has_independent_samples: whether a larger batch computes the same for each sample.
        """
        if not inputs:
            return None
        is_heavy = any(_seconds(graph, inputs[0]) > seconds * MAX_SHARE for graph in (a, b))
        is_heavy = is_heavy or max(memory.estimate_proof_bytes(graph, inputs[-1].sizes) for graph in (a, b)) > MAX_BYTES
        first = Subject.probing(a) if is_heavy else Subject.of(a)
        is_alone = is_heavy or is_same
        second = None if first is None or is_alone else Subject.of(b, first.uncounted)
        if first is None or (second is None and not is_alone):
            return None

        def as_second(arrays: Mapping[str, Any]) -> dict[str, Any]:
            return checked(b, paired(arrays, a, b))

        is_random = any(_is_random(graph) for graph in (a, b))
        budget = WorkBudget(seconds)
        budget.begin()
        search = Search(first, second, as_second, budget, compares=compares and not is_random and not is_alone)
        return cls(
            search,
            inputs,
            Names.match_inputs(a, b),
            relations or {},
            frozenset(fixed_sizes(a, b)),
            has_independent_samples,
        )

    def further_inputs(self) -> Iterator[Further]:
        """Yield test inputs beyond the standard ones: further sizes, and values that reach uncovered parts."""
        for candidate, is_ordinary in islice(self._further_candidates(), MAX_INPUTS):
            yield Further(TestInput(candidate.label, 0, candidate.sizes, candidate.arrays), is_ordinary)

    def forget(self) -> None:
        """Discard the coverage of the last further input, because the runtimes did not compute it."""
        for subject, state in zip(self.search.subjects, self._before, strict=False):
            subject.reach.restore(state)

    def _adds_coverage(self, candidate: Candidate) -> bool:
        self._before = [subject.reach.copy() for subject in self.search.subjects]
        return self.search.adds_coverage(candidate)

    def _further_candidates(self) -> Iterator[tuple[Candidate, bool]]:
        with suppress(TimeoutError):
            for each in self.inputs:
                self.search.adds_coverage(Candidate(each.label, dict(each.sizes), dict(each.arrays)))
        a = self.search.a
        usual = {name: size for name, size in self.inputs[-1].sizes.items() if name not in self.fixed}
        telling = {size for subject in self.search.subjects for size in telling_sizes(subject.graph)}
        for sizes in more_sizes(a.graph, telling, usual) if usual and not self.has_independent_samples else ():
            whole = {**self.inputs[-1].sizes, **sizes}
            candidate = normal(a.graph, completed(self.relations, whole) if self.relations else whole)
            if candidate is None:
                continue
            self.search.is_refused = False
            with suppress(TimeoutError):
                self._adds_coverage(candidate)
            if not self.search.is_refused:
                self._further.append(candidate.sizes)
                yield candidate, True
        with suppress(TimeoutError):
            yield from self._reaching()

    def _reaching(self) -> Iterator[tuple[Candidate, bool]]:
        """Yield candidates that reach uncovered parts; candidates for parts of the source file are ordinary inputs.

        Parts that only the written file has may be details of its export: an input that reaches them (for example the
        integer -32768) may be outside of the source model's domain.
        """
        choices: list[dict[str, int]] = []
        for sizes in (*(each.sizes for each in self.inputs), *self._further):
            if sizes not in choices:
                choices.append(dict(sizes))
        a = self.search.a
        for subject, names in zip(self.search.subjects, (Names({}, {}), self.names), strict=False):
            for phrase, part in subject.reach.missing.items():
                for candidate in candidates_for_part(a.graph, part, choices[-2:], names):
                    if phrase not in subject.reach.missing:
                        break
                    if self._adds_coverage(candidate):
                        # Runtimes treat NaN differently, so the reference interpreter decides for both files.
                        yield candidate, subject is a and not has_nan(candidate.arrays)
        yield from self._reaching_by_kind(choices[-1])

    def _reaching_by_kind(self, sizes: dict[str, int]) -> Iterator[tuple[Candidate, bool]]:
        """Yield candidates of other kinds of values, masks first, for parts that are still unreached.

        Masks are ordinary inputs; whether integers and floats of other magnitudes are valid is unknown.
        """
        a = self.search.a
        if self.search.b is None or not any(subject.reach.missing for subject in self.search.subjects):
            return
        base = normal(a.graph, sizes)
        found = islice(candidates_by_kind(a.graph, self.search.b.graph, sizes, self.names), MAX_KINDS)
        kinds = [each for each in found if not each.is_special]
        for candidate in sorted(kinds, key=lambda each: not each.label.startswith("mask")):
            if not any(subject.reach.missing for subject in self.search.subjects):
                return
            if self._adds_coverage(candidate):
                is_mask = all(kind.startswith("mask") for kind in candidate.label.split("; "))
                yield candidate, is_mask and base is not None and _has_floats_of(candidate, base)

    def findings(self) -> Iterator[Finding]:
        """Yield inputs on which the graphs read from both files differ by more than rounding, within the time limit."""
        yield from self.search.found
        if not self.search.compares or self.search.b is None:
            return
        a, b = self.search.a.graph, self.search.b.graph
        largest_first = sorted(self.inputs, key=lambda each: -_seconds(a, each))
        affordable = (each for each in largest_first if _seconds(a, each) < self.search.budget.seconds / MIN_CANDIDATES)
        base = next(affordable, largest_first[-1])
        with suppress(TimeoutError):
            for candidate in differing_candidates(a, b, dict(base.sizes), self.names):
                finding = self.search.look(candidate, records=False)
                if finding is not None:
                    yield finding

    def coverage(self) -> Coverage:
        """Return the coverage of both graphs and the computed sizes."""
        found = Coverage()
        for subject in self.search.subjects:
            found = found.merged(subject.reach.coverage(is_written=subject is self.search.b))
        sizes: list[dict[str, int]] = []
        for each in (*(test_input.sizes for test_input in self.inputs), *self._further):
            if each and each not in sizes:
                sizes.append(dict(each))
        never = (*found.never, *sorted(self.search.unlike))
        return Coverage(found.branches, found.iterations, tuple(sizes), found.pieces, never)


def _has_floats_of(candidate: Candidate, base: Candidate) -> bool:
    """Whether all floats of a candidate are in another one."""
    return all(
        array.dtype.kind != "f" or np.array_equal(array, base.arrays[name]) for name, array in candidate.arrays.items()
    )


def _seconds(graph: Graph, test_input: TestInput) -> float:
    """Estimate the seconds that the reference interpreter needs for a test input."""
    sizes = graph.extents.evaluate_symbols(test_input.sizes)
    elements = memory.estimate_proof_bytes(graph, sizes) / 4
    weights = sum(value.storage.nbytes for value in graph.constants if value.storage is not None)
    return work_budget.estimate(len(graph), elements, work.total_macs(graph, sizes), weights)


def fixed_sizes(a: Graph, b: Graph) -> dict[str, int]:
    """Return sizes of open dims of `a` whose dims are static in the inputs of `b`."""
    names = {value.name: value for value in b.inputs}
    twins = paired({value.name: value for value in a.inputs}, a, b)
    return bound_by(a, {value.name: names[other] for other, value in twins.items() if other in names})


def unexplored(graph: Graph) -> Coverage:
    """Return the coverage of a graph that was not explored: all parts are unreached."""
    phrases = [part.phrase for parts in coverage_points(graph).of.values() for part in parts]
    return Coverage(never=tuple(dict.fromkeys(phrases)))


def _is_random(graph: Graph) -> bool:
    op_defs = registry.op_defs()
    return any(
        (op_def := op_defs.get(node.op)) is not None and op_def.is_random for inner in walk(graph) for node in inner
    )
