"""The choice of integer and float nodes as a minimum cut: costs of nodes and of conversions between them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from graphport.quantization.minimum_cut import Cut
from graphport.quantization.placement import data_operands, is_float32, moves

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from graphport.ir.graph import Graph, Node, Value
    from graphport.quantization.placement import Placement
    from graphport.runtimes.target import Target


class Problem:
    """Nodes that may be quantized, and the edges between them.

    With two classes of nodes the cheapest plan is a minimum cut.
    """

    def __init__(
        self,
        graph: Graph,
        placement: Placement,
        target: Target,
        times: Callable[[Node], tuple[float, float]],
        rounding: Callable[[Value], float],
    ) -> None:
        """Set up nodes and costs.

        Args:
            graph: all nodes.
            placement: with as many integer nodes as possible.
            target: the target with its kernels.
            times: costs of a node, quantized and float.
            rounding: cost to quantize or dequantize a value.
        """
        self.layers, self.pointwise = placement.layers, placement.pointwise
        self.nodes = [*placement.layers, *placement.pointwise]
        self.target, self.graph = target, graph
        self.times, self.rounding = times, rounding
        self._known = set(self.nodes)

    def forced(self, floating: Collection[Node]) -> float:
        """Return the cost if only these nodes stay float, and those that cannot be quantized without them."""
        cut = Cut()
        items: dict[Node, int] = {}
        for node in self.nodes:
            rounded, real = self.times(node)
            is_open = node in self.pointwise and node not in floating
            items[node] = cut.add(inf, real) if node in floating else cut.add(rounded, real if is_open else inf)
        self._link(cut, items)
        return cut.cost(cut.solve())

    def solved(self, noises: Mapping[Node, float], kept: Collection[Node] = ()) -> list[Node]:
        """Return the float nodes of the cheapest plan; `noises` are additional costs of quantized nodes.

        Those of `kept` are quantized.
        """
        cut = Cut()
        items: dict[Node, int] = {}
        for node in self.nodes:
            rounded, real = self.times(node)
            items[node] = cut.add(rounded + noises.get(node, 0.0), inf if node in kept else real)
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
                if value.is_constant or not is_float32(value):
                    continue
                if node in items:
                    readers.setdefault(self._source(value), {})[node] = None
                else:
                    reals[self._source(value)] = None
        for value, found in readers.items():
            cost = self.rounding(value)
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
                    if node in self.pointwise:
                        # Nodes without weights quantize nothing: they compute on available integers.
                        cut.link(items[node], items[producer], inf)
                if value in reals:
                    cut.link(items[producer], cut.add(inf, 0.0), cost)

    def _gives_integers(self, node: Node | None) -> bool:
        return node is not None and node.op_type not in self.target.leaves_float

    def _passes(self, node: Node) -> bool:
        return node not in self._known and (moves(node) or node.op_type in self.target.fused)

    def _source(self, value: Value) -> Value:
        """Return the value from which data movement and fused nodes compute `value`."""
        while value.producer is not None and self._passes(value.producer):
            value = value.producer.operands[0]
        return value
