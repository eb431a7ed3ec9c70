"""Models whose write was interrupted: refuse incomplete ones, and report the marker files of others."""

from __future__ import annotations

from pathlib import Path

from graphport.core.atomic_write import interrupted_with, interruption
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from graphport.core.regular_files import belonging

_GRAPHS = {".caffemodel": ".prototxt"}
"""Extensions of weight files that are opened like models, and of the graph file that each is written with."""


def graph_of(path: Path) -> Path:
    """The file of a model that a writer moves into place last."""
    return path.with_suffix(_GRAPHS[path.suffix]) if path.suffix in _GRAPHS else path


def refuse_incomplete(path: Path) -> None:
    """Refuse a model whose writer, run by this user, was stopped between two renames.

    Raises:
        DiagnosticError: IO0012.
    """
    graph = _graph_file(path)
    found = interruption(graph)
    if found is None and not graph.exists():
        found = interrupted_with(graph) if graph.parent.exists() else interruption(graph.parent)
    if found is None or not found.is_incomplete:
        return
    missing = ", ".join(found.missing)
    message = f"{path.name} is incomplete: its writer was interrupted before it stored {missing}"
    remedy = f"to finish, run the command that wrote {path.name} again"
    if found.restore:
        remedy += f"; to restore the old files, run in {found.marker.parent}: {found.restore}"
    raise DiagnosticError(Diagnostic("IO0012", message, Span(Source(str(path))), remedy))


def report_marker(path: str | Path) -> list[Diagnostic]:
    """Return a warning if a journal of an interrupted write is next to a model that is read."""
    found = interruption(_graph_file(Path(path)))
    if found is None:
        return []
    message = f"{found.marker.name} records an interrupted write of this model, and cannot be used to complete it"
    remedy = "remove it, or write the model again: graphport removes its leftover files of the same user"
    return [Diagnostic("IO0013", message, Span(Source(str(found.marker))), remedy, Severity.WARNING)]


def _graph_file(path: Path) -> Path:
    graph = graph_of(path)
    return graph if graph is path else belonging(graph, path)
