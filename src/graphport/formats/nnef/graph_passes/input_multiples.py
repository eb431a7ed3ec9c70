"""Open sizes of inputs that a graph only accepts as multiples of an integer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import Symbolic, evaluate, symbols
from graphport.core.facts import TensorFact
from graphport.ops.bind import bind
from graphport.ops.infer import infer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.dims.extents import Constraint
    from graphport.ir.graph import Graph

_MULTIPLES = (64, 32, 16, 8, 4, 2)
_FIRST_SIZE = 64
_OTHER_SIZES = (64, 65, 71, 128)
_MAX_CONSTRAINTS = 200


def state_multiples(graph: Graph) -> None:
    """Write the sizes of inputs as multiples of new symbols where the constraints of the graph imply it.

    Before  x is [1, 4, H, W];  Concat(Upsample(MaxPool(x)), x) requires 2 * (H // 2) = H
    After   x is [1, 4, 2 * H_2, 2 * W_2]

    tract compares symbolic dims term by term and does not use equations between dims.
    """
    constraints = [each for each in graph.extents.constraints if each.relation != "<=" and not each.is_true]
    names = sorted({name for value in graph.inputs for name in _plain_symbols(value.fact)})
    sizes: dict[str, Dim] = {}
    for name in names if len(constraints) <= _MAX_CONSTRAINTS else ():
        factor = next((m for m in _MULTIPLES if _is_multiple(name, m, constraints)), 1)
        if factor > 1:
            sizes[name] = factor * graph.extents.fresh(f"{name}_{factor}", 1)
    if sizes:
        bind(graph, sizes)
        infer(graph)


def _plain_symbols(fact: object) -> set[str]:
    dims = fact.shape if isinstance(fact, TensorFact) else None
    return {name for dim in dims or () if isinstance(dim, Symbolic) for name in symbols(dim)}


def _is_multiple(name: str, factor: int, constraints: Sequence[Constraint]) -> bool:
    """Whether constraints fail at each size that is no multiple, at all sizes of other symbols, and at no multiple."""
    sizes = range(_FIRST_SIZE, 2 * _FIRST_SIZE)
    return all(any(_fails(each, name, size) for each in constraints) == bool(size % factor) for size in sizes)


def _fails(constraint: Constraint, name: str, size: int) -> bool:
    others = (symbols(constraint.left).keys() | symbols(constraint.right).keys()) - {name}
    for other in _OTHER_SIZES:
        given = {**dict.fromkeys(others, other), name: size}
        left, right = evaluate(constraint.left, given), evaluate(constraint.right, given)
        if left == right or (constraint.relation == "broadcast" and 1 in (left, right)):
            return False
    return True
