"""Survey calibration data once before any work: errors, and properties of a poor choice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.quantization.samples import real_type

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.quantization.samples import Progress, Sample, Samples

Array: TypeAlias = "np.ndarray[Any, Any]"

FEWEST = 8
"""Minimum number of samples to hold some out."""
_FEWEST_MEASURED = 16
"""Minimum number of samples for a reported accuracy without a warning."""
_ENOUGH = 64


@dataclass(slots=True, eq=False)
class _Column:
    """Statistics of one float input."""

    low: float = np.inf
    high: float = -np.inf
    broken: int = 0
    first_broken: int = 0
    is_rounded: bool = False

    def see(self, number: int, given: Array, taken: Array) -> None:
        """Add sample `number`, as given and in the type of the input."""
        low, high = float(taken.min(initial=np.inf)), float(taken.max(initial=-np.inf))
        # Minimum and maximum propagate NaN.
        if taken.size and not (np.isfinite(low) and np.isfinite(high)):
            self.first_broken = self.first_broken if self.broken else number
            self.broken += 1
            return
        self.low, self.high = min(self.low, low), max(self.high, high)
        if given.dtype != taken.dtype and not self.is_rounded:
            wide = np.promote_types(np.float64, given.dtype) if given.dtype.kind == "f" else np.dtype(np.float64)
            self.is_rounded = not np.array_equal(given.reshape(-1).astype(wide), taken.reshape(-1).astype(wide))


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Result of a survey: requested samples by number, and properties of all samples."""

    taken: dict[int, Sample]
    findings: tuple[Diagnostic, ...]


@dataclass(slots=True, eq=False)
class _Surveyor:
    samples: Samples
    columns: dict[str, _Column] = field(default_factory=dict[str, _Column])
    first: dict[str, Array] | None = None
    are_alike: bool = True

    def see(self, number: int, sample: Sample) -> None:
        """Check one sample against the inputs."""
        found = self._run(number, sample)
        for value in self.samples.graph.inputs:
            taken, given = found[value.name], sample.get(value.name, self.samples.fixed.get(value.name))
            if real_type(value) is not None and given is not None:
                self.columns.setdefault(value.name, _Column()).see(number, given, taken)
        if self.first is None:
            self.first = {name: np.array(x) for name, x in sample.items()}
        elif self.are_alike:
            self.are_alike = all(np.array_equal(x, self.first[name]) for name, x in sample.items())

    def _run(self, number: int, sample: Sample) -> dict[str, Any]:
        try:
            return self.samples.run([sample])
        except DiagnosticError as error:
            stated = (
                Diagnostic("QUANT0002", f"sample {number} (counted from 0): {finding.message}", None, finding.help)
                for finding in error.diagnostics
            )
            raise DiagnosticError(*stated) from error

    def refuse(self) -> None:
        """Report each input that contains NaN or infinity."""
        count = self.samples.count
        findings = [
            Diagnostic(
                "QUANT0003",
                f"the calibration data of {name} contain NaN or infinity: {column.broken} of {count} samples, "
                f"the first has index {column.first_broken}",
                None,
                "remove the samples that contain NaN or infinity",
            )
            for name, column in self.columns.items()
            if column.broken
        ]
        if findings:
            raise DiagnosticError(*findings)

    def findings(self) -> list[Diagnostic]:
        """Return notes and warnings."""
        known = {value.name: real_type(value) for value in self.samples.graph.inputs}
        found = [
            Diagnostic(
                "QUANT0018",
                f"the calibration data of {name!r} are rounded to {known[name]}, the type of the input",
                None,
                None,
                Severity.NOTE,
            )
            for name, column in self.columns.items()
            if column.is_rounded
        ]
        same = [(name, column.low) for name, column in self.columns.items() if column.low == column.high]
        found += [_warning(f"all elements of the calibration data of {name!r} are {low:g}") for name, low in same]
        count = self.samples.count
        if not same and self.are_alike and count > 1:
            found.append(_warning(f"all {count} samples are equal"))
        if count < FEWEST:
            number = "a single sample determines" if count == 1 else f"all {count} samples determine"
            found.append(
                _warning(
                    f"{number} both the ranges and the reported accuracy; "
                    f"with {FEWEST} or more, some are held out for evaluation"
                )
            )
        elif count < _FEWEST_MEASURED:
            held = "the reported accuracy is measured on few of them, and may be several dB too high"
            found.append(_warning(f"there are only {count} samples: {held}"))
        return found


def _warning(message: str) -> Diagnostic:
    remedy = (
        f"pass {_ENOUGH} or more representative samples: ranges and reported accuracy are valid only for similar data"
    )
    return Diagnostic("QUANT0017", message, None, remedy, Severity.WARNING)


def survey(samples: Samples, wanted: Collection[int] = (), on_progress: Progress | None = None) -> Survey:
    """Survey all samples, and keep those whose numbers are `wanted`; `on_progress` receives the progress.

    Raises:
        DiagnosticError: QUANT0001 they cannot be read, QUANT0002 one does not fit, QUANT0003 NaN or infinity.
    """
    surveyor = _Surveyor(samples)
    taken: dict[int, Sample] = {}
    for number, sample in enumerate(samples.iterate()):
        surveyor.see(number, sample)
        if number in wanted:
            taken[number] = sample
        if on_progress is not None:
            on_progress("look through", number + 1, max(samples.count, 1))
    surveyor.refuse()
    return Survey(taken, tuple(surveyor.findings()))
