"""Write an unchanged file byte for byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from graphport.core.atomic_write import replacing
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.write_errors import write_remedy
from graphport.formats.tflite.container.notes import READ
from graphport.ir.graph import Graph, Value
from graphport.ir.notes import METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.core.storage import Bytes, MappedFile, Storage

_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class _AsRead:
    """A source file and the structure of the graphs that were created from it."""

    file: MappedFile | Bytes
    structures: tuple[Any, ...]
    storages: tuple[Storage | None, ...]
    """References that keep object identities valid."""


def note_read(graph: Graph, file: MappedFile | Bytes) -> None:
    """Note the file that a graph was read from."""
    graph.notes[READ] = _AsRead(file, (_structure(graph, {}),), tuple(_storages(graph)))


def mark_again(graph: Graph) -> None:
    """Note that a converted graph is equivalent to its source file."""
    found = _note(graph)
    if found is not None:
        storages = (*found.storages, *_storages(graph))
        graph.notes[READ] = _AsRead(found.file, (*found.structures, _structure(graph, {})), storages)


def copy_unchanged(graph: Graph, path: str | Path) -> bool:
    """Copy the source file to `path` if the graph is unchanged; return whether it was copied.

    Raises:
        DiagnosticError: TFL0304 the file cannot be written.
    """
    found = _note(graph)
    if found is None or graph.note(METADATA) or _structure(graph, {}) not in found.structures:
        return False
    try:
        with replacing(path) as target:
            for start in range(0, found.file.size, _BLOCK_BYTES):
                target.write(found.file.view(start, min(_BLOCK_BYTES, found.file.size - start)))
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("TFL0304", message, Span(Source(str(path))), write_remedy(error))) from error
    return True


def _note(graph: Graph) -> _AsRead | None:
    found = graph.notes.get(READ) if graph.has_notes else None
    return found if isinstance(found, _AsRead) else None


def _storages(graph: Graph) -> list[Storage | None]:
    bodies = [body for node in graph for body in node.bodies()]
    return [*(value.storage for value in graph.values()), *(one for body in bodies for one in _storages(body))]


def _structure(graph: Graph, outside: Mapping[Value, int]) -> tuple[Any, ...]:
    """Return the properties that any change affects: operators, attributes, names, facts, constants and edges."""
    positions = dict(outside)
    for value in graph.values():
        positions.setdefault(value, len(positions))

    def comparable(attribute: Any) -> Any:
        if isinstance(attribute, Graph):
            return _structure(attribute, positions)
        if isinstance(attribute, tuple):
            return tuple(comparable(each) for each in cast("tuple[Any, ...]", attribute))
        return attribute

    def value_indices(values: Any) -> tuple[Any, ...]:
        return tuple(None if value is None else positions[value] for value in values)

    nodes = [
        (
            node.op,
            [(name, comparable(each)) for name, each in node.attributes.items()],
            value_indices(node.inputs),
            value_indices(node.outputs),
        )
        for node in graph
    ]
    values = [(value.name, value.fact, id(value.storage)) for value in graph.values()]
    return graph.name, values, nodes, value_indices(graph.inputs), value_indices(graph.outputs)
