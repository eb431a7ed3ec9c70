"""Every method of dispatch compared with its rule, as a fixed point over sets of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import graphport as gp
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node
from graphport.ops import registry
from graphport.quantization.dispatch import ComputeDomain, Method, dispatch
from tests.every import every
from tests.passes.cases import Case
from tests.passes.families import cases

CASES = cases()[::3]


class Rules:
    """The quantizable nodes, the nodes with weights, and the float edges of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        decisions = dispatch(graph, "all-in")
        self.quantizable = {node for node in graph if decisions[node].place is ComputeDomain.QUANTIZED}
        self.index = {node for node in graph if decisions[node].place is ComputeDomain.INDEX}
        self.weighted = {node for node in self.quantizable if registry.op_defs()[node.op_type].role == "weighted"}
        self.edges = [(node, reader) for node in graph for reader in graph if self._hands_reals(node, reader)]

    def _hands_reals(self, node: Node, reader: Node) -> bool:
        op_def = None if reader.dialect else registry.op_defs().get(reader.op_type)
        for place, value in enumerate(reader.inputs):
            if value is None or value not in node.results:
                continue
            said = None if op_def is None else op_def.signature.operand(place)
            is_index = op_def is not None and said is not None and said.name in op_def.index_operands
            fact = value.fact
            is_real = not isinstance(fact, TensorFact) or fact.dtype is None or fact.dtype.is_floating
            if is_real and not is_index:
                return True
        return False

    def grown(self, seeds: Iterable[Node], may: Callable[[Node], bool], *, down: bool, up: bool = False) -> set[Node]:
        """`seeds` and all that edges lead to from them over nodes that may be passed."""
        found, before = set(seeds), -1
        while len(found) != before:
            before = len(found)
            found |= {b for a, b in self.edges if down and a in found and may(b)}
            found |= {a for a, b in self.edges if up and b in found and may(a)}
        return found

    def chosen(self, method: Method) -> set[Node]:
        def is_no_index(node: Node) -> bool:
            return node not in self.index

        match method:
            case Method.CONSERVATIVE:
                return self.grown(self.weighted, self.quantizable.__contains__, down=True)
            case Method.AGGRESSIVE:
                return self.grown(self.weighted, is_no_index, down=True) & self.quantizable
            case Method.ALL_IN:
                return self.quantizable
            case Method.POINTWISE:
                return self.weighted
            case Method.CLOSURE:
                return self.grown(self.weighted, is_no_index, down=True, up=True) & self.quantizable
            case Method.BETWEEN_CONVOLUTIONS:
                return self._between(is_no_index) & self.quantizable

    def _between(self, may: Callable[[Node], bool]) -> set[Node]:
        convolutions = {node for node in self.weighted if node.op in ("Conv", "ConvTranspose", "DeformConv")}
        found: set[Node] = set()
        for start in convolutions:
            for first in (b for a, b in self.edges if a is start and (may(b) or b in convolutions)):
                below = self.grown([first], may, down=True)
                for end in below & convolutions:
                    found |= {start, end} | (below & self.grown([end], may, down=False, up=True))
        return found


@every("case", CASES, ids=lambda case: case.name)
def test_dispatch_methods_match_their_rules(case: Case):
    graph = gp.prepare(gp.from_onnx(case.model), verify=False)[0].graph
    rules = Rules(graph)
    for method in Method:
        decisions = dispatch(graph, method)
        found = {node for node in graph if decisions[node].place is ComputeDomain.QUANTIZED}
        assert found == rules.chosen(method), method


def test_no_dispatch_method_quantizes_shapes_or_bodies():
    for case in CASES:
        graph = gp.prepare(gp.from_onnx(case.model), verify=False)[0].graph
        places = [{node: decision.place for node, decision in dispatch(graph, method).items()} for method in Method]
        index = [{node for node, place in each.items() if place is ComputeDomain.INDEX} for each in places]
        assert all(each == index[0] for each in index)
        assert not any(
            node.graph is not graph and place is ComputeDomain.QUANTIZED
            for each in places
            for node, place in each.items()
        )
