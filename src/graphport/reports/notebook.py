"""HTML summary of a report for notebooks: tables and a drawing, no scripts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from graphport.core.table import as_html, format_number
from graphport.reports.svg import drawing
from graphport.reports.table import shape_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph

_MOST_BOXES = 60


def summary_of(graph: Graph, file: str, format: str, versions: Mapping[str, str]) -> str:
    """Return `summary` of a graph without reading its weights."""
    from graphport.conversion.inspection import inspect
    from graphport.conversion.legalize import legalize
    from graphport.reports.model import GraphDocument

    stated, _ = legalize(graph)
    found = inspect(stated, format, versions, has_coverage=False)
    model = GraphDocument(stated, has_statistics=False).with_file(file, found)
    return summary({"title": file or graph.name, "models": [model]})


def summary(document: Mapping[str, Any]) -> str:
    """Return inputs, outputs, operators and a collapsed drawing of the first model."""
    model = document["models"][0]
    values, outer, found = model["values"], model["graphs"][0], model["inspection"]
    ends = [
        [kind, values[index]["name"], values[index].get("type", "?"), shape_text(values[index].get("shape")) or "?"]
        for kind, of in (("input", outer["inputs"]), ("output", outer["outputs"]))
        for index in of
    ]
    counts = [
        [op, format_number(count), format_number(found["macs_by_operator"].get(op))]
        for op, count in found["operators"].items()
    ]
    node_count, macs = sum(found["operators"].values()), format_number(found["macs"])
    stated = f"{node_count:,} nodes, {found['parameters']:,} parameters, {macs} MACs"
    return (
        f"<div><strong>{escape(document['title'])}</strong> ({escape(model['format'])}): {escape(stated)}"
        f"{as_html(['', 'name', 'type', 'shape'], ends)}"
        f"<details><summary>operators</summary>{as_html(['operator', 'nodes', 'MACs'], counts)}</details>"
        f"<details><summary>drawing</summary>{drawing(document, most=_MOST_BOXES)}</details></div>"
    )
