"""A proof while it is made: two sides, what passes between them, who was asked and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.comparison.metrics import RELATIVE
from graphport.comparison.precision import QUANTIZED, quantized_snr
from graphport.ir import own_rounding
from graphport.proof.alignment import Evidence
from graphport.proof.document import OutputProof
from graphport.proof.runners import Runner
from graphport.proof.test_inputs import TestInput

if TYPE_CHECKING:
    from graphport.backends.relations import Relations
    from graphport.proof.side import Side

_BETWEEN_STEPS = 40.0
"""Decibels that outputs keep where only sums in the middle of two steps are rounded to another one."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What passes as equal: `relative` to the largest number, or from `least_snr` decibels on for a reason."""

    relative: float = RELATIVE
    least_snr: float | None = None
    reason: str = ""
    of_steps: bool = False
    """Whether short integers stand for real numbers."""


@dataclass(eq=False)
class Case:
    """A proof while it is made."""

    a: Side
    b: Side
    tolerance: Tolerance
    is_full: bool = False
    unfinished: str | None = None
    """The runtime that was stopped at a limit of time or memory, and at which; no more draws are computed then."""
    witnesses: list[Runner] = field(default_factory=list[Runner])
    notes: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])
    draws: list[TestInput] = field(default_factory=list[TestInput])
    worst: dict[int, OutputProof] = field(default_factory=dict[int, OutputProof])
    evidence: dict[int, Evidence] = field(default_factory=dict[int, Evidence])
    disagreeing: set[Runner] = field(default_factory=set[Runner])
    close: set[tuple[Runner, Runner, int]] = field(default_factory=set["tuple[Runner, Runner, int]"])
    """Which two agree on an output to the last places in a draw of ordinary numbers."""
    relations: Relations | None = None
    """Which open extents the first side takes in terms of others, as far as that was looked for."""
    reported: set[tuple[Runner, int]] = field(default_factory=set["tuple[Runner, int]"])


def of_steps(a: Side, b: Side, tolerance: Tolerance) -> Tolerance:
    """What passes where a runtime rounds quantized numbers to a neighbour of what others round them to."""
    runtimes = [side.runtime for side in (a, b) if side.runtime is not None and side.runtime.is_installed]
    least = quantized_snr(a.graph)
    own = next((each for each in runtimes if each.rounds_to_steps), None)
    reason = "rounds quantized numbers to a neighbour here and there"
    if own is None and least is not None:
        own, least = next((each for each in runtimes if each.sums_otherwise), None), max(least, _BETWEEN_STEPS)
        reason = "adds sums in another order, which rounds one in the middle of two steps to the other"
    for side in (a, b):
        words = own_rounding.words(side.graph)
        if words and side.runtime in runtimes and side.runtime is not None and side.runtime.rounds_to_steps:
            own, least = side.runtime, QUANTIZED
            reason = f"rounds the reals that {', '.join(words)} of {side.label} read to bytes"
    if own is None or least is None:
        return tolerance
    if tolerance.least_snr is not None:
        least = min(least, tolerance.least_snr)
    return Tolerance(tolerance.relative, least, f"{own.title} {reason}", of_steps=True)
