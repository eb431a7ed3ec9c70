"""Rounding that a format's runtime performs implicitly and that the graph does not contain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.ir.graph import Graph

_NOTE = "own_rounding"


@dataclass(frozen=True, slots=True)
class _Rounding:
    """Note on operators with implicit rounding; it is not written to files."""

    words: tuple[str, ...]


def mark_operators(graph: Graph, words: Iterable[str]) -> None:
    """Note the operators whose operands the runtime rounds to bytes before it computes."""
    graph.notes[_NOTE] = _Rounding(tuple(dict.fromkeys(words)))


def rounded_operators(graph: Graph) -> tuple[str, ...]:
    """Return the operators recorded by `mark_operators`; empty without a record."""
    note = graph.notes.get(_NOTE) if graph.has_notes else None
    return note.words if isinstance(note, _Rounding) else ()
