"""The text that a graph was read from, so that an unchanged graph is written back verbatim."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Source
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.formats.nnef.container.check import Checked
    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.formats.nnef.container.limits import Limits
    from graphport.formats.nnef.container.syntax import Edition
    from graphport.ir.graph import Graph, Node, Value

NOTE = "nnef"
"""Note of a graph with its `Original`."""


class Unread:
    """A valid flat text whose syntax tree is parsed on demand."""

    def __init__(self, source: Source, edition: Edition, bound: Mapping[str, Sequence[Dim]], limits: Limits) -> None:
        self._source = source
        self._bound = bound
        self._limits = limits
        self.edition = edition

    def checked(self) -> Checked:
        """Parse and check the document."""
        from graphport.formats.nnef.container.check import check
        from graphport.formats.nnef.container.parser import parse

        return check(parse(self._source, self.edition, self._limits).document, limits=self._limits)

    def graph(self) -> Graph | None:
        """Read the graph again, without elements of constants."""
        from graphport.formats.nnef.container.single_pass import read_flat

        return read_flat(self._source, self._bound, self._limits, None)


class Original:
    """The checked document of a graph, and the text of its quantization."""

    __slots__ = ("_constants", "_document", "_inputs", "_nodes", "_unread", "quantization")

    def __init__(self, graph: Graph, document: Checked | Unread, quantization: Source | None = None) -> None:
        """Record the origin of `graph`, which was just read.

        Args:
            graph: the graph.
            document: its document, or the flat text without fragments.
            quantization: the text of its quantization.
        """
        self._document = document
        self._unread = document if isinstance(document, Unread) else None
        self.quantization = quantization
        self._inputs = _inputs(graph)
        # Storages are kept to compare constants by identity.
        self._constants = _constants(graph)
        # For a text that can be read again quickly, nodes are compared on demand.
        self._nodes = None if self._unread is not None else _nodes(graph)

    @property
    def checked(self) -> Checked:
        """The checked document, parsed on first access."""
        if isinstance(self._document, Unread):
            self._document = self._document.checked()
        return self._document

    @property
    def edition(self) -> Edition:
        """The edition of the document."""
        document = self._document
        return document.edition if isinstance(document, Unread) else document.document.edition

    @property
    def declared_operations(self) -> Mapping[str, Declaration]:
        """The operations that the document declares."""
        return {} if isinstance(self._document, Unread) else self._document.operations.own

    @property
    def has_facts(self) -> bool:
        """Whether the facts of all values were set by the reader."""
        return self._unread is not None

    def is_still(self, graph: Graph) -> bool:
        """Whether `graph` is unchanged: the same operations, operands, attributes, names and constants."""
        if self._inputs != _inputs(graph) or not _are_same(self._constants, _constants(graph)):
            return False
        if self._nodes is None and self._unread is not None:
            again = self._unread.graph()
            self._nodes = None if again is None else _nodes(again)
        return self._nodes == _nodes(graph)


def original_of(graph: Graph) -> Original | None:
    """Return the record of the document that `graph` was read from, even if the graph has changed since."""
    found = graph.notes.get(NOTE) if graph.has_notes else None
    return found if isinstance(found, Original) else None


def has_facts(graph: Graph) -> bool:
    """Whether the facts of all values of `graph` were set by the reader."""
    original = original_of(graph)
    return original is not None and original.has_facts


def versions(graph: Graph) -> dict[str, str]:
    """The edition of the document that `graph` was read from."""
    original = original_of(graph)
    return {} if original is None else {"edition": str(original.edition)}


def _inputs(graph: Graph) -> list[tuple[str, Fact]]:
    return [(value.name, value.fact) for value in graph.inputs]


def _constants(graph: Graph) -> list[tuple[str, Fact, Storage | None]]:
    return [(value.name, value.fact, value.storage) for value in graph.constants]


def _are_same(
    before: Sequence[tuple[str, Fact, Storage | None]], now: Sequence[tuple[str, Fact, Storage | None]]
) -> bool:
    return len(before) == len(now) and all(a[:2] == b[:2] and a[2] is b[2] for a, b in zip(before, now, strict=True))


def _nodes(graph: Graph) -> int:
    return hash((tuple(map(_node, graph)), _names(graph.outputs)))


def _node(node: Node) -> int:
    return hash((node.dialect, node.op_type, _names(node.inputs), _names(node.outputs), tuple(node.attributes.items())))


def _names(values: list[Value] | tuple[Value | None, ...]) -> tuple[str | None, ...]:
    return tuple([None if value is None else value.name for value in values])
