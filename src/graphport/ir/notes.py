"""What graphs, nodes and values carry for others: notes of their format, and their place in the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.core.diagnostics import Span

Notes: TypeAlias = "dict[str, object]"
"""Data that only the owner's format uses to write it back; copied with the owner, never compared."""

METADATA = "metadata"
"""Note of a graph: texts by key that every format with metadata writes, a `dict[str, str]`."""


class SharedNotes(dict[str, object]):
    """Immutable notes shared by many owners; the property `notes` returns a private copy."""

    __slots__ = ()


class Spans(Protocol):
    """Computes the locations of many nodes on request."""

    def span(self, index: int) -> Span:
        """The place of number `index`."""
        ...


class Noted:
    """An object with notes, which are allocated on first access."""

    __slots__ = ("_notes",)

    _notes: Notes | None

    @property
    def notes(self) -> Notes:
        """Notes by key, with which the format writes the object back; allocated on first access."""
        notes = self._notes
        if notes is None:
            notes = self._notes = {}
        elif type(notes) is SharedNotes:
            notes = self._notes = dict(notes)
        return notes

    @property
    def has_notes(self) -> bool:
        """Whether there are notes; does not allocate."""
        return bool(self._notes)

    def note(self, name: str) -> object:
        """Return one note, or `None`; does not allocate."""
        return None if self._notes is None else self._notes.get(name)

    @property
    def noted(self) -> Mapping[str, object]:
        """The notes for reading; does not allocate."""
        return self._notes or {}

    @property
    def copied_notes(self) -> Notes | None:
        """Return the notes for an object that shares them."""
        notes = self._notes
        return dict(notes) if notes and type(notes) is not SharedNotes else notes or None


class Placed(Noted):
    """An object with notes and an origin, which may be computed on request."""

    __slots__ = ("_origin",)

    _origin: Span | tuple[Spans, int] | None

    @property
    def origin(self) -> Span | None:
        """The place in the source."""
        origin = self._origin
        if isinstance(origin, tuple):
            locations, index = origin
            origin = self._origin = locations.span(index)
        return origin

    @origin.setter
    def origin(self, origin: Span | tuple[Spans, int] | None) -> None:
        self._origin = origin

    @property
    def unasked_origin(self) -> Span | tuple[Spans, int] | None:
        """Return `origin` for an object that shares it, without computing it."""
        return self._origin
