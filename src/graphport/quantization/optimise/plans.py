"""Which layers to leave real: the best plans for every weight of noise beside time."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.quantization.optimise.cut import Cut
from graphport.quantization.placement import data_operands, is_real, moves

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.ir.graph import Node, Value
    from graphport.quantization.candidate import Candidate
    from graphport.quantization.optimise.costs import Times
    from graphport.quantization.targets.target import Target

_WEIGHTS = (0.0, *(10 ** (k / 2) for k in range(-6, 5)))
"""What noise counts beside time: 1 where all noise is worth as much as all time."""


def plans(
    base: Candidate, target: Target, before: Times, after: Times, noises: Mapping[Node, float], entries: int
) -> list[tuple[str, ...]]:
    """Names of what stays real in each plan, the fastest plan first; each the cheapest of all for its weight of noise.

    Time is that of the kernels of real and of rounded nodes, and of rounding and taking back where unlike ones meet;
    noise adds up over layers. With two kinds of nodes the cheapest plan is a minimum cut.

    Args:
        base: where everything is rounded that can be.
        target: whose kernels count.
        before: times of nodes of the real graph.
        after: times of nodes of `base`.
        noises: for each layer the noise at the outputs that it makes alone.
        entries: samples of the runs that were timed.
    """
    whole = sum(before.nodes.values())
    unit = whole / max(sum(noises.values()), 1e-30)
    found: dict[tuple[str, ...], None] = {}
    for weight in _WEIGHTS:
        problem = _Problem(base, target, before, after, entries)
        floating = problem.solved({node: weight * unit * noise for node, noise in noises.items()})
        if len([node for node in floating if node in base.quantization.placement.layers]) < len(noises):
            found[tuple(node.output.name for node in floating)] = None
    return list(found)


def cost_of(
    base: Candidate, target: Target, before: Times, after: Times, floating: Collection[str], entries: int
) -> float:
    """Microseconds of all nodes that may be rounded, and of conversions, if those that are named stay real.

    Args:
        base: where everything is rounded that can be.
        target: whose kernels count.
        before: times of nodes of the real graph.
        after: times of nodes of `base`.
        floating: results of nodes.
        entries: samples of the runs that were timed.
    """
    problem = _Problem(base, target, before, after, entries)
    return problem.forced({node for node in problem.nodes if node.output.name in floating})


class _Problem:
    """The nodes of a graph that may be rounded, and what they read of each other."""

    def __init__(self, base: Candidate, target: Target, before: Times, after: Times, entries: int) -> None:
        placement = base.quantization.placement
        self.layers = placement.layers
        self.nodes = [*placement.layers, *placement.pointwise]
        self.target = target
        self.before = before
        self.after = after
        self.entries = entries
        self.graph = base.graph
        self._known = set(self.nodes)

    def forced(self, floating: Collection[Node]) -> float:
        """What it costs if these nodes stay real."""
        cut = Cut()
        items: dict[Node, int] = {}
        for node in self.nodes:
            rounded, real = self._times(node)
            items[node] = cut.add(inf, real) if node in floating else cut.add(rounded, inf)
        self._link(cut, items)
        return cut.cost(cut.solve())

    def _times(self, node: Node) -> tuple[float, float]:
        """Rounded, and real; what is fused into another kernel is free, but of layers nothing is known then."""
        real, rounded = self.before.nodes.get(node.name), self.after.nodes.get(node.name)
        is_known = real is not None and rounded is not None
        if node in self.layers and not is_known:
            return 0.0, 0.0
        return rounded or 0.0, real or 0.0

    def solved(self, noises: Mapping[Node, float]) -> list[Node]:
        """The nodes that stay real in the cheapest plan."""
        cut = Cut()
        items: dict[Node, int] = {}
        for node in self.nodes:
            rounded, real = self._times(node)
            items[node] = cut.add(rounded + noises.get(node, 0.0), real)
        self._link(cut, items)
        first = cut.solve()
        return [node for node, item in items.items() if item not in first]

    def _link(self, cut: Cut, items: dict[Node, int]) -> None:
        readers: dict[Value, dict[Node, None]] = {}
        reals: dict[Value, None] = dict.fromkeys(self._source(value) for value in self.graph.outputs)
        for node in self.graph:
            if self._passes(node):
                continue
            for value in data_operands(node) if node in items else node.operands:
                if value.is_constant or not is_real(value):
                    continue
                if node in items:
                    readers.setdefault(self._source(value), {})[node] = None
                else:
                    reals[self._source(value)] = None
        for value, found in readers.items():
            cost = self.after.rounding(self._elements(value))
            producer = value.producer if value.producer in items and self._gives_integers(value.producer) else None
            codes = cut.add(0.0 if producer is not None else cost)
            if producer is not None:
                cut.link(codes, items[producer], cost)
            for node in found:
                cut.link(items[node], codes, inf)
            if producer is not None:
                numbers = cut.add()
                cut.link(items[producer], numbers, cost)
                for node in found:
                    cut.link(numbers, items[node], inf)
                if value in reals:
                    cut.link(items[producer], cut.add(inf, 0.0), cost)

    def _gives_integers(self, node: Node | None) -> bool:
        return node is not None and node.word not in self.target.leaves_float

    def _passes(self, node: Node) -> bool:
        return node not in self._known and (moves(node) or node.word in self.target.fused)

    def _source(self, value: Value) -> Value:
        """The value that it is, moved or with what is fused into the kernel that gave it."""
        while value.producer is not None and self._passes(value.producer):
            value = value.producer.operands[0]
        return value

    def _elements(self, value: Value) -> int:
        shape = value.fact.shape if isinstance(value.fact, TensorFact) else None
        free = self.entries if shape and not isinstance(shape[0], int) else 1
        return free * prod(dim if isinstance(dim, int) else 1 for dim in shape or ())
