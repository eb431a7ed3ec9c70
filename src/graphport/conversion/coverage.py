"""Which formats can say what a graph holds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphport.conversion.lift import ONE_EACH, unsupported
from graphport.core.diagnostics import DiagnosticError
from graphport.formats import FORMATS
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats import Format
    from graphport.ir.graph import Graph


def missing_operators(
    graph: Graph, format: Format, stands_for: Mapping[str, int] = ONE_EACH, **options: Any
) -> dict[str, int]:
    """How many nodes of each operator a format cannot say, of a graph that is canonical where it can be.

    Some nodes may stand for several, by their first result: see `typical`. Where `options` of the writer leave several
    dialects open, one that can say all is enough; what is missing is missing in the last one.
    """
    missing: dict[str, int] = {}
    for dialect in format.dialects_with(**options):
        missing = _missing(graph, format, dialect, stands_for)
        if not missing:
            break
    return missing


def _missing(graph: Graph, format: Format, dialect: str, stands_for: Mapping[str, int]) -> dict[str, int]:
    if dialect:
        try:
            return unsupported(graph, dialect, stands_for)
        except DiagnosticError:
            # What goes through the whole graph stumbles: nothing of it can be written.
            return dict(Counter(node.op for inner in walk(graph) for node in inner))
    foreign = (node.op for inner in walk(graph) for node in inner if node.dialect and not format.keeps(node.dialect))
    return dict(Counter(foreign))


def coverage(graph: Graph, stands_for: Mapping[str, int] = ONE_EACH) -> dict[str, dict[str, int]]:
    """`missing_operators` of every format that is written, by its name; empty where it can say all of the graph."""
    return {name: missing_operators(graph, format, stands_for) for name, format in FORMATS.items() if format.writes}
