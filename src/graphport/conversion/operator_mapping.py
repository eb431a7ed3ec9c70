"""The mapping from canonical operators to the op types of an exported graph."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


class OperatorMapping(NamedTuple):
    """The number of nodes of one operator that map to the same op types; `words` is empty if the nodes were removed."""

    operator: str
    nodes: int
    words: tuple[str, ...]


def map_operators(graph: Graph, stated: Graph) -> list[OperatorMapping]:
    """Count, for each operator of the canonical `graph`, the op types that replace it in the exported graph `stated`.

    Values keep their names. The op types of a node are found by a walk from its results in `stated` back to other
    values of `graph`. A node whose results are missing there was folded or fused. Sorted by count, descending.
    """
    names = {value.name for inner in walk(graph) for value in inner.values()}
    there = {value.name: value for inner in walk(stated) for value in inner.values()}
    counts = Counter((node.op, _op_types_of(node, there, names)) for inner in walk(graph) for node in inner)
    return [OperatorMapping(operator, count, words) for (operator, words), count in counts.most_common()]


def _op_types_of(node: Node, there: dict[str, Value], names: set[str]) -> tuple[str, ...]:
    """Return the op types that compute the results of a node, in execution order."""
    found: dict[Node, None] = {}
    waiting = [there[value.name] for value in node.results if value.name in there]
    while waiting:
        maker = waiting.pop().producer
        if maker is None or maker in found:
            continue
        found[maker] = None
        waiting += [value for value in maker.operands if value.name not in names]
    return tuple(each.op_type for each in reversed(found))
