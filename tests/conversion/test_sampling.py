"""Large graphs are told by one or two of each kind of node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from graphport.conversion.coverage import coverage
from graphport.conversion.legalize import legalize
from graphport.conversion.sampling import sample_graph
from graphport.formats.onnx import from_proto
from graphport.ir.graph import Graph
from graphport.ir.verify import verify
from tests.models import model, node, typed
from tests.strategies import graphs


def _layers(count: int) -> Graph:
    """Blocks of a product, a sum with a constant and an activation, which is another one in every fourth block."""
    nodes, names = [], ["x"]
    for index in range(count):
        nodes += [
            node("MatMul", [names[-1], "w"], [f"m{index}"]),
            node("Add", [f"m{index}", "b"], [f"a{index}"]),
            node("Erf" if index % 4 == 0 else "Relu", [f"a{index}"], [f"r{index}"]),
        ]
        names.append(f"r{index}")
    constants = {"w": np.eye(4, dtype=np.float32), "b": np.ones(4, np.float32)}
    proto = model(nodes, [typed("x", [1, 4])], [typed(names[-1], [1, 4])], constants)
    return legalize(from_proto(proto))[0]


def test_sampled_graph_has_the_coverage_of_the_whole_graph():
    graph = _layers(60)
    small, stands_for = sample_graph(graph, large=0)
    verify(small)
    assert len(small) < 40
    assert sum(stands_for.values()) == len(graph)
    assert coverage(small, stands_for) == coverage(graph)


def test_sampling_returns_a_small_graph_unchanged():
    graph = _layers(3)
    assert sample_graph(graph) == (graph, {})


@given(graphs())
@pytest.mark.filterwarnings("ignore")
def test_every_node_is_represented_once(graph):
    small, stands_for = sample_graph(graph, large=0)
    verify(small)
    assert sum(stands_for.values()) == sum(bool(each.results) for each in graph)


def _chain(count: int, **changed: float) -> Graph:
    """`x` through as many leaky rectifiers, of which some have another slope."""
    nodes, last = [], "x"
    for place in range(count):
        slope = changed.get(f"r{place}", 0.1)
        nodes.append(node("LeakyRelu", [last], [f"r{place}"], alpha=slope))
        last = f"r{place}"
    return legalize(from_proto(model(nodes, [typed("x", [1, 4])], [typed(last, [1, 4])])))[0]


def test_sampling_keeps_two_nodes_of_each_kind_and_uncounted_neighbours():
    graph = _chain(10)
    small, stands_for = sample_graph(graph, large=10)
    verify(small)
    # The first reads an input, the last is read by nobody; those between are alike.
    assert stands_for == {"r0": 1, "r1": 7, "r2": 1, "r3": 0, "r8": 0, "r9": 1}
    assert [each.output.name for each in small] == sorted(stands_for)
    assert [value.name for value in small.inputs] == ["x", "r7"]
    assert [value.name for value in small.outputs] == ["r3", "r9"]
    assert small.opsets == graph.opsets
    assert {str(value.fact) for value in small.values()} == {"float32[1, 4]"}
    assert sample_graph(graph, large=11) == (graph, {})


def test_sampling_distinguishes_nodes_by_attributes_and_neighbours():
    _, stands_for = sample_graph(_chain(12, r6=0.2), large=0)
    assert stands_for == {
        "r0": 1,
        "r1": 6,
        "r2": 1,
        "r3": 0,
        "r4": 0,
        "r5": 1,
        "r6": 1,
        "r7": 1,
        "r8": 0,
        "r10": 0,
        "r11": 1,
    }


def test_two_readers_and_two_results_are_no_more_than_they_are():
    nodes = [node("Relu", ["x"], ["h"])]
    nodes += [node("Abs", ["h"], [f"a{place}"]) for place in range(5)]
    outputs = [typed(f"a{place}", [1, 4]) for place in range(5)]
    graph = legalize(from_proto(model(nodes, [typed("x", [1, 4])], outputs)))[0]
    small, stands_for = sample_graph(graph, large=0)
    verify(small)
    assert stands_for == {"h": 1, "a0": 4, "a1": 1}
    assert [value.name for value in small.outputs] == ["h", "a0", "a1"]
    assert [value.name for value in small.inputs] == ["x"]
