"""Dialect graphs kept next to the canonical graph; they are used while the canonical graph is unchanged.

Operators of other ONNX domains are kept for models that are only rewritten. Integer operators whose rounding differs
between runtimes are kept for the reference interpreter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport import formats
from graphport.api.model import DialectGraph
from graphport.ir.graph import walk
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.api.model import Model
    from graphport.ir.graph import Graph


def custom_domains(graph: Graph) -> set[str]:
    """Return the ONNX domains of a graph other than the default domain; their operators are kept."""
    kind = formats.FORMATS["onnx"]
    used = {node.dialect for inner in walk(graph) for node in inner} - {"", kind.read_dialect}
    domains = {dialect for dialect in used if kind.keeps(dialect)}
    return domains - {format.dialect for format in formats.FORMATS.values()} if domains else domains


def record_dialect_graph(read: Graph, canonical: Graph) -> DialectGraph:
    """Record the dialect graph `read` as the source of `canonical`."""
    return DialectGraph(read, _structure(canonical))


def restore_custom_operators(model: Model) -> Model:
    """Return `model` with its operators of other ONNX domains if it is unchanged since it was read."""
    found = model.kept
    if found is None or _structure(model.graph) != found.structure:
        return model
    return replace(model, graph=found.graph, kept=None)


def exact_dialect_graph(model: Model) -> Graph | None:
    """Return the dialect graph of a model if the reference interpreter computes some of its operators bit-exactly."""
    if has_exact(model.graph):
        return model.graph
    found = model.words
    return found.graph if found is not None and _structure(model.graph) == found.structure else None


def has_exact(graph: Graph) -> bool:
    """Whether the reference interpreter computes operators of a graph bit-exactly as the format's native runtime."""
    used = {node.dialect for inner in walk(graph) for node in inner if node.dialect}
    if not any(registry.record(dialect).rounds for dialect in used):
        return False
    return any(registry.exact(node) is not None for inner in walk(graph) for node in inner if node.dialect)


def _structure(graph: Graph) -> tuple[Any, ...]:
    """Return a value that differs after any change of operators, attributes, names, constants or connections."""
    graphs = list(walk(graph))
    nodes = [
        (node.op, tuple(node.attributes.items()), *map(id, node.inputs), *map(id, node.outputs))
        for inner in graphs
        for node in inner
    ]
    ends = [(*map(id, inner.inputs), None, *map(id, inner.outputs)) for inner in graphs]
    values = [(value.name, id(value.storage)) for inner in graphs for value in inner.values()]
    return (nodes, ends, values)
