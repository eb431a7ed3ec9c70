"""Values and nodes by the names that people give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.names import find_similar
from graphport.ir.graph import Graph, Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_COMPARED = 10_000
"""Names that one that is not there is compared with."""
_MOST_LISTED = 5


class Names:
    """The named objects of a graph and its bodies; outer ones take precedence."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.values: dict[str, list[Value]] = {}
        self.nodes: dict[str, list[Node]] = {}
        for inner in walk(graph):
            for value in inner.values():
                self.values.setdefault(value.name, []).append(value)
            for node in inner:
                if node.name:
                    self.nodes.setdefault(node.name, []).append(node)

    def split(self, asked: Iterable[str]) -> list[str]:
        """Split a comma-separated list of names; a name that contains commas is kept if it exists."""
        found: list[str] = []
        for name in asked:
            is_one = name in self.values or name in self.nodes or "," not in name
            found += [name] if is_one else [part.strip() for part in name.split(",") if part.strip()]
        return found

    def value(self, name: str) -> Value | None:
        """Return the value named `name`; the outer graph is searched before bodies."""
        found = self.values.get(name, [])
        outer = [value for value in found if value.graph is self._graph] or found
        _refuse_several(name, outer)
        return outer[0] if outer else None

    def node(self, name: str) -> Node | None:
        """Return the node named `name`; the outer graph is searched before bodies."""
        found = self.nodes.get(name, [])
        outer = [node for node in found if node.graph is self._graph] or found
        _refuse_several(name, outer)
        return outer[0] if outer else None

    def missing(self, name: str, what: str, known: Iterable[str]) -> Diagnostic:
        """Return the diagnostic that no `what` has the name `name`, with similar names."""
        names = list(known)
        close = find_similar(name, names[:_MOST_COMPARED])
        listed = names[:_MOST_LISTED]
        more = f" and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
        remedy = f"did you mean {' or '.join(close)}?" if close else f"choose one of {', '.join(listed)}{more}"
        return Diagnostic("EDIT0001", f"the model has no {what} called {name!r}", self._graph.origin, remedy)


def _refuse_several(name: str, found: list[Value] | list[Node]) -> None:
    if len(found) < 2:
        return
    what = "values" if isinstance(found[0], Value) else "nodes"
    message = f"ambiguous name: {len(found)} {what} are called {name!r}"
    remedy = "use the unique name of a neighbouring node or value"
    raise DiagnosticError(Diagnostic("EDIT0002", message, found[0].origin, remedy))
