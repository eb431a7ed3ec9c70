"""What a report can be seen as."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "graphport/report/1"
"""Of the document; its JSON schema lies beside this module, as `schema/report-1.json`."""

FORMATS = ("html", "svg", "json", "csv", "md")
FIGURES = ("error", "noise", "front", "work")
"""What matplotlib draws for papers."""


def format_of(path: Path) -> str:
    """The view that a file of this name has.

    Raises:
        DiagnosticError: IO0009, none.
    """
    ending = path.suffix.removeprefix(".").lower()
    found = {"htm": "html", "markdown": "md"}.get(ending, ending)
    if found not in FORMATS:
        message = f"{path.name} is called like no view of a report"
        remedy = f"end it with .{', .'.join(FORMATS)}, or name a format"
        raise DiagnosticError(Diagnostic("IO0009", message, Span(Source(str(path))), remedy))
    return found
