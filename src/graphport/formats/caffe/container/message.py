"""Protobuf messages of Caffe, from text or binary files, with locations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from graphport.core.diagnostics import Span
    from graphport.core.storage import Storage


class Identifier(str):
    """The name of an enumeration value, or an identifier in an unknown message."""

    __slots__ = ()


Content: TypeAlias = "bool | int | float | str | bytes | Message | Storage"


class FieldValue(NamedTuple):
    """One value of a field, and its location."""

    content: Content
    span: Span | None = None


@dataclass(slots=True, eq=False)
class Message:
    """Values of fields by name; `kind` is empty for an unknown message."""

    kind: str
    span: Span | None = None
    entries: dict[str, list[FieldValue]] = field(default_factory=dict[str, list[FieldValue]])
    comments: tuple[str, ...] = ()
    """Comment lines before it in the text."""

    def add(self, name: str, content: Content, span: Span | None = None) -> None:
        """Append a value to the field `name`."""
        self.entries.setdefault(name, []).append(FieldValue(content, span))

    def all(self, name: str) -> list[FieldValue]:
        """Return all values of the field `name`, in order."""
        return self.entries.get(name, [])

    def has(self, name: str) -> bool:
        """Whether the field `name` is set."""
        return name in self.entries

    def messages(self, name: str) -> list[Message]:
        """Return the messages in the field `name`."""
        return [entry.content for entry in self.all(name) if isinstance(entry.content, Message)]

    def message(self, name: str) -> Message | None:
        """Return the last message in the field `name`."""
        found = self.messages(name)
        return found[-1] if found else None

    def texts(self, name: str) -> list[str]:
        """Return the strings in the field `name`."""
        return [entry.content for entry in self.all(name) if isinstance(entry.content, str)]

    def text(self, name: str, default: str = "") -> str:
        """Return the string in the field `name`."""
        found = self.texts(name)
        return found[-1] if found else default

    def integers(self, name: str) -> list[int]:
        """Return the integers in the field `name`."""
        return [int(entry.content) for entry in self.all(name) if isinstance(entry.content, int)]

    def integer(self, name: str, default: int = 0) -> int:
        """Return the integer or boolean in the field `name`."""
        found = self.integers(name)
        return found[-1] if found else default
