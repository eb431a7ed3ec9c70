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
"""Number of nodes of each dialect and op type."""


def count_op_types(graphs: Iterable[Graph]) -> Words:
    """Count the op types of `graphs`."""
    return Counter((node.dialect, node.op_type) for graph in graphs for node in graph)


def choose_opset(graph: Graph, used: Words, wanted: int | None, findings: Findings) -> int:
    """Choose the opset to write `graph` at; report conflicts.

    A node is equivalent at two versions if its schema is. Without `wanted`, the opset is that of the file if it
    supports all nodes, else the lowest that does (from `LEAST` on).
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
    for (_, op_type), (first, last) in found.items():
        if not first <= target <= last:
            message = f"{op_type} is valid in opsets {first} to {last} only, not in opset {target}"
            remedy = (
                None
                if wanted is None
                else f"choose an opset from {low} to {high}: they support all nodes"
                if low <= high
                else None
            )
            findings.error("ONNX0602", message, "graph", remedy)
    return target


def spans(graph: Graph, used: Words) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the first and last opset with the present meaning of each op type of the default domain."""
    return {key: schema.versions(key[1], graph.opsets.get(key[0], OPSET)) for key in used if domains.is_default(key[0])}


def imports(graph: Graph, used: Words, opset: int, findings: Findings) -> dict[str, int]:
    """Return the versions of all domains to write, by dialect; report nodes that ONNX cannot represent."""
    found: dict[str, int] = {}
    for dialect, version in graph.opsets.items():
        if domains.is_default(dialect):
            found[domains.DEFAULT] = opset
        elif domains.domain_of(dialect) is not None:
            found[dialect] = version
    for (dialect, op_type), count in used.items():
        if not domains.keeps(dialect) or (
            dialect == domains.CANONICAL and not schema.operator("", op_type, OPSET).is_known
        ):
            op = f"{dialect}.{op_type}" if dialect else op_type
            message = (
                f"{count} node{'s' * (count > 1)} {op}: the operator does not exist in "
                f"ONNX{_reasons(graph, dialect, op_type)}"
            )
            findings.error("ONNX0601", message, "graph", "remove these nodes, or choose a format that supports them")
        elif domains.is_default(dialect):
            found.setdefault(domains.DEFAULT, opset)
        elif domains.domain_of(dialect):
            found.setdefault(dialect, 1)
    if not found:
        found[domains.DEFAULT] = opset
    return found


def _reasons(graph: Graph, dialect: str, op_type: str) -> str:
    """Return the recorded reasons why nodes of this kind were not exported to ONNX."""
    nodes = (node for inner in walk(graph) for node in inner if (node.dialect, node.op_type) == (dialect, op_type))
    reasons = dict.fromkeys(reason for node in nodes if (reason := opaque.reason_of(node)) is not None)
    return f", and it cannot be composed of others: {'; '.join(reasons)}" if reasons else ""


def source(graph: Graph) -> int | None:
    """Return the opset that the graph was read at, or has now."""
    imported = graph.opsets.get(domains.DEFAULT)
    notes = noted(graph, ModelNotes, MODEL)
    return imported if imported is not None or notes is None else notes.opset
