"""Refusals of TensorFlow files."""

from __future__ import annotations

from typing import Never

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span

EXPORT = "freeze the model in TensorFlow, or export it in another way"


class Findings:
    """The warnings of one file, and how it is refused."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []

    def span(self, place: str) -> Span:
        """A location in the file, as text."""
        return Span(self.source, place=place)

    def warn(self, code: str, message: str, place: str, help: str) -> None:
        """Record a warning."""
        self.diagnostics.append(Diagnostic(code, message, self.span(place), help, Severity.WARNING))

    def refuse(self, code: str, message: str, place: str, help: str) -> Never:
        """Refuse the file.

        Raises:
            DiagnosticError: with the error and the warnings so far.
        """
        raise DiagnosticError(Diagnostic(code, message, self.span(place), help), *self.diagnostics)
