"""Sizes of open dims for the test inputs of a proof, found by what shape inference accepts and what runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.progress import stage
from graphport.proof.compute import compute_outputs
from graphport.proof.declared_outputs import mismatch
from graphport.proof.independent_samples import has_independent_samples, is_heavy
from graphport.proof.loading import size_checker
from graphport.proof.side import paired
from graphport.proof.test_inputs import KINDS, TestInput, accepted, bound_by, choices_of_sizes, make_test_input
from graphport.runtimes import memory
from graphport.runtimes.inputs import is_accepted, no_array, open_axes
from graphport.runtimes.relations import completed, search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphport.proof.case import Case
    from graphport.proof.test_inputs import Sizes
    from graphport.runtimes.relations import Relations


def why_not_computable(case: Case) -> str | None:
    """Return why no test input fits into an array or into memory; `None` if one fits."""
    for value in case.a.graph.inputs:
        dims = value.shape
        reason = None if dims is None else no_array([dim if isinstance(dim, int) else 1 for dim in dims])
        if reason is not None:
            return f"cannot generate an input for {value.name!r}: {reason}"
    ones, others = open_axes(case.a.graph)
    sizes = dict.fromkeys(map(str, (*ones, *others)), 1)
    shortage = memory.shortage(max(memory.needed(side.graph, sizes) for side in (case.a, case.b)))
    return shortage or _excess(case, sizes)


def _excess(case: Case, sizes: Mapping[str, int]) -> str | None:
    """Return why a run at some sizes exceeds the memory limit for the file's size; `None` if it does not."""
    return next(filter(None, (memory.excess(side.graph, sizes, case.a.size) for side in (case.a, case.b))), None)


def choices_of_inputs(case: Case, given: Mapping[str, Any] | None) -> Iterator[Iterator[list[TestInput]]]:
    """For each choice of sizes the test inputs to try: if side `a` does not compute the first, the next ones."""
    if given is not None:
        yield iter([[TestInput("given", 0, {}, dict(given))]])
        return
    graph = case.a.graph
    graphs = (graph, case.b.graph)
    case.has_independent_samples = is_heavy(graph) and all(map(has_independent_samples, graphs))
    names = {value.name: value for value in case.b.graph.inputs}
    twins = paired({value.name: value for value in graph.inputs}, graph, case.b.graph)
    partners = {value.name: names[other] for other, value in twins.items() if other in names}
    fixed = bound_by(graph, partners)
    seed = 0
    every = choices_of_sizes(graph, fixed)
    for choices in every:
        sizes = _sizes(case, choices, lambda other: _related(case, every[-1][0], other, fixed))
        kinds = KINDS[:1] if seed and case.has_independent_samples else KINDS
        fitting = (each for each in sizes if _is_untested(case, each) and _fits_memory(case, each))
        yield (_inputs_of(case, each, kinds, seed) for each in fitting)
        seed += len(KINDS)


def _sizes(case: Case, choices: list[Sizes], related: Callable[[list[Sizes]], Relations]) -> Iterator[Sizes]:
    """Yield sizes to try, best first; if all fail, also sizes that satisfy relations between open dims."""

    def completed_choices() -> Iterator[Sizes]:
        relations = case.relations = related(choices)
        yield from (completed(relations, sizes) for sizes in (choices if relations else []))

    if case.relations:
        choices = [completed(case.relations, sizes) for sizes in choices]
    return accepted(case.a.graph, choices, completed_choices() if case.relations is None else ())


def _related(case: Case, sizes: Sizes, other: list[Sizes], fixed: Sizes) -> Relations:
    """Relations between open dims with which side `a` runs, if there are any."""
    _, lengths = open_axes(case.a.graph)
    free = {name: symbol for name, symbol in lengths.items() if name not in fixed}
    runner = size_checker(case)

    def runs(tried: Sizes) -> bool:
        if case.limit is not None or not is_accepted(case.a.graph, tried) or not _fits_memory(case, tried):
            return False
        test_input = make_test_input(case.a.graph, KINDS[0], tried, 0)
        outputs = compute_outputs(case, [runner], test_input).get(runner)
        has_elements = outputs is not None and all(getattr(value, "size", 1) for value in outputs)
        return has_elements and not (runner.is_native and mismatch(runner, outputs or []))

    with stage(f"searching for sizes with which {runner.sentence} runs"):
        return search(case.a.graph, free, sizes, other, runs)


def _is_untested(case: Case, sizes: Sizes) -> bool:
    return not any(sizes == each.sizes for each in case.test_inputs)


def _fits_memory(case: Case, sizes: Sizes) -> bool:
    reason = _excess(case, sizes)
    if reason is not None and reason not in case.notes:
        case.notes.append(reason)
    return reason is None


def _inputs_of(case: Case, sizes: Sizes, kinds: Sequence[str], seed: int) -> list[TestInput]:
    if all(value.storage is not None for value in case.a.graph.inputs):
        kinds = kinds[:1]
    return [make_test_input(case.a.graph, kind, sizes, seed + index) for index, kind in enumerate(kinds)]
