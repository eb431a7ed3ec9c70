"""Errors of a Keras file, collected while it is read."""

from __future__ import annotations

from typing import Never

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span

_MAX_REPORTED = 100
"""Errors of one file that are reported."""
EXPORT = "export a SavedModel with model.export('folder') in Keras: it contains the computation of custom classes"


class Findings:
    """The findings of one file, each with its place in the configuration."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []

    def span(self, place: str) -> Span:
        """A location in the file, described in text."""
        return Span(self.source, place=place)

    def error(self, code: str, message: str, place: str, help: str) -> None:
        """Record an error."""
        if len(self.diagnostics) < _MAX_REPORTED:
            self.diagnostics.append(Diagnostic(code, message, self.span(place), help))

    def warn(self, code: str, message: str, place: str, help: str) -> None:
        """Record a warning."""
        if len(self.diagnostics) < _MAX_REPORTED:
            self.diagnostics.append(Diagnostic(code, message, self.span(place), help, Severity.WARNING))

    def refuse(self, code: str, message: str, place: str, help: str) -> Never:
        """Refuse the file.

        Raises:
            DiagnosticError: all errors so far and this one.
        """
        self.error(code, message, place, help)
        raise DiagnosticError(*self.diagnostics)

    def raise_errors(self) -> None:
        """Refuse the file if there are errors.

        Raises:
            DiagnosticError: all findings.
        """
        if any(each.is_error for each in self.diagnostics):
            raise DiagnosticError(*self.diagnostics)
