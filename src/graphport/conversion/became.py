"""What the operators of a model became in the words of a format."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


class Became(NamedTuple):
    """So many nodes of an operator, and the words that stand for each; none where it is gone."""

    operator: str
    nodes: int
    words: tuple[str, ...]


def became(graph: Graph, stated: Graph) -> list[Became]:
    """For each operator of `graph` (canonical) its words in `stated`, the same graph as it is written.

    Values keep their names: a node's words are what computes its results there, back to other values of `graph`. A node
    whose results are not there was computed ahead, or a word for several has taken it in. Most frequent first.
    """
    names = {value.name for inner in walk(graph) for value in inner.values()}
    there = {value.name: value for inner in walk(stated) for value in inner.values()}
    counts = Counter((node.op, _words(node, there, names)) for inner in walk(graph) for node in inner)
    return [Became(operator, count, words) for (operator, words), count in counts.most_common()]


def _words(node: Node, there: dict[str, Value], names: set[str]) -> tuple[str, ...]:
    """The words behind the results of a node, in the order in which they run."""
    found: dict[Node, None] = {}
    waiting = [there[value.name] for value in node.results if value.name in there]
    while waiting:
        maker = waiting.pop().producer
        if maker is None or maker in found:
            continue
        found[maker] = None
        waiting += [value for value in maker.operands if value.name not in names]
    return tuple(each.word for each in reversed(found))
