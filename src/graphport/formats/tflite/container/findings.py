"""Collect the errors of a file while it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source

MAX_ERRORS = 50
"""Number of errors after which reading stops."""


class Findings:
    """Diagnostics of one file with their locations."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[Diagnostic] = []

    def span(self, place: str | None) -> Span:
        """Return a location in the file."""
        return Span(self.source, place=place)

    def error(self, code: str, message: str, place: str | None = None, help: str | None = None) -> None:
        """Add an error.

        Raises:
            DiagnosticError: the maximum number of errors is reached.
        """
        self.found.append(Diagnostic(code, message, self.span(place), help))
        if len(self.found) > MAX_ERRORS:
            self.settle()

    def warning(self, code: str, message: str, place: str | None = None, help: str | None = None) -> None:
        """Add a warning."""
        if len(self.found) <= MAX_ERRORS:
            self.found.append(Diagnostic(code, message, self.span(place), help, Severity.WARNING))

    def settle(self) -> list[Diagnostic]:
        """Return the warnings.

        Raises:
            DiagnosticError: there are errors.
        """
        if any(finding.is_error for finding in self.found):
            raise DiagnosticError(*self.found)
        return self.found
