"""The version of the default domain that a graph is written at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx import domains, schema
from graphport.formats.onnx.notes import MODEL, ModelNotes, noted
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.formats.onnx.findings import Findings
    from graphport.ir.graph import Graph

LEAST = 17
"""Graphs of other formats are not written older than this, even where they could be."""


def choose(graph: Graph, wanted: int | None, findings: Findings) -> int:
    """The opset to write `graph` at; findings where there is none.

    A node is the same at two versions if its schema is. Without `wanted` it is the opset that the file was read at,
    where all nodes can be said in it, else the least that can say them (from `LEAST` on).
    """
    words = _words(graph)
    source = _source(graph)
    if not words:
        return wanted or source or LEAST
    low = max(first for first, _ in words.values())
    high = min(last for _, last in words.values())
    if wanted is None and low <= high:
        return source if source is not None and low <= source <= high else min(max(low, LEAST), high)
    target = wanted or source or low
    for (_, word), (first, last) in words.items():
        if not first <= target <= last:
            message = f"{word} is as in opsets {first} to {last}, and cannot stand as it is in opset {target}"
            remedy = None if wanted is None else f"opsets {low} to {high} can say all nodes" if low <= high else None
            findings.error("ONNX0602", message, "graph", remedy)
    return target


def imports(graph: Graph, opset: int, findings: Findings) -> dict[str, int]:
    """Versions of all domains to write, by dialect, in order; findings about nodes of other formats."""
    found: dict[str, int] = {}
    for dialect, version in graph.opsets.items():
        if domains.is_default(dialect):
            found[domains.DEFAULT] = opset
        elif domains.domain_of(dialect) is not None:
            found[dialect] = version
    foreign: dict[str, int] = {}
    for each in walk(graph):
        for node in each:
            if domains.is_default(node.dialect):
                found.setdefault(domains.DEFAULT, opset)
            elif domains.domain_of(node.dialect) is None:
                foreign[node.op] = foreign.get(node.op, 0) + 1
            elif domains.domain_of(node.dialect):
                found.setdefault(node.dialect, 1)
    if not found:
        found[domains.DEFAULT] = opset
    for op, count in foreign.items():
        message = f"{count} node{'s' * (count > 1)} {op}: ONNX has no such operator"
        findings.error("ONNX0601", message, "graph", "nothing says it in ONNX yet")
    return found


def _words(graph: Graph) -> dict[tuple[str, str], tuple[int, int]]:
    """First and last opset of every word of the default domain that the graph uses."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    opsets: Mapping[str, int] = graph.opsets
    for each in walk(graph):
        for node in each:
            key = (node.dialect, node.word)
            if key not in found and domains.is_default(node.dialect):
                found[key] = schema.versions(node.word, opsets[node.dialect])
    return found


def _source(graph: Graph) -> int | None:
    """The opset that the graph was read at, or speaks now."""
    spoken = graph.opsets.get(domains.DEFAULT)
    notes = noted(graph, ModelNotes, MODEL)
    return spoken if spoken is not None or notes is None else notes.opset
