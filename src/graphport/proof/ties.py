"""Outputs that hang on which of equal numbers is found: of these a runtime may tell any."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.comparison.metrics import Reason
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.comparison.metrics import Difference
    from graphport.ir.graph import Graph, Value
    from graphport.proof.test_inputs import TestInput


def fed_by_indices(graph: Graph) -> frozenset[int]:
    """The outputs, by position, that places of largest or smallest numbers go into; bodies count as a whole."""
    indices: set[Value] = set()
    for node in graph:
        page = registry.pages().get(node.op)
        found = zip(() if page is None else page.outputs, node.outputs, strict=False)
        indices.update(value for name, value in found if value is not None and page is not None and name == page.finds)
        if any(operand in indices for operand in node.inputs if operand is not None):
            indices.update(node.results)
    return frozenset(position for position, value in enumerate(graph.outputs) if value in indices)


def of_integers(draw: TestInput, found: list[Difference]) -> frozenset[int]:
    """The outputs of integers that differ where many real numbers are equal."""
    has_reals = any(
        getattr(array, "dtype", None) is not None and array.dtype.kind == "f" for array in draw.arrays.values()
    )
    if draw.kind != "edges" or not has_reals:
        return frozenset()
    return frozenset(position for position, each in enumerate(found) if each.reason is Reason.INTEGERS)


def without(found: list[Difference], tied: frozenset[int], draw: TestInput, notes: list[str]) -> list[Difference]:
    """Without the differences of some outputs, which the notes tell."""
    left = [position for position, each in enumerate(found) if position in tied and not each.passed]
    if left:
        names = ", ".join(found[position].name for position in left)
        notes.append(f"{draw.label}: {names} not compared, for equal numbers may be told apart in any way")
    return [replace(each, passed=True, reason=None) if place in left else each for place, each in enumerate(found)]
