"""The verdict of a proof: the sentence and the exit code, computed from the matrix of runs and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

from graphport.proof.coverage.record import Coverage
from graphport.proof.run import Configuration, Failure, Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_LISTED = 4
"""Uncovered parts that the sentence lists; JSON lists all."""


class Verdict(StrEnum):
    """The result of a proof, from the strongest to the weakest."""

    VERIFIED = "verified"
    """Native runtimes ran both files as users start them, on every test input; the outputs agree; all is covered."""
    WHERE_COVERED = "verified where covered"
    """The same, but some part of the model was never reached."""
    CONSISTENT = "consistent"
    """The outputs agree, but for a side only graphport's own reading was available."""
    NOT_VERIFIED = "not verified"
    """Nothing was compared: a deadline, no memory, no valid inputs."""
    FAILED = "verification failed"
    """The outputs or the interface differ, or the runtime that the file is written for rejects it."""

    @property
    def passed(self) -> bool:
        """Whether outputs of both sides were compared and agree."""
        return self in {Verdict.VERIFIED, Verdict.WHERE_COVERED, Verdict.CONSISTENT}


@dataclass(frozen=True, slots=True)
class Matrix:
    """Everything that a verdict is computed from."""

    runs: tuple[Run, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the sides `a` and `b` are called."""
    titles: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of runtimes for people."""
    coverage: Coverage = field(default_factory=Coverage)
    without_file: frozenset[str] = frozenset()
    """Sides that are models in memory, which no other program can compute."""
    relations: tuple[str, ...] = ()
    """Open dims in terms of others, which no node states: the sizes that run."""
    interface: tuple[str, ...] = ()
    """Differences of inputs and outputs that the user did not ask for."""
    obstacle: str | None = None
    """Why no test input could be computed or why the outputs prove nothing, if so."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Labels of the test inputs that side `a` computed."""
        return tuple(dict.fromkeys(run.input for run in self.runs if run.side == "a" and run.ran))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, its sentence for people, and the exit code."""

    verdict: Verdict
    detail: str
    exit_code: int

    @property
    def sentence(self) -> str:
        """The verdict and its detail."""
        return f"{self.verdict}: {self.detail}"


def decide(matrix: Matrix, *, is_demanded: bool = False, is_strict: bool = False) -> Outcome:
    """Compute the verdict of a matrix of runs.

    Args:
        matrix: the runs and comparisons.
        is_demanded: `--verify`: exit code 1 unless native runtimes computed the files and the outputs agree.
        is_strict: `--strict`: exit code 1 if anything is uncovered.
    """
    verdict, detail = _judge(matrix)
    refused = {Verdict.FAILED}
    if is_demanded:
        refused.add(Verdict.NOT_VERIFIED)
    if is_demanded and not set(_unread_sides(matrix)) <= matrix.without_file:
        refused.add(Verdict.CONSISTENT)
    if is_strict:
        refused |= {Verdict.WHERE_COVERED, Verdict.CONSISTENT, Verdict.NOT_VERIFIED}
    return Outcome(verdict, detail, 1 if verdict in refused else 0)


def is_refuted(matrix: Matrix) -> bool:
    """Whether the verdict of a matrix is a failure that further runs cannot change."""
    return _first_fault(matrix) is not None


def _judge(matrix: Matrix) -> tuple[Verdict, str]:
    fault = _first_fault(matrix)
    if fault is not None:
        return Verdict.FAILED, fault
    compared = _compared_inputs(matrix)
    if matrix.obstacle is not None or not compared:
        return Verdict.NOT_VERIFIED, matrix.obstacle or _lack(matrix)
    agreement = _agreement(matrix, compared)
    unread = _unread_sides(matrix)
    if unread:
        return Verdict.CONSISTENT, f"{agreement}; {_unread(matrix, unread)}"
    never = [*matrix.coverage.never, *_uncarried(matrix, compared)]
    if never:
        return Verdict.WHERE_COVERED, f"{agreement}; never executed: {_shortened(never)}"
    return Verdict.VERIFIED, agreement


def _unread_sides(matrix: Matrix) -> list[str]:
    compared = _compared_inputs(matrix)
    excused = {run.side for run in matrix.runs if run.is_excused}
    return [side for side in "ab" if side in excused or not _native_inputs(matrix.runs, side) & compared]


def _first_fault(matrix: Matrix) -> str | None:
    """Return the first fault that refutes the written file, interface differences first."""
    if matrix.interface:
        return f"the interface differs: {'; '.join(matrix.interface)}"
    for run in matrix.runs:
        if is_refused(run, matrix.runs):
            return f"{name(run, matrix)} rejects it: {run.reason}"
    for run in matrix.runs:
        if run.agrees is False and not run.is_excused and _represents(run, matrix.runs):
            return f"{run.reason}{_by(run, matrix)} ({run.input})"
    return None


def is_refused(run: Run, runs: Sequence[Run]) -> bool:
    """Whether a runtime refuses the written file that it has to take.

    A runtime that refuses the source file alike does not count, nor one that lacks an operator of a file that other
    runtimes may read.
    """
    if run.side != "b" or run.configuration is not Configuration.DEFAULT or run.ran:
        return False
    if run.failure is Failure.LACKING and not run.is_known_reader:
        return False
    if run.failure not in {Failure.LACKING, Failure.REJECTED}:
        return False
    sources = [each for each in runs if each.side == "a"]
    if run.loaded:  # it refuses a test input, which the source may refuse as well
        own = [each for each in sources if each.input == run.input]
        return any(each.ran for each in own) and not any(each.failure is Failure.REJECTED for each in own)
    return not any(each.runtime == run.runtime and not each.loaded and each.failure is run.failure for each in sources)


def _represents(run: Run, runs: Iterable[Run]) -> bool:
    """Whether a difference of this run refutes the file: it is native, or no native run of side `b` has this input."""
    if run.side != "b":
        return False
    return run.is_native or not any(
        each.side == "b" and each.is_native and each.ran and each.input == run.input for each in runs
    )


def _compared_inputs(matrix: Matrix) -> set[str]:
    return {run.input for run in matrix.runs if run.side == "b" and run.agrees and _represents(run, matrix.runs)}


def _native_inputs(runs: Iterable[Run], side: str) -> set[str]:
    """Return the inputs that a side's runtime computed with default settings, without results known to be wrong."""
    return {
        run.input
        for run in runs
        if run.side == side and run.ran and run.configuration is Configuration.DEFAULT and run.agrees is not False
    }


def _uncarried(matrix: Matrix, compared: set[str]) -> list[str]:
    """Return the source's test inputs that both runtimes' default configurations did not compute and compare."""
    carried = _native_inputs(matrix.runs, "a") & _native_inputs(matrix.runs, "b") & compared
    return [f"test input '{label}'" for label in matrix.inputs if label not in carried]


def _agreement(matrix: Matrix, compared: set[str]) -> str:
    agreeing = [run for run in matrix.runs if run.ran and _agrees(run, matrix, compared)]
    names = [text for _, text in dict.fromkeys((run.side, name(run, matrix)) for run in agreeing)]
    difference = _difference(matrix)
    sizes = len(matrix.coverage.sizes)
    of_sizes = f" of {sizes} sizes" if sizes > 1 else ""
    if matrix.relations:
        first, *others = matrix.relations
        more = f" and {len(others)} more (--json lists all)" if others else ""
        of_sizes += f" ({first}{more}, taken from what runs)"
    return f"{_listed(names)} agree on {_count(len(compared), 'test input')}{of_sizes}, {difference}"


def _difference(matrix: Matrix) -> str:
    """Format the largest difference of the tight comparison, and the SNR of default configurations outside it."""
    compared = [run for run in matrix.runs if run.side == "b" and run.agrees and _represents(run, matrix.runs)]
    strict = {run.input for run in compared if run.configuration is Configuration.STRICT}
    strict |= {run.input for run in matrix.runs if run.side == "a" and run.configuration is Configuration.STRICT}
    tight = [run for run in compared if run.configuration is not Configuration.DEFAULT or run.input not in strict]
    loose = [run.snr_db for run in compared if run not in tight and run.snr_db is not None and run.snr_db < inf]
    largest = max((run.max_abs or 0.0 for run in tight or compared), default=0.0)
    text = f"largest difference {largest:.2g}" if largest else "the outputs are equal"
    return f"{text} ({min(loose):.0f} dB with default settings)" if loose else text


def _agrees(run: Run, matrix: Matrix, compared: set[str]) -> bool:
    """Whether a runtime computed every compared test input and agreed wherever it was compared."""
    own = [
        each
        for each in matrix.runs
        if (each.side, each.runtime, each.is_native) == (run.side, run.runtime, run.is_native)
    ]
    ran = {each.input for each in own if each.ran}
    return compared <= ran and all(each.agrees is not False or each.is_excused for each in own)


def _lack(matrix: Matrix) -> str:
    """Return why nothing was compared: the reason of the first failed run."""
    for side in "ba":
        reasons = [f"{name(run, matrix)}: {run.reason}" for run in matrix.runs if run.side == side and run.reason]
        if reasons and not any(run.side == side and run.ran for run in matrix.runs):
            return reasons[0]
    return "no test input was computed from both files"


def _unread(matrix: Matrix, sides: Sequence[str]) -> str:
    if set(sides) <= matrix.without_file:
        return f"{' and '.join(matrix.labels.get(side, side) for side in sides)} is in memory, without a file"
    excused = [run for run in matrix.runs if run.side in sides and run.is_excused]
    if excused and {run.side for run in excused} == set(sides):
        worst = min(excused, key=lambda run: run.snr_db or 0.0)
        kept = f"keeps {worst.snr_db or 0.0:.1f} dB"
        return f"{name(worst, matrix)} with its default settings, which merge quantized layers, {kept}"
    files = " or ".join(matrix.labels.get(side, side) for side in sides)
    reasons = [
        f"{matrix.titles.get(run.runtime, run.runtime)}: {run.reason}"
        for run in matrix.runs
        if run.side in sides and run.is_native and run.reason
    ]
    why = f" ({'; '.join(dict.fromkeys(reasons))})" if reasons else ""
    return f"no other program computed {files}{why}"


def name(run: Run, matrix: Matrix) -> str:
    """Format runtime and file of a run."""
    title = matrix.titles.get(run.runtime, run.runtime)
    label = matrix.labels.get(run.side, run.side)
    return f"{title} on {label}" if run.is_native else f"{title} on {label} as graphport reads it"


def _by(run: Run, matrix: Matrix) -> str:
    if run.configuration is not Configuration.DEFAULT:
        return ""
    return f" in {matrix.titles.get(run.runtime, run.runtime)} with its default settings"


def _shortened(phrases: Sequence[str]) -> str:
    found = list(dict.fromkeys(phrases))
    more = f"; and {len(found) - MAX_LISTED} more (--json lists all)" if len(found) > MAX_LISTED else ""
    return "; ".join(found[:MAX_LISTED]) + more


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
