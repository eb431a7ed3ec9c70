"""The part of a proof beyond its standard test inputs: further inputs, and differences that a search finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.comparison.precision import quantized_snr
from graphport.core.progress import stage
from graphport.proof.comparing import differences, keep_results
from graphport.proof.compute import compute_outputs
from graphport.proof.coverage.exploration import Exploration, unexplored
from graphport.proof.coverage.search import DIFFERS_ON_NAN, is_confirmed
from graphport.proof.coverage.undefined import has_nan
from graphport.proof.loading import strict_pair
from graphport.proof.segments.numbering import is_same_model
from graphport.proof.test_inputs import TestInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.comparison.metrics import Difference
    from graphport.proof.case import Case
    from graphport.proof.coverage.search import Finding

RESOLUTION = 2.0**-22
"""Two ulps of float32, relative to the magnitude of a value: differences below it are not confirmed."""
MAX_CONFIRMATIONS = 8
"""Findings that the runtimes of both files are run on."""


def explore(case: Case, compare: Callable[[TestInput], str | None]) -> None:
    """Compare both sides on inputs that increase coverage, and on inputs on which a search finds a difference.

    Args:
        case: the proof, with the test inputs that both sides computed.
        compare: compares both sides on a test input; returns why side `a` does not compute it, else `None`.
    """
    a, b = case.a.graph, case.b.graph
    if case.one_at_a_time:
        case.coverage = case.coverage.merged(unexplored(a))
        return
    # Runtimes round float16 and quantized values after other operators than the reference interpreter.
    compares = case.tolerance.least_snr is None and not any(quantized_snr(graph) for graph in (a, b))
    exploration = Exploration.of(
        a,
        b,
        list(case.test_inputs),
        seconds=case.effort.seconds / 2,
        compares=compares,
        is_same=case.a.format == case.b.format and is_same_model(a, b),
        relations=case.relations,
        has_independent_samples=case.has_independent_samples,
    )
    if exploration is None:
        case.coverage = case.coverage.merged(unexplored(a))
        return
    for test_input, is_ordinary in exploration.further_inputs():
        if not _is_computed(case, test_input, compare, is_ordinary=is_ordinary):
            exploration.forget()
        if case.is_refuted or case.limit is not None:
            break
    else:
        with stage("searching for inputs on which the files differ"):
            _look_for_differences(case, exploration)
    found = exploration.coverage()
    limit = () if case.limit is None else (f"further test inputs ({case.limit})",)
    case.coverage = case.coverage.merged(replace(found, sizes=(), never=(*found.never, *limit)))


def _is_computed(
    case: Case, test_input: TestInput, compare: Callable[[TestInput], str | None], *, is_ordinary: bool
) -> bool:
    """Run both sides on a further test input. Return whether both computed it."""
    if is_ordinary:
        return compare(test_input) is None
    runners = list(case.carriers.values())
    outputs = compute_outputs(case, runners, test_input)
    return all(runner in outputs for runner in runners)


def _look_for_differences(case: Case, exploration: Exploration) -> None:
    for count, finding in enumerate(exploration.findings()):
        if count >= MAX_CONFIRMATIONS or case.limit is not None or _confirm(case, finding):
            return
        if has_nan(finding.candidate.arrays):
            exploration.search.unlike.add(DIFFERS_ON_NAN)


def _confirm(case: Case, finding: Finding) -> bool:
    """Record a difference found in graphport's graphs if the runtimes of both files reproduce it."""
    candidate = finding.candidate
    test_input = TestInput(candidate.label, 0, candidate.sizes, candidate.arrays)
    pair = strict_pair(case)
    outputs = compute_outputs(case, pair, test_input)
    if any(runner not in outputs for runner in pair):
        return False
    first, second = (outputs[runner] for runner in pair)
    position = is_confirmed(finding, first, second)
    if position is None or _is_resolution(finding, position, first[position]):
        return False
    found = differences(case, pair, test_input, (first, second))
    found[position] = _refuted(found[position], finding, position)
    case.test_inputs.append(test_input)
    keep_results(case, test_input, first, found)
    case.record(pair[0], candidate.label)
    case.record(pair[1], candidate.label, found)
    return True


def _is_resolution(finding: Finding, position: int, output: Any) -> bool:
    """Whether a difference is below the resolution of float32 at the magnitudes of the inputs and of the output.

    Runtimes that keep a constant in another precision differ by as much: 0.3 is rounded by 1.2e-8.
    """
    flag = next(flag for flag in finding.flags if flag.position == position)
    arrays = [
        array for array in (*finding.candidate.arrays.values(), output) if getattr(array, "dtype", None) is not None
    ]
    floats = [np.abs(array[np.isfinite(array)]).max(initial=0.0) for array in arrays if array.dtype.kind == "f"]
    return bool(np.isfinite(flag.size)) and flag.size <= RESOLUTION * float(max(floats, default=0.0))


def _refuted(each: Difference, finding: Finding, position: int) -> Difference:
    """Mark a difference as failed, with rounding as the reason, independent of the tolerance."""
    flag = next(flag for flag in finding.flags if flag.position == position)
    places: Any = np.argwhere(flag.elements)
    reason = each.reason
    if each.passed and np.isfinite(flag.size):
        reason = f"differs by {flag.size:.3g}, which rounding does not explain"
    return replace(each, passed=False, reason=reason, first=tuple(int(i) for i in places[0]))
