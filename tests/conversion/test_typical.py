"""Large graphs are told by one or two of each kind of node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from graphport.conversion.coverage import coverage
from graphport.conversion.legalize import legalize
from graphport.conversion.typical import typical
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


def test_what_formats_cannot_write_is_counted_as_in_the_whole():
    graph = _layers(60)
    small, stands_for = typical(graph, large=0)
    verify(small)
    assert len(small) < 40
    assert sum(stands_for.values()) == len(graph)
    assert coverage(small, stands_for) == coverage(graph)


def test_a_small_graph_represents_itself():
    graph = _layers(3)
    assert typical(graph) == (graph, {})


@given(graphs())
@pytest.mark.filterwarnings("ignore")
def test_every_node_is_represented_once(graph):
    small, stands_for = typical(graph, large=0)
    verify(small)
    assert sum(stands_for.values()) == sum(bool(each.results) for each in graph)
