"""Diagnostics of checkpoints."""

from __future__ import annotations

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span


def fault(code: str, message: str, source: Source, place: str | None = None, remedy: str = "") -> DiagnosticError:
    """Return the error of one diagnostic."""
    return DiagnosticError(Diagnostic(code, message, Span(source, place=place), remedy or None))


def note(code: str, message: str, source: Source, remedy: str = "") -> Diagnostic:
    """Return a warning."""
    return Diagnostic(code, message, Span(source), remedy or None, Severity.WARNING)
