"""The formats that support all operators of a graph."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphport.conversion.export import ONE_EACH, unsupported
from graphport.core.diagnostics import DiagnosticError
from graphport.formats import FORMATS
from graphport.ir.graph import walk
from graphport.ops.operator_facts import shared_inference_cache

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from graphport.formats import Format
    from graphport.ir.graph import Graph


def missing_operators(
    graph: Graph, format: Format, stands_for: Mapping[str, int] = ONE_EACH, **options: Any
) -> dict[str, int]:
    """Count the nodes of each operator that a format does not support. `graph` is canonical as far as possible.

    `stands_for` weights the nodes of a sample by their first result: see `sample_graph`. If `options` of the writer
    permit several dialects, one that supports all operators is sufficient; otherwise the last dialect counts.
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
            # The export failed for the graph as a whole: no node can be written.
            return dict(Counter(node.op for inner in walk(graph) for node in inner))
    foreign = (node.op for inner in walk(graph) for node in inner if node.dialect and not format.keeps(node.dialect))
    return dict(Counter(foreign))


def coverage(
    graph: Graph, stands_for: Mapping[str, int] = ONE_EACH, only: Container[str] | None = None
) -> dict[str, dict[str, int]]:
    """Return `missing_operators` for each writable format by name; a fully supported graph gives an empty table.

    Formats for models of one kind are left out, and with `only` the formats that it does not contain.
    """
    with shared_inference_cache():
        return {
            name: missing_operators(graph, format, stands_for)
            for name, format in FORMATS.items()
            if format.writes and format.takes_any_model and (only is None or name in only)
        }
