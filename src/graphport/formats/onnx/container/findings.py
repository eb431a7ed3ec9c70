"""Collector of the diagnostics of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

LISTED_FINDINGS = 200
"""Diagnostics that are listed; further ones are counted."""


class Findings:
    """The findings of one file, in the order in which they were made."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.left_out = 0

    def error(self, code: str, message: str, place: str, help: str | None = None) -> None:
        """Something that makes the file unusable."""
        self._add(Diagnostic(code, message, self.span(place), help))

    def warning(self, code: str, message: str, place: str, help: str | None = None) -> None:
        """Report a problem that does not prevent reading."""
        self._add(Diagnostic(code, message, self.span(place), help, Severity.WARNING))

    def span(self, place: str) -> Span:
        """Return a span for a location text."""
        return Span(self.source, place=place or None)

    def raise_errors(self, warnings: list[Diagnostic] | None = None) -> None:
        """Raise all diagnostics if one is an error, else add them to `warnings`."""
        if self.left_out:
            note = Diagnostic(
                "ONNX0009", f"{self.left_out} more findings are not shown", self.span(""), severity=Severity.NOTE
            )
            self.diagnostics.append(note)
            self.left_out = 0
        if any(finding.is_error for finding in self.diagnostics):
            raise DiagnosticError(*self.diagnostics)
        if warnings is not None:
            warnings.extend(self.diagnostics)

    def _add(self, finding: Diagnostic) -> None:
        # The first error is always listed, regardless of the number of warnings before it.
        is_first_error = finding.is_error and not any(each.is_error for each in self.diagnostics)
        if len(self.diagnostics) < LISTED_FINDINGS or is_first_error:
            self.diagnostics.append(finding)
        else:
            self.left_out += 1


def listed(names: Iterable[str], most: int = 8) -> str:
    """The first few of many names, for a sentence."""
    everything = list(names)
    text = ", ".join(everything[:most])
    return f"{text} and {len(everything) - most} more" if len(everything) > most else text
