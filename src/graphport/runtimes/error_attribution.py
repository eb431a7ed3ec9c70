"""Attribution of runtime errors to the node whose name occurs in the error message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.ir.graph import walk

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from graphport.ir.graph import Graph, Node


def blamed(graph: Graph, text: str, patterns: Iterable[re.Pattern[str]]) -> Node | None:
    """Return the node of `graph` or a body whose name, or a result's, is group 1 of a pattern's match in `text`.

    `None` if no pattern matches or no node has the name: runtimes fuse and rename nodes.
    """
    names = [found[1] for pattern in patterns for found in pattern.finditer(text)]
    if not names:
        return None
    known: dict[str, Node] = {}
    for inner in walk(graph):
        for node in inner:
            for name in (node.name, *(value.name for value in node.results)):
                known.setdefault(name, node)
    return next((known[name] for name in names if name in known), None)


def fault(code: str, message: str, node: Node | None, remedy: str | None = None) -> DiagnosticError:
    """Return a runtime's error as a diagnostic, located at the node it names."""
    if node is None:
        return DiagnosticError(Diagnostic(code, message, None, remedy))
    name = node.name or next((value.name for value in node.results), "")
    stated = message if name in message else f"{message} (in {node.op} {name})"
    return DiagnosticError(Diagnostic(code, stated, node.origin, remedy))
