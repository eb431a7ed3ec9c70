"""Which formats can say what a graph holds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from graphport.conversion.lift import ONE_EACH, unsupported
from graphport.core.diagnostics import DiagnosticError
from graphport.formats import FORMATS
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats import Format
    from graphport.ir.graph import Graph


def missing_operators(
    graph: Graph, format: Format, stands_for: Mapping[str, int] = ONE_EACH, *, dialect: str | None = None
) -> dict[str, int]:
    """How many nodes of each operator a format cannot say, of a graph that is canonical where it can be.

    Some nodes may stand for several, by their first result: see `typical`.
    """
    if target := format.dialect if dialect is None else dialect:
        try:
            return unsupported(graph, target, stands_for)
        except DiagnosticError:
            # What goes through the whole graph stumbles: nothing of it can be written.
            return dict(Counter(node.op for inner in walk(graph) for node in inner))
    foreign = (node.op for inner in walk(graph) for node in inner if node.dialect and not format.keeps(node.dialect))
    return dict(Counter(foreign))


def coverage(graph: Graph, stands_for: Mapping[str, int] = ONE_EACH) -> dict[str, dict[str, int]]:
    """`missing_operators` of every format that is written, by its name; empty where it can say all of the graph."""
    return {name: missing_operators(graph, format, stands_for) for name, format in FORMATS.items() if format.writes}
