"""What values and tensor files are called in a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.core.file_names import FileNames, is_safe, safe_path
from graphport.core.names import identifier, unique
from graphport.formats.nnef.container.packaging import DATA
from graphport.formats.nnef.container.token_cursor import KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from graphport.formats.nnef.container.syntax import Edition
    from graphport.ir.graph import Graph, Value

ORIGINAL_NAME = "original_name"
"""Note of a value with its name before it was made an identifier."""
ORIGINALLY = "# originally "
"""Prefix of a comment with the original names of values, as a JSON object."""
LABEL = "label"
"""The note of a constant that holds the label of its tensor file."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.\-/]+")
_LABEL = re.compile(r"[A-Za-z0-9_.\-/\\]+")


class _Reserved:
    """Names that a value cannot have: keywords, and in strict mode names that begin with `true` or `false`."""

    def __init__(self, edition: Edition, *, strict: bool) -> None:
        self._keywords = KEYWORDS[edition]
        # Some readers mistake the beginning of such a name for the literal.
        self._beginnings = ("true", "false") if strict else ()

    def __contains__(self, name: object) -> bool:
        return name in self._keywords or (isinstance(name, str) and name.startswith(self._beginnings))


class Names:
    """An identifier for every value that needs one: its own name if valid, else a free variation.

    `bent` maps changed identifiers to original names.
    """

    def __init__(self, graph: Graph, edition: Edition, nameless: Container[Value], *, strict: bool) -> None:
        self.bent: dict[str, str] = {}
        self._reserved = _Reserved(edition, strict=strict)
        self._taken: set[str] = set()
        self._counters: dict[str, int] = {}
        self._names: dict[Value, str] = {}
        crooked: list[Value] = []
        for value in dict.fromkeys(_public_first(graph)):
            if value in nameless:
                continue
            if _IDENTIFIER.fullmatch(value.name) and value.name not in self._reserved and value.name not in self._taken:
                self._names[value] = value.name
                self._taken.add(value.name)
            else:
                crooked.append(value)
        for value in crooked:
            self._names[value] = self._bend(value.name)

    def __getitem__(self, value: Value) -> str:
        return self._names[value]

    def original(self, value: Value) -> str | None:
        """Return the original name of a value whose name is not an identifier, else `None`."""
        noted = value.notes.get(ORIGINAL_NAME) if value.has_notes else None
        return noted if isinstance(noted, str) else self.bent.get(self._names[value])

    def identifier(self, name: str) -> str:
        """`name` as an identifier, taken or not."""
        return identifier(name, (), self._reserved)

    def another(self, value: Value) -> str:
        """Return a second identifier for `value`."""
        return self._bend(value.name)

    def unused(self) -> str:
        """Return an identifier for an unused result."""
        return self._free("unused")

    def symbol(self, name: str) -> str:
        """Return an unused identifier for the symbolic extent `name`."""
        return self._free(self.identifier(name))

    def _bend(self, name: str) -> str:
        found = self._free(self.identifier(name))
        self.bent[found] = name
        return found

    def _free(self, stem: str) -> str:
        found = unique(stem, self._taken, self._counters)
        self._taken.add(found)
        return found


def _public_first(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    yield from graph.outputs
    yield from graph.values()


class Labels:
    """A label for every variable: the original one, or one derived from its name. Equal variables share one."""

    def __init__(self) -> None:
        self._files = FileNames(DATA)

    def of(self, value: Value, name: str) -> str:
        """The label of `value`, whose identifier is `name`; it is the path of a file, without the extension."""
        noted = value.notes.get(LABEL) if value.has_notes else None
        is_kept = isinstance(noted, str) and _LABEL.fullmatch(noted) is not None and is_safe(noted)
        wanted = noted if is_kept else safe_path(_NOT_IN_LABELS.sub("_", value.name)) or name
        return self._files.make(str(wanted), (value.storage, value.fact))
