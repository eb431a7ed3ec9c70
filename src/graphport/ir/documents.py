"""Metadata documents of an archive: JSON values."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from graphport.core.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph

Document: TypeAlias = "Mapping[str, Any] | None"

NOTE = "documents"
"""Note of a graph: its `Documents`."""
VERSION_NOTE = "archive"
"""Note of a graph: the version of its archive."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The optional sections of an archive as JSON values."""

    quantization: Document = None
    dispatch: Document = None
    provenance: Document = None

    def sections(self) -> dict[str, Mapping[str, Any]]:
        """Present sections by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: document for name, document in found.items() if document is not None}


def noted(graph: Graph) -> Documents:
    """Return the documents noted for `graph`; empty documents without a note."""
    found = graph.notes.get(NOTE) if graph.has_notes else None
    return found if isinstance(found, Documents) else Documents()


def provenance(source: str, format: str, versions: Mapping[str, str], before: Document, **more: object) -> Document:
    """Return the provenance of a model.

    Args:
        source: the file; only its name is stored.
        format: of the file.
        versions: declared by the file.
        before: the provenance of the file, stored as `earlier`.
        **more: further JSON values.
    """
    entry: dict[str, object] = {"source": PurePath(source).name, "format": format, "versions": dict(versions)}
    entry |= {"graphport": __version__, **more}
    earlier = _steps(before)
    return entry | ({"earlier": earlier} if earlier else {})


def _steps(document: Document) -> list[object]:
    """Return the provenances of all conversions, oldest first."""
    if not document:
        return []
    last = dict(document)
    if not isinstance(last.get("earlier"), list):
        return [last]
    earlier = cast("list[object]", last.pop("earlier"))
    return [*earlier, last]


SECTIONS = tuple(field.name for field in fields(Documents))
"""Names of the supported optional sections."""
