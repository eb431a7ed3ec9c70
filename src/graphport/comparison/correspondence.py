"""Pairing of corresponding values of two graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.comparison.pairs import pairs
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def correspondence(a: Graph, b: Graph) -> dict[Value, Value]:
    """Map values of `b` to values of `a`: `pairs`, and values with other names that are computed alike.

    Inputs are also paired by position; then results of equal operators on paired operands, if only one such node is
    unpaired. Values of different static shapes are paired only if they are inputs or outputs.
    """
    ends = {*a.inputs, *a.outputs}
    found = {x: y for y, x in pairs(a, b).items() if x in ends or not _is_unlike(x, y)}
    taken = set(found.values())
    free = [y for y in b.inputs if y not in taken]
    for x, y in zip([x for x in a.inputs if x not in found], free, strict=False):
        found[x] = y
        taken.add(y)
    for node in a:
        if any(value not in found for value in node.results):
            twin = _find_partner(node, found, taken)
            for x, y in zip(node.results, twin.results if twin is not None else (), strict=False):
                if x not in found and y not in taken and not _is_unlike(x, y):
                    found[x] = y
                    taken.add(y)
    return {found[value]: value for value in a.values() if value in found}


def _find_partner(node: Node, found: dict[Value, Value], taken: set[Value]) -> Node | None:
    """Return the only unpaired node with the operator of `node` on the operands paired with those of `node`."""
    known = [(index, found[value]) for index, value in enumerate(node.inputs) if value is not None and value in found]
    if not known or any(v is not None and v not in found and not _is_fixed(v) for v in node.inputs):
        return None
    _, read = known[0]
    candidates = [
        user
        for user in read.users
        if user.op == node.op
        and len(user.results) == len(node.results)
        and all(user.operand(index) is value for index, value in known)
        and not any(value in taken for value in user.results)
    ]
    return candidates[0] if len(candidates) == 1 else None


def _is_fixed(value: Value) -> bool:
    """Whether a value is equal in all runs: a constant, or a result of a node without operands."""
    return value.is_constant or (value.producer is not None and not value.producer.inputs)


def _is_unlike(x: Value, y: Value) -> bool:
    a, b = x.fact, y.fact
    if not isinstance(a, TensorFact) or not isinstance(b, TensorFact) or a.shape is None or b.shape is None:
        return False
    if len(a.shape) != len(b.shape):
        return True
    return any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(a.shape, b.shape, strict=True))
