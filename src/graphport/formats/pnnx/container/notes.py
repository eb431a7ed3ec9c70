"""Notes: content of a `.param` text besides its graph, which is kept for writing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute

LINE = "pnnx.line"
"""The note of a node, input or constant: the `Line` that it was read from. That of a graph has its outputs' lines."""
SHAPE = "pnnx.shape"
"""The note of a value: the text of its shape, empty where the file has none."""
LAYOUT = "pnnx.layout"
"""The note of a graph: how the archive of its weights was laid out."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was read: its type and name, names of operands, texts of values, and where it begins in the text.

    `count` is the number of operands of an output line. That of a node has neither name nor place, which the node has.
    """

    type: str
    name: str = ""
    keys: tuple[str, ...] = ()
    texts: dict[str, tuple[Attribute, str]] = field(default_factory=dict[str, "tuple[Attribute, str]"])
    count: int = 0
    start: int = -1

    def text(self, key: str, value: Attribute) -> str | None:
        """Return the original text of the value of `key`, if the value is unchanged."""
        known = self.texts.get(key)
        return known[1] if known is not None and (known[0] is value or known[0] == value) else None


def line_of(note: object) -> Line | None:
    """Return a note as a line, if it is one."""
    return note if isinstance(note, Line) else None


def lines_of(note: object) -> list[Line]:
    """The lines of outputs in the note of a graph."""
    return [item for item in note if isinstance(item, Line)] if is_sequence(note) else []
