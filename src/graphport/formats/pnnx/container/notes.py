"""Notes: formatting of a `.param` text, stored so that the writer can reproduce the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute

LINE = "pnnx.line"
"""Note of a node, input or constant: its `Line`. The note of a graph contains the lines of its outputs."""
SHAPE = "pnnx.shape"
"""Note of a value: the text of its shape, empty if the file has none."""
LAYOUT = "pnnx.layout"
"""Note of a graph: the layout of its weight archive."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the source: op type, name, operand names, texts of values, and its offset in the text.

    `count` is the number of operands of an output line. The line of a node has neither name nor offset.
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
    """Return `note` if it is a line, else `None`."""
    return note if isinstance(note, Line) else None


def lines_of(note: object) -> list[Line]:
    """Return the lines of the outputs from the note of a graph."""
    return [item for item in note if isinstance(item, Line)] if is_sequence(note) else []
