"""Formats and figures of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "graphport/report/1"
"""Identifier of the document's JSON schema, `schema/report-1.json`."""

FORMATS = ("html", "svg", "json", "csv", "md")
FIGURES = ("error", "noise", "front", "work")
"""Figures drawn with matplotlib."""


def format_of(path: Path) -> str:
    """Return the view that a file extension selects.

    Raises:
        DiagnosticError: IO0009: the extension is not that of a view.
    """
    ending = path.suffix.removeprefix(".").lower()
    found = {"htm": "html", "markdown": "md"}.get(ending, ending)
    if found not in FORMATS:
        message = f"unknown report format: {path.name}"
        remedy = f"use the extension .{', .'.join(FORMATS)}, or pass a format"
        raise DiagnosticError(Diagnostic("IO0009", message, Span(Source(str(path))), remedy))
    return found
