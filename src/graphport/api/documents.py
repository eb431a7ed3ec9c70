"""Where a model came from and how it was checked, written into the files that have a place for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.quantization.record import Origin, note_checks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport import formats
    from graphport.api.model import Model
    from graphport.ir.graph import Graph
    from graphport.proof.document import Proof


def origin(model: Model) -> Origin:
    """Where `model` came from: the name of its file, its format, its versions."""
    return Origin("" if model.path is None else model.path.name, model.format, model.versions)


def write_checks(
    graph: Graph,
    kind: formats.Format,
    target: str | Path,
    proof: Proof | None,
    skipped: str | None,
    options: Mapping[str, Any],
) -> None:
    """Write `graph` again with its proof, if the format can store documents in the file."""
    if kind.has_documents:
        note_checks(graph, proof, skipped)
        kind.write(graph, target, **options)
