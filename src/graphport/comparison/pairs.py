"""Pairing of values of two graphs by name and position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.comparison.metrics import pair

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value


def originals(graph: Graph) -> dict[str, str]:
    """Map names of values to their names before renaming for a format."""
    return {v.name: str(v.notes["original_name"]) for v in graph.values() if v.has_notes and "original_name" in v.notes}


def pairs(a: Graph, b: Graph, *, outputs_first: bool = False) -> dict[Value, Value]:
    """Map values of `b` to values of `a` with equal present or original names; map outputs by position.

    No value of `a` occurs twice; constants are left out. With `outputs_first` the position of an output takes
    precedence over its name, which may belong to an inner value of `a`.
    """
    known = originals(b)
    names = {value.name: value for value in a.values() if not value.is_constant}
    results = {value.name: value for value in a.outputs}
    others = {value.name: value for value in b.outputs}
    placed = pair(list(results), list(others), known)[0]
    found: dict[Value, Value] = {}
    if outputs_first:
        found = {others[other]: names.pop(name) for name, other in placed if other is not None and name in names}
    for value in b.values():
        if value in found:
            continue
        name = known.get(value.name, value.name)
        partner = None if value.is_constant else names.pop(name if name in names else value.name, None)
        if partner is not None:
            found[value] = partner
    for name, other in placed:
        if other is not None and others[other] not in found and results[name] in names.values():
            found[others[other]] = results[name]
    return found
