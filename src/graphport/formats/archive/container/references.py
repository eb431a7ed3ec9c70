"""Checks that the sections of an archive refer to objects of its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Diagnostic, Severity, Span
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source
    from graphport.ir.documents import Document, Documents
    from graphport.ir.graph import Graph

_ROWS = (("dispatch", "nodes", "node"), ("quantization", "grids", "value"))
"""Sections, their lists of rows, and the entry of a row that names a node or a value."""


def dangling(graph: Graph, documents: Documents, source: Source) -> list[Diagnostic]:
    """Return a warning for each section that names values or nodes which are missing in the graph."""
    found: list[Diagnostic] = []
    names: set[str] | None = None
    for section, rows, entry in _ROWS:
        stated = _names(getattr(documents, section), rows, entry)
        if not stated:
            continue
        names = _value_names(graph) if names is None else names
        missing = [name for name in stated if name not in names]
        if missing:
            message = f"the section {section!r} refers to {missing[0]!r}, which does not exist in the graph"
            more = f", and {len(missing) - 1} others" if len(missing) > 1 else ""
            span = Span(source, place=f"member '{section}.json'")
            remedy = "write the archive again: the section belongs to another graph"
            found.append(Diagnostic("IO0217", message + more, span, remedy, Severity.WARNING))
    return found


def _names(document: Document, rows: str, entry: str) -> list[str]:
    listed = None if document is None else document.get(rows)
    if not isinstance(listed, list):
        return []
    dicts = [cast("dict[str, Any]", row) for row in cast("list[object]", listed) if isinstance(row, dict)]
    return [row[entry] for row in dicts if isinstance(row.get(entry), str)]


def _value_names(graph: Graph) -> set[str]:
    found: set[str] = set()
    for inner in walk(graph):
        found.update(value.name for value in inner.values())
        found.update(node.name for node in inner)
    return found
