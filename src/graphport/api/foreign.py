"""What a model was read as, kept beside the canonical graph: it holds as long as nobody has changed that.

Operators of ONNX's other domains are kept where a model is only rewritten; words whose integers a format's own runtime
rounds in its own way, for the reference to compute them so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport import formats
from graphport.api.model import Kept
from graphport.ir.graph import walk
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.api.model import Model
    from graphport.ir.graph import Graph


def foreign(graph: Graph) -> set[str]:
    """The domains of ONNX in a graph besides the default one: their operators are kept."""
    kind = formats.FORMATS["onnx"]
    used = {node.dialect for inner in walk(graph) for node in inner} - {"", kind.read_dialect}
    domains = {dialect for dialect in used if kind.keeps(dialect)}
    return domains - {format.dialect for format in formats.FORMATS.values()} if domains else domains


def kept(read: Graph, canonical: Graph) -> Kept:
    """`read`, to be rewritten in the place of `canonical` as long as that is what it is now."""
    return Kept(read, _structure(canonical))


def as_read(model: Model) -> Model:
    """`model` with its operators of other domains, where nobody has changed it since it was read."""
    found = model.kept
    if found is None or _structure(model.graph) != found.structure:
        return model
    return replace(model, graph=found.graph, kept=None)


def in_read_words(model: Model) -> Graph | None:
    """The graph in the words that it was read in, if the reference computes some of these to the last bit."""
    if has_exact(model.graph):
        return model.graph
    found = model.words
    return found.graph if found is not None and _structure(model.graph) == found.structure else None


def has_exact(graph: Graph) -> bool:
    """Whether the reference computes words of a graph to the last bit as their format's own runtime does."""
    used = {node.dialect for inner in walk(graph) for node in inner if node.dialect}
    if not any(registry.record(dialect).rounds for dialect in used):
        return False
    return any(registry.exact(node) is not None for inner in walk(graph) for node in inner if node.dialect)


def _structure(graph: Graph) -> tuple[Any, ...]:
    """What differs after any change: operators, attributes, names, numbers, and who reads whom."""
    graphs = list(walk(graph))
    nodes = [
        (node.op, tuple(node.attributes.items()), *map(id, node.inputs), *map(id, node.outputs))
        for inner in graphs
        for node in inner
    ]
    ends = [(*map(id, inner.inputs), None, *map(id, inner.outputs)) for inner in graphs]
    values = [(value.name, id(value.storage)) for inner in graphs for value in inner.values()]
    return (nodes, ends, values)
