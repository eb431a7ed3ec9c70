"""Formulas of segments: operators, attributes and small constants, without the elements of common weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.element_digest import digest_elements, have_equal_elements
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from graphport.ir.graph import Graph, Node, Value
    from graphport.proof.segments.computations import Computations
    from graphport.proof.segments.matching import Match
    from graphport.proof.segments.values import FreeInput

MAX_STATED = 16
"""Elements up to which a constant belongs to the formula: limits, an epsilon, axes, a shape."""


def formula_of(both: Computations) -> Hashable | None:
    """Return the formula of a segment in both files; `None` if its inputs are not floats.

    Segments of one formula compute the same two functions of their inputs and weights: a weight has only its index if
    both files have equal elements for it, otherwise a digest of its elements.
    """
    segment = both.segment
    is_float = all(getattr(each.x, "dtype", np.dtype(bool)).kind == "f" for each in segment.inputs)
    graphs = (both.a.graph, both.b.graph)
    if not is_float or any(node.has_bodies for graph in graphs for node in graph):
        return None
    of_a, of_b = (list(_weights(graph)) for graph in graphs)
    common = _common_weights(of_a, of_b)
    return (
        *(_key_of_match(each) for each in (segment.output, *segment.inputs)),
        *(_key_of_input(each) for each in both.free),
        *(_key_of_graph(graph, common) for graph in graphs),
    )


def _key_of_match(match: Match) -> Hashable:
    of_both = [(np.shape(each), getattr(each, "dtype", None)) for each in (match.x, match.y)]
    return (*of_both, match.order, match.is_ambiguous, match.is_equal)


def _key_of_input(each: FreeInput) -> Hashable:
    return each.low, each.high, each.is_iteration, each.is_fixed, each.may_be_nan, each.is_whole


def _weights(graph: Graph) -> Iterator[Storage]:
    for node in graph:
        yield from (each.storage for each in node.operands if each.storage is not None)
        yield from (each for each in node.stated.values() if isinstance(each, Storage))


def _common_weights(of_a: list[Storage], of_b: list[Storage]) -> dict[int, int]:
    """Map the identities of weights with equal elements in both files to indices."""
    found: dict[int, int] = {}
    for storage in of_b:
        if storage.count <= MAX_STATED or id(storage) in found:
            continue
        other = next((each for each in of_a if have_equal_elements(each, storage)), None)
        if other is not None:
            found[id(storage)] = found.setdefault(id(other), len(found))
    return found


def _key_of_graph(graph: Graph, common: dict[int, int]) -> Hashable:
    numbers: dict[Value, Hashable] = {value: ("input", index) for index, value in enumerate(graph.inputs)}
    keys: list[Hashable] = []
    for node in graph:
        operands = [
            None if each is None else numbers.get(each) or _key_of_constant(each, common) for each in node.inputs
        ]
        keys.append((node.dialect, node.op, tuple(operands), _key_of_attributes(node, common)))
        for value in node.results:
            numbers[value] = ("result", len(numbers))
    facts = [value.fact for value in graph.inputs]
    shapes = [(fact.dtype, fact.shape and len(fact.shape)) if isinstance(fact, TensorFact) else None for fact in facts]
    return (*keys, *shapes, *(numbers.get(value) for value in graph.outputs))


def _key_of_constant(value: Value, common: dict[int, int]) -> Hashable:
    return value if value.storage is None else _key_of_storage(value.storage, common)


def _key_of_storage(storage: Storage, common: dict[int, int]) -> Hashable:
    index = common.get(id(storage))
    elements = index if index is not None else digest_elements(storage)
    return storage.dtype, storage.shape, elements


def _key_of_attributes(node: Node, common: dict[int, int]) -> Hashable:
    def frozen(attribute: Any) -> Hashable:
        return _key_of_storage(attribute, common) if isinstance(attribute, Storage) else repr(attribute)

    return tuple((name, frozen(attribute)) for name, attribute in sorted(node.stated.items()))
