"""Operators of ONNX's other domains: said in canonical words by `load`, and kept where a model is only rewritten."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport import formats
from graphport.api.model import Kept
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.api.model import Model
    from graphport.ir.graph import Graph


def foreign(graph: Graph) -> set[str]:
    """Domains of ONNX besides the default one: who uses their operators knows why, so they stay as they are."""
    kind = formats.FORMATS["onnx"]
    others = {kind.read_dialect} | {each.dialect for each in formats.FORMATS.values()}
    used = {node.dialect for inner in walk(graph) for node in inner}
    return {dialect for dialect in used - others if kind.keeps(dialect)}


def kept(read: Graph, canonical: Graph) -> Kept:
    """`read`, to be rewritten in the place of `canonical` as long as that is what it is now."""
    return Kept(read, _structure(canonical))


def as_read(model: Model) -> Model:
    """`model` with its operators of other domains, where nobody has changed it since it was read."""
    found = model.kept
    if found is None or _structure(model.graph) != found.structure:
        return model
    return replace(model, graph=found.graph, kept=None)


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
