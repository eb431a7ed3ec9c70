"""Collector of the diagnostics of a network."""

from __future__ import annotations

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span

LISTED_FINDINGS = 200
"""Diagnostics that are listed; further ones are counted."""


class Findings:
    """Diagnostics of one network in order of creation."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.left_out = 0

    def error(self, code: str, message: str, span: Span | None, help: str | None = None) -> None:
        """Add an error."""
        self._add(Diagnostic(code, message, span, help))

    def warn(self, code: str, message: str, span: Span | None, help: str | None = None) -> None:
        """Add a warning."""
        self._add(Diagnostic(code, message, span, help, Severity.WARNING))

    def _add(self, finding: Diagnostic) -> None:
        if len(self.diagnostics) < LISTED_FINDINGS or (finding.is_error and not self.has_errors):
            self.diagnostics.append(finding)
        else:
            self.left_out += 1

    @property
    def has_errors(self) -> bool:
        """Whether one of the diagnostics is an error."""
        return any(finding.is_error for finding in self.diagnostics)

    def raise_errors(self) -> None:
        """Raise all diagnostics if one is an error.

        Raises:
            DiagnosticError: all diagnostics.
        """
        if self.has_errors:
            raise DiagnosticError(*self.all_findings())

    def all_findings(self) -> list[Diagnostic]:
        """Return all diagnostics; the last one counts the omitted ones."""
        if not self.left_out:
            return self.diagnostics
        message = f"{self.left_out} further findings are not shown"
        rest = Diagnostic("CAFFE0001", message, None, "fix the errors above first", Severity.NOTE)
        return [*self.diagnostics, rest]
