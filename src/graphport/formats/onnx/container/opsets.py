"""The version of the default domain that a graph is written at."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from graphport.formats.onnx.container import domains, schema
from graphport.formats.onnx.container.notes import MODEL, ModelNotes, noted
from graphport.ir import opaque
from graphport.ir.graph import walk
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.formats.onnx.container.findings import Findings
    from graphport.ir.graph import Graph

LEAST = 17
"""Graphs of other formats are not written older than this, even where they could be."""


Words = dict[tuple[str, str], int]
"""How many nodes a graph has of every dialect and word."""


def words(graphs: Iterable[Graph]) -> Words:
    """What the nodes of `graphs` say."""
    return Counter((node.dialect, node.word) for graph in graphs for node in graph)


def choose(graph: Graph, used: Words, wanted: int | None, findings: Findings) -> int:
    """The opset to write `graph` at, whose nodes say `used`; findings where there is none.

    A node is the same at two versions if its schema is. Without `wanted` it is the opset that the file was read at,
    where all nodes can be said in it, else the least that can say them (from `LEAST` on).
    """
    found = spans(graph, used)
    origin = source(graph)
    if not found:
        return wanted or origin or LEAST
    low = max(first for first, _ in found.values())
    high = min(last for _, last in found.values())
    if wanted is None and low <= high:
        return origin if origin is not None and low <= origin <= high else min(max(low, LEAST), high)
    target = wanted or origin or low
    for (_, word), (first, last) in found.items():
        if not first <= target <= last:
            message = f"{word} is as in opsets {first} to {last}, and cannot stand as it is in opset {target}"
            remedy = None if wanted is None else f"opsets {low} to {high} can say all nodes" if low <= high else None
            findings.error("ONNX0602", message, "graph", remedy)
    return target


def spans(graph: Graph, used: Words) -> dict[tuple[str, str], tuple[int, int]]:
    """First and last opset in which each word of the default domain is what it is in the graph."""
    return {key: schema.versions(key[1], graph.opsets.get(key[0], OPSET)) for key in used if domains.is_default(key[0])}


def imports(graph: Graph, used: Words, opset: int, findings: Findings) -> dict[str, int]:
    """Versions of all domains to write, by dialect, in order; findings about nodes that ONNX cannot say."""
    found: dict[str, int] = {}
    for dialect, version in graph.opsets.items():
        if domains.is_default(dialect):
            found[domains.DEFAULT] = opset
        elif domains.domain_of(dialect) is not None:
            found[dialect] = version
    for (dialect, word), count in used.items():
        if not domains.keeps(dialect) or (
            dialect == domains.CANONICAL and not schema.operator("", word, OPSET).is_known
        ):
            op = f"{dialect}.{word}" if dialect else word
            message = f"{count} node{'s' * (count > 1)} {op}: ONNX has no such operator{_reasons(graph, dialect, word)}"
            findings.error("ONNX0601", message, "graph", "nothing says it in ONNX yet")
        elif domains.is_default(dialect):
            found.setdefault(domains.DEFAULT, opset)
        elif domains.domain_of(dialect):
            found.setdefault(dialect, 1)
    if not found:
        found[domains.DEFAULT] = opset
    return found


def _reasons(graph: Graph, dialect: str, word: str) -> str:
    """Why nodes of this kind were not said in ONNX's operators, where that is known."""
    nodes = (node for inner in walk(graph) for node in inner if (node.dialect, node.word) == (dialect, word))
    reasons = dict.fromkeys(reason for node in nodes if (reason := opaque.reason_of(node)) is not None)
    return f", and none that it can be made of: {'; '.join(reasons)}" if reasons else ""


def source(graph: Graph) -> int | None:
    """The opset that the graph was read at, or speaks now."""
    imported = graph.opsets.get(domains.DEFAULT)
    notes = noted(graph, ModelNotes, MODEL)
    return imported if imported is not None or notes is None else notes.opset
