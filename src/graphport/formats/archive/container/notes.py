"""Notes of formats with JSON values, by the objects that they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from graphport.ir.documents import NOTE, VERSION_NOTE
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Graph, Node, Notes, Value


def gathered(graph: Graph) -> dict[str, Any]:
    """Return the notes of `graph`, its values (by name) and its nodes (by index) as JSON; empty if there are none."""
    found = {
        "graph": _notes_to_json(graph.notes) if graph.has_notes else {},
        "values": {v.name: notes for v in _values(graph) if v.has_notes and (notes := _notes_to_json(v.notes))},
        "nodes": {
            str(index): notes
            for index, node in enumerate(_nodes(graph))
            if node.has_notes and (notes := _notes_to_json(node.notes))
        },
    }
    return {kind: notes for kind, notes in found.items() if notes}


def attach_notes(graph: Graph, document: dict[str, Any]) -> None:
    """Attach notes to their objects; notes of missing objects are skipped."""
    graph.notes.update(_notes_to_json(_object(document.get("graph"))))
    values, nodes = _object(document.get("values")), _object(document.get("nodes"))
    for value in _values(graph) if values else ():
        if value.name in values:
            value.notes.update(_notes_to_json(_object(values[value.name])))
    for index, node in enumerate(_nodes(graph) if nodes else ()):
        if str(index) in nodes:
            node.notes.update(_notes_to_json(_object(nodes[str(index)])))


def _notes_to_json(notes: Notes | dict[str, Any]) -> dict[str, Any]:
    return {
        name: note
        for name, note in notes.items()
        if name not in (NOTE, VERSION_NOTE)
        and (isinstance(note, str | int) or (isinstance(note, float) and note - note == 0))
    }


def _object(found: object) -> dict[str, Any]:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _values(graph: Graph) -> Iterator[Value]:
    return (value for inner in walk(graph) for value in inner.values())


def _nodes(graph: Graph) -> Iterator[Node]:
    return (node for inner in walk(graph) for node in inner)
