"""The state of a proof while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.comparison.metrics import RELATIVE
from graphport.comparison.precision import QUANTIZED, quantized_snr
from graphport.ir import implicit_rounding
from graphport.proof.alignment import Evidence
from graphport.proof.coverage.record import Coverage
from graphport.proof.document import OutputProof
from graphport.proof.run import Run
from graphport.proof.runners import Runner
from graphport.proof.test_inputs import TestInput
from graphport.proof.verdict import Matrix, is_refuted
from graphport.runtimes.relations import format_relations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.comparison.metrics import Difference
    from graphport.proof.side import Side
    from graphport.runtimes.relations import Relations

BETWEEN_STEPS = 40.0
"""SNR in dB that an output keeps if only sums halfway between two integers are rounded in the opposite direction."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Limit of equality: `relative` to the largest magnitude, or a minimum SNR of `least_snr` dB."""

    relative: float = RELATIVE
    least_snr: float | None = None
    reason: str = ""
    of_steps: bool = False
    """Whether integers of 16 bits or less are quantized values."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of a proof's processor time beyond the standard test inputs."""

    seconds: float = 5.0
    """Seconds for the search for test inputs that reach uncovered parts or make the files differ."""
    asks_reference: bool = False
    """Whether the reference interpreter computes both sides as well, however long it takes."""


@dataclass(eq=False)
class Case:
    """The state of a proof while it runs."""

    a: Side
    b: Side
    tolerance: Tolerance
    effort: Effort
    interface: list[str] = field(default_factory=list[str])
    """Differences of the interface, which end the proof."""
    limit: str | None = None
    """The runtime that was stopped at a limit of time or memory, and which; nothing more is computed then."""
    runners: list[Runner] = field(default_factory=list[Runner])
    one_at_a_time: bool = False
    """Whether the files are so large that one runtime is loaded at a time."""
    batch: list[TestInput] = field(default_factory=list[TestInput])
    """The next test inputs; a loaded runtime computes all of them."""
    computed: dict[tuple[Runner, int], list[Any]] = field(default_factory=dict["tuple[Runner, int]", "list[Any]"])
    """Outputs that were computed before they were needed, by runner and identity of the test input."""
    carriers: dict[str, Runner] = field(default_factory=dict[str, Runner])
    """The runner that represents each side, by its letter."""
    runs: list[Run] = field(default_factory=list[Run])
    coverage: Coverage = field(default_factory=Coverage)
    notes: list[str] = field(default_factory=list[str])
    test_inputs: list[TestInput] = field(default_factory=list[TestInput])
    """Those that both sides computed."""
    worst: dict[int, OutputProof] = field(default_factory=dict[int, OutputProof])
    evidence: dict[int, Evidence] = field(default_factory=dict[int, Evidence])
    close: set[tuple[Runner, Runner, int]] = field(default_factory=set["tuple[Runner, Runner, int]"])
    """Outputs, by position, on which two runners agreed tightly for ordinary values."""
    are_readings_compared: bool = False
    """Whether quantized outputs that agree loosely were compared as graphport reads both files."""
    relations: Relations | None = None
    """Open dims of side `a` in terms of others, as far as that was searched."""
    has_independent_samples: bool = False
    """Whether both sides compute each sample of a batch independently, at a cost that matters."""
    noted: set[tuple[Runner, int]] = field(default_factory=set["tuple[Runner, int]"])
    """Outputs with a note that another runner of the same side disagrees."""

    def side(self, letter: str) -> Side:
        """Return side `a` or `b`."""
        return self.a if letter == "a" else self.b

    @property
    def is_refuted(self) -> bool:
        """Whether the proof has failed; later runs cannot change that."""
        return is_refuted(self.matrix())

    def matrix(self, obstacle: str | None = None) -> Matrix:
        """Return the input of the verdict; `obstacle` is the reason why nothing was compared, if so."""
        labels = {"a": self.a.label, "b": self.b.label}
        titles = {runner.runtime: runner.title for runner in self.runners}
        relations = format_relations(self.relations or {})
        return Matrix(
            tuple(self.runs),
            labels,
            titles,
            self.coverage,
            frozenset(side.letter for side in (self.a, self.b) if side.path is None),
            relations,
            tuple(self.interface),
            obstacle,
        )

    def record(
        self,
        runner: Runner,
        label: str = "",
        found: Sequence[Difference] | None = None,
        *,
        fault: str | None = None,
        is_excused: bool = False,
    ) -> None:
        """Add the run of a test input to the matrix, with the differences from the compared outputs.

        Without a label the file was not loaded. `fault` describes further errors of the outputs; see `Run` for
        `is_excused`.
        """
        ran = bool(label) and runner.failure is None
        wrong = next((each for each in found or () if not each.passed), None)
        reason = fault or (runner.reason if wrong is None else f"the outputs differ: {describe(wrong)}")
        self.runs.append(
            Run(
                runner.side.letter,
                runner.runtime,
                runner.version,
                runner.configuration,
                label,
                loaded=runner.is_loaded,
                ran=ran,
                agrees=None if found is None or not ran else wrong is None and fault is None,
                max_abs=_largest(found or ()),
                snr_db=min((each.snr_db for each in found or () if each.snr_db is not None), default=None),
                reason=reason,
                failure=runner.failure,
                is_known_reader=runner.is_native and runner.side.has_known_reader,
                is_excused=is_excused and wrong is not None,
            )
        )


def _largest(found: Sequence[Difference]) -> float | None:
    return max((each.max_abs for each in found if each.max_abs is not None), default=None)


def describe(each: Difference) -> str:
    """Describe the difference of an output in a phrase."""
    what = each.reason or f"differs by {each.max_abs:.3g}"
    where = f", first at {list(each.first)}" if each.first is not None else ""
    return f"{each.name or 'an output'} {what}{where}"


def tolerance_between(a: Side, b: Side, tolerance: Tolerance) -> Tolerance:
    """Return the tolerance for two files, larger if a runtime may round quantized values to an adjacent integer."""
    runtimes = [side.runtime for side in (a, b) if side.runtime is not None and side.runtime.is_installed]
    least = quantized_snr(a.graph)
    own = next((each for each in runtimes if each.rounds_to_steps), None)
    reason = "rounds some quantized values to a neighbour"
    if own is None and least is not None:
        own, least = next((each for each in runtimes if each.sums_otherwise), None), max(least, BETWEEN_STEPS)
        reason = "adds floats in another order, which rounds values halfway between two integers the other way"
    for side in (a, b):
        words = implicit_rounding.rounded_operators(side.graph)
        if words and side.runtime in runtimes:
            own, least = side.runtime, QUANTIZED
            reason = f"rounds the floats that {', '.join(words)} of {side.label} read to 8 bits"
    if own is None or least is None:
        return tolerance
    if tolerance.least_snr is not None:
        least = min(least, tolerance.least_snr)
    return Tolerance(tolerance.relative, least, f"{own.title} {reason}", of_steps=True)
