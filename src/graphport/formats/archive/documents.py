"""What an archive holds besides the graph: documents of names, numbers, texts and lists."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Document: TypeAlias = "Mapping[str, Any] | None"

NOTE = "documents"
"""The note of a graph that has its `Documents`."""
VERSION_NOTE = "archive"
"""The note of a graph that says which version its archive has."""


@dataclass(frozen=True, slots=True)
class Documents:
    """The optional sections of an archive, each as JSON has it."""

    quantization: Document = None
    dispatch: Document = None
    provenance: Document = None

    def sections(self) -> dict[str, Mapping[str, Any]]:
        """Those that are there, by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: document for name, document in found.items() if document is not None}


def provenance(source: str, format: str, versions: dict[str, str]) -> dict[str, Documents]:
    """The option of `write` that says what a model was made from: the name of its file, its format, and by whom."""
    from importlib.metadata import version

    said = {"source": PurePath(source).name, "format": format, "versions": versions, "graphport": version("graphport")}
    return {"documents": Documents(provenance=said)}


SECTIONS = tuple(field.name for field in fields(Documents))
"""Names of the optional sections that are known."""
