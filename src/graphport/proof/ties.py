"""Outputs that depend on which of several equal elements a runtime returns, which it may choose."""

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
    """Positions of the outputs that depend on indices of largest or smallest elements; bodies count as a whole."""
    indices: set[Value] = set()
    for node in graph:
        op_def = registry.op_defs().get(node.op)
        found = zip(() if op_def is None else op_def.outputs, node.outputs, strict=False)
        indices.update(
            value for name, value in found if value is not None and op_def is not None and name == op_def.finds
        )
        if any(operand in indices for operand in node.inputs if operand is not None):
            indices.update(node.results)
    return frozenset(position for position, value in enumerate(graph.outputs) if value in indices)


def of_integers(test_input: TestInput, found: list[Difference]) -> frozenset[int]:
    """Positions of the integer outputs that differ for a test input with many equal floats."""
    has_reals = any(
        getattr(array, "dtype", None) is not None and array.dtype.kind == "f" for array in test_input.arrays.values()
    )
    if test_input.kind != "edges" or not has_reals:
        return frozenset()
    return frozenset(position for position, each in enumerate(found) if each.reason is Reason.INTEGERS)


def without(found: list[Difference], tied: frozenset[int], test_input: TestInput, notes: list[str]) -> list[Difference]:
    """Mark outputs with ties as passed, and add a note that lists them."""
    left = [position for position, each in enumerate(found) if position in tied and not each.passed]
    if left:
        names = ", ".join(found[position].name for position in left)
        notes.append(f"{test_input.label}: {names} not compared: a runtime may choose between equal elements")
    return [replace(each, passed=True, reason=None) if place in left else each for place, each in enumerate(found)]
