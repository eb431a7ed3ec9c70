"""Comparison of segments in a proof: differences refute it, compared segments are covered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.progress import stage
from graphport.proof.coverage.record import Coverage
from graphport.proof.run import Configuration, Run
from graphport.proof.segments.comparing import compare_segments
from graphport.runtimes import run_limits
from graphport.runtimes.run_limits import RunLimitError

if TYPE_CHECKING:
    from graphport.proof.case import Case
    from graphport.proof.segments.comparing import SegmentDifference, SegmentReport
    from graphport.proof.test_inputs import TestInput

SHARE = 0.5
"""Fraction of a proof's effort for segments; the search over whole models has the rest."""

MIN_SECONDS, RUNS = 1.0, 3.0
"""Segments take at most the first, and the second times the longest run of a whole file."""


def record_segments(case: Case) -> None:
    """Compare the segments of both sides; add differences to the matrix and compared segments to the coverage.

    Runners of whole models are closed: their processes run the segments.
    """
    test_input = _test_input(case)
    if test_input is None or case.effort.seconds <= 0:
        return
    seconds = min(SHARE * case.effort.seconds, MIN_SECONDS + RUNS * max(each.seconds for each in case.runners))
    if case.tolerance.least_snr is not None and not case.tolerance.of_steps:
        # Half precision hides differences: segments are only checked for equality.
        seconds = 0.0
    for runner in case.runners:
        runner.close()
    try:
        # The search for test inputs may have met a run that was too large, after which limits refuse every other one.
        with run_limits.resumed(), stage("comparing the files segment by segment"):
            found = compare_segments(case.a, case.b, test_input, seconds, case.coverage.never)
    except (RunLimitError, MemoryError):
        case.notes.append("segments were not compared: a limit of time or memory was reached")
        return
    for each in found.differences:
        case.runs.append(_as_run(case, each))
    case.coverage = case.coverage.merged(_coverage(found))
    if not found.differences:
        never = [f"segment '{name}' by itself" for name in found.undecided]
        case.coverage = case.coverage.merged(Coverage(never=(*never, *found.unseen)))


def _test_input(case: Case) -> TestInput | None:
    """The last test input of ordinary elements: that with the larger sizes."""
    return next((each for each in reversed(case.test_inputs) if each.kind == "normal"), None)


def _as_run(case: Case, found: SegmentDifference) -> Run:
    runtime = case.b.runtime if found.is_native else None
    return Run(
        "b",
        "reference" if runtime is None else runtime.name,
        next((each.version for each in case.runners if runtime is not None and each.runtime == runtime.name), ""),
        Configuration.READING if runtime is None else Configuration.STRICT,
        f"segment '{found.segment}'",
        loaded=True,
        ran=True,
        agrees=False,
        max_abs=found.max_abs,
        reason=f"the outputs of a segment differ: {found.sentence}",
    )


def _coverage(found: SegmentReport) -> Coverage:
    pieces = frozenset(f"piece '{name}'" for name in (*found.equal, *found.compared))
    return Coverage(branches=frozenset(found.reached), pieces=pieces)
