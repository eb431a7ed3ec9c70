"""Write graphs as archives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.atomic_write import replacing
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dtypes import DType
from graphport.core.write_errors import write_remedy
from graphport.formats.archive.container import manifest, notes, string_tensors
from graphport.formats.archive.container.layout import GRAPH, MANIFEST, NOTES, SIGNATURE, SIGNATURE_MEMBER, WEIGHTS
from graphport.formats.archive.container.manifest import Weight, as_json
from graphport.formats.archive.container.members import Writing
from graphport.ir.documents import noted
from graphport.ir.text import to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

    from graphport.core.storage import Storage
    from graphport.ir.documents import Documents
    from graphport.ir.graph import Graph


def write(graph: Graph, path: str | os.PathLike[str], *, documents: Documents | None = None) -> None:
    """Write a graph of any dialect, also with errors; equal graphs give equal bytes.

    Args:
        graph: weights are copied from their storages in blocks.
        path: an existing file is replaced.
        documents: metadata; by default the note `documents`.

    Raises:
        DiagnosticError: IO0215 the file cannot be written.
    """
    table: dict[Storage, str] = {}
    text = to_text(graph, refer=lambda storage: table.setdefault(storage, f"w{len(table)}")).encode()
    stated = documents or noted(graph)
    try:
        with replacing(Path(path)) as file:
            _write(file, graph, text, table, stated)
    except OSError as error:
        message = f"{os.fspath(path)} cannot be written: {error.strerror or error}"
        raise DiagnosticError(
            Diagnostic("IO0215", message, Span(Source(os.fspath(path))), write_remedy(error))
        ) from error


def _write(file: BinaryIO, graph: Graph, text: bytes, table: Mapping[Storage, str], documents: Documents) -> None:
    weights = {name: Weight(f"{WEIGHTS}/{name}", storage.dtype, storage.shape) for storage, name in table.items()}
    sections = documents.sections()
    kept = notes.gathered(graph)
    members = {name: f"{name}.json" for name in sections}
    with Writing(file) as archive:
        # The signature is the first member, so that its offset is fixed.
        _add(archive, SIGNATURE_MEMBER, SIGNATURE)
        _add(archive, MANIFEST, manifest.create_manifest(weights, members, has_notes=bool(kept)))
        _add(archive, GRAPH, text)
        if kept:
            _add(archive, NOTES, as_json(kept))
        for name, document in sections.items():
            _add(archive, members[name], as_json(document))
        for storage, name in table.items():
            member = weights[name].member
            if storage.dtype is DType.STRING:
                _add(archive, member, string_tensors.packed(storage))
            else:
                archive.add(member, storage.nbytes, storage.chunks(), is_aligned=True)


def _add(archive: Writing, name: str, data: bytes) -> None:
    archive.add(name, len(data), _once(data))


def _once(data: bytes) -> Iterator[bytes]:
    yield data
