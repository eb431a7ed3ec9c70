"""What a graph was read from, so that a graph that nobody changed is written as the text that it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source
    from graphport.core.storage import Storage
    from graphport.formats.nnef.check import Checked
    from graphport.ir.graph import Graph, Node, Value

NOTE = "nnef"
"""The note of a graph under which its `Original` stands."""


@dataclass(frozen=True, slots=True, eq=False)
class Original:
    """The checked document of a graph, and the text of its quantization."""

    checked: Checked
    quantization: Source | None
    content: int
    storages: tuple[Storage | None, ...]
    """Kept alive: `content` knows them by their identity."""

    @classmethod
    def of(cls, graph: Graph, checked: Checked, quantization: Source | None) -> Original:
        """What `graph` was just read from."""
        storages = tuple(value.storage for value in graph.constants)
        return cls(checked, quantization, _content(graph), storages)

    def is_still(self, graph: Graph) -> bool:
        """Whether `graph` says what the document says: same operations, operands, attributes, names and numbers."""
        return _content(graph) == self.content


def original_of(graph: Graph) -> Original | None:
    """The document that `graph` was read from, perhaps before it was changed."""
    found = graph.notes.get(NOTE) if graph.has_notes else None
    return found if isinstance(found, Original) else None


def versions(graph: Graph) -> dict[str, str]:
    """The edition of the document that `graph` was read from."""
    original = original_of(graph)
    return {} if original is None else {"edition": str(original.checked.document.edition)}


def _content(graph: Graph) -> int:
    values = [(value.name, value.fact) for value in graph.inputs]
    constants = [(value.name, value.fact, id(value.storage)) for value in graph.constants]
    return hash((tuple(values), tuple(constants), tuple(map(_node, graph)), _names(graph.outputs)))


def _node(node: Node) -> int:
    return hash((node.dialect, node.word, _names(node.inputs), _names(node.outputs), tuple(node.attributes.items())))


def _names(values: list[Value] | tuple[Value | None, ...]) -> tuple[str | None, ...]:
    return tuple([None if value is None else value.name for value in values])
