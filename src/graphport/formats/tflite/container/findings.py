"""What is wrong with a file, collected while it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source

_MOST = 50
"""Errors after which nothing more is looked for."""


class Findings:
    """Findings on one file, with the places that they are at."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[Diagnostic] = []

    def span(self, place: str | None) -> Span:
        """A place in the file."""
        return Span(self.source, place=place)

    def error(self, code: str, message: str, place: str | None = None, help: str | None = None) -> None:
        """Note an error.

        Raises:
            DiagnosticError: there are many by now.
        """
        self.found.append(Diagnostic(code, message, self.span(place), help))
        if len(self.found) > _MOST:
            self.settle()

    def warning(self, code: str, message: str, place: str | None = None, help: str | None = None) -> None:
        """Note a warning."""
        if len(self.found) <= _MOST:
            self.found.append(Diagnostic(code, message, self.span(place), help, Severity.WARNING))

    def settle(self) -> list[Diagnostic]:
        """The warnings.

        Raises:
            DiagnosticError: there are errors.
        """
        if any(finding.is_error for finding in self.found):
            raise DiagnosticError(*self.found)
        return self.found
