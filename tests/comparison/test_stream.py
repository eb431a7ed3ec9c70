"""Slices of a graph, and what is kept while they are computed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphport.comparison import stream
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import part
from graphport.ir.graph import Graph, Node, Value

ROW = 4
"""Elements of every value of a chain: 16 bytes."""


def chain(draw, length: int) -> Graph:
    """Sums of two earlier values each, some of them of a constant; a few have no shape that is known."""
    graph = Graph("chain")
    values = [graph.add_input("x", TensorFact(DType.FLOAT32, (ROW,)))]
    for i in range(length):
        one = values[int(draw.integers(max(0, len(values) - 4), len(values)))]
        other = values[int(draw.integers(len(values)))]
        if draw.integers(4) == 0:
            numbers = draw.normal(size=ROW).astype(np.float32)
            other = graph.add_constant(f"c{i}", TensorFact(DType.FLOAT32, (ROW,)), storage_of(numbers))
        shape = None if draw.integers(6) == 0 else (ROW,)
        result = Value(f"v{i}", TensorFact(DType.FLOAT32, shape))
        graph.append(Node("Add", [one, other], [result], name=f"n{i}"))
        values.append(result)
    graph.add_output(values[-1])
    return graph


def nbytes(value: Value) -> int:
    fact = value.fact
    return 4096 if fact.shape is None else 4 * math.prod(fact.shape)


def cost(nodes) -> int:
    return sum(nbytes(v) for each in nodes for v in [*each.results, *(v for v in each.operands if v.is_constant)])


@pytest.mark.parametrize(("most_bytes", "most_nodes"), [(48, 256), (4200, 256), (1 << 20, 5), (1, 3)])
def test_slices_are_the_graph_in_order_and_as_large_as_they_may_be(most_bytes, most_nodes, monkeypatch):
    monkeypatch.setattr(stream, "MOST_BYTES", most_bytes)
    monkeypatch.setattr(stream, "MOST_NODES", most_nodes)
    draw = np.random.default_rng(1)
    for _ in range(10):
        graph = chain(draw, int(draw.integers(1, 30)))
        slices = stream.sliced(graph)
        assert [each for nodes in slices for each in nodes] == list(graph)
        for nodes, following in zip(slices, [*slices[1:], []], strict=True):
            assert nodes
            assert len(nodes) <= most_nodes
            assert len(nodes) == 1 or cost(nodes) <= most_bytes
            assert not following or len(nodes) == most_nodes or cost([*nodes, following[0]]) > most_bytes


def test_elements_of_less_than_a_byte_take_one_and_wide_ones_what_they_have(monkeypatch):
    graph = Graph("wide")
    x = graph.add_input("x", TensorFact(DType.INT8, (8,)))
    for i, dtype in enumerate([DType.FLOAT64, DType.INT4, DType.FLOAT64, DType.INT4]):
        graph.append(Node("Cast", [x], [Value(f"v{i}", TensorFact(dtype, (8,)))], (("to", dtype),)))
    monkeypatch.setattr(stream, "MOST_BYTES", 72)
    assert [len(nodes) for nodes in stream.sliced(graph)] == [2, 2]


def test_a_value_is_let_go_of_once_nobody_reads_it_any_more(monkeypatch):
    monkeypatch.setattr(stream, "MOST_BYTES", 64)
    draw = np.random.default_rng(2)
    plain, held = stream.computed, []

    def watched(nodes, wanted, known, backend="auto"):
        held.append((nodes, dict(known)))
        return plain(nodes, wanted, known, backend)

    monkeypatch.setattr(stream, "computed", watched)
    for _ in range(4):
        graph = chain(draw, 20)
        held.clear()
        x = draw.normal(size=ROW).astype(np.float32)
        asked = [graph.outputs[0], next(iter(graph)).output]
        found = stream.values_of(graph, {"x": x}, asked, "reference")
        expected = numbers(graph, x)
        for value in asked:
            np.testing.assert_array_equal(found[value], expected[value])
        for place, (_, known) in enumerate(held):
            ahead = {value for nodes, _ in held[place:] for each in nodes for value in part.reads(each)}
            # What no slice reads at all, an input, stays until the first one is computed.
            assert set(known) <= ahead | set(graph.inputs)


def numbers(graph: Graph, x: np.ndarray) -> dict[Value, np.ndarray]:
    """Every value, added up here."""
    known = {graph.inputs[0]: x}
    for each in graph:
        one, other = (known[v] if v in known else v.storage.numpy() for v in each.operands)
        known[each.output] = one + other
    return known


@pytest.mark.parametrize(
    ("x", "y", "alike"),
    [
        pytest.param(np.ones(2, np.float16), np.ones(2, np.float32), True, id="reals"),
        pytest.param(np.ones(2, np.int8), np.ones(2, bool), True, id="whole numbers"),
        pytest.param(np.ones(2, np.int8), np.ones(2, np.float32), False, id="codes"),
        pytest.param(np.ones(2, np.float32), np.ones((1, 2), np.float32), False, id="shapes"),
        pytest.param(np.array(["a"], object), np.ones(1, np.int8), False, id="texts"),
        pytest.param([np.ones(1)], np.ones(1), False, id="sequences"),
    ],
)
def test_what_can_stand_where_another_does(x, y, alike):
    assert stream.is_alike(x, y) is alike
    assert stream.is_alike(y, x) is alike
