"""Faults put into a graph, as a reader, a pass or a writer that is wrong would have put them there."""

from __future__ import annotations

import numpy as np

from graphport.core.storage import ArrayStorage
from graphport.ir.graph import Graph, walk


def scale_weight(graph: Graph) -> None:
    """The weight with the most numbers times 1.5."""
    weights = [value for inner in walk(graph) for value in inner.constants if value.storage is not None]
    weight = max(weights, key=lambda value: value.storage.nbytes if value.storage.dtype.is_floating else 0)
    assert weight.storage.dtype.is_floating
    numbers = weight.storage.numpy()
    weight.storage = ArrayStorage((numbers * np.float32(1.5)).astype(numbers.dtype))


def change_attribute(graph: Graph) -> None:
    """The first attribute that is a real number, or the first stride of all nodes, is another one."""
    for node in graph:
        for name, value in node.attributes.items():
            if isinstance(value, float):
                node.set_attribute(name, value + 0.5)
                return
    message = "there is no attribute to change"
    raise AssertionError(message)


def drop_node(graph: Graph) -> None:
    """The last node of one operand and one result of the same shape is gone."""
    for node in reversed(list(graph)):
        (result, *others), operand = node.results, node.operand(0)
        if not others and operand is not None and operand.producer is not None and result.fact == operand.fact:
            result.replace_uses(operand)
            graph.remove(node)
            return
    message = "there is no node to drop"
    raise AssertionError(message)
