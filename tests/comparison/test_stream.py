"""Slices of a graph, and the values that are stored while they are computed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graphport.comparison import stream
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import rewrite, subgraph
from graphport.ir.graph import Graph, Node, Value

ROW = 4
"""Elements of every value of a chain: 16 bytes."""


def chain(draw, length: int) -> Graph:
    """Return a chain of sums of two earlier values or constants; a few have no known shape."""
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
    assert isinstance(value.fact, TensorFact)
    return 4096 if value.fact.shape is None else 4 * ROW


def cost(nodes) -> int:
    return sum(nbytes(v) for each in nodes for v in [*each.results, *(v for v in each.operands if v.is_constant)])


@pytest.mark.parametrize(("most_bytes", "most_nodes"), [(48, 256), (47, 256), (4200, 256), (1 << 20, 5), (1, 3)])
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
        graph.append(Node("Cast", [x], [Value(f"v{i}", TensorFact(dtype, (8,)))], {"to": dtype}))
    monkeypatch.setattr(stream, "MOST_BYTES", 72)
    assert [len(nodes) for nodes in stream.sliced(graph)] == [2, 2]


def test_a_value_is_let_go_of_once_no_node_reads_it_any_more(monkeypatch):
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
            ahead = {value for nodes, _ in held[place:] for each in nodes for value in subgraph.reads(each)}
            # An input without a consumer stays until the first slice is computed.
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


@pytest.mark.parametrize(
    ("dtype", "real"),
    [
        (np.float16, True),
        (np.float64, True),
        (ml_dtypes.bfloat16, True),
        (ml_dtypes.float8_e4m3fn, True),
        (ml_dtypes.int4, False),
        (np.int8, False),
        (np.uint8, False),
        (bool, False),
        (np.complex64, False),
        (object, False),
        ("S1", False),
        ("U1", False),
    ],
)
def test_real_numbers_are_those_of_any_floating_type(dtype, real):
    assert stream.has_floats(np.zeros(1, dtype)) is real


def test_a_value_takes_the_bytes_of_its_numbers_and_one_of_unknown_shape_a_page():
    def taken(dtype, shape):
        return stream._nbytes(Value("v", TensorFact(dtype, shape)))

    weights = Graph("weights").add_constant("w", TensorFact(None, None), storage_of([1.0, 2.0, 3.0]))
    assert stream._nbytes(weights) == storage_of([1.0, 2.0, 3.0]).nbytes
    assert taken(DType.FLOAT32, (2, 3)) == 24
    assert taken(DType.FLOAT64, ()) == 8
    assert taken(DType.INT4, (3,)) == 3
    assert taken(DType.INT8, (0, 3)) == 0
    assert {taken(DType.FLOAT32, None), taken(DType.FLOAT32, (Symbol("N"), 2)), taken(None, (2, 3))} == {4096}


def refusing(most: int, refused=()):
    """Return `stream.computed` with a backend that refuses more than `most` nodes at a time and the nodes `refused`."""
    plain = stream.computed

    def computed(nodes, wanted, known, backend="auto"):
        if backend == "refusing" and (len(nodes) > most or not set(nodes).isdisjoint(refused)):
            raise DiagnosticError(Diagnostic("RUN0003", "too many", None))
        return plain(nodes, wanted, known, "reference")

    return computed


@pytest.mark.parametrize("most_nodes", [1, 3, 256])
@pytest.mark.parametrize("most_at_once", [1, 2, 256])
def test_values_come_in_pairs_with_what_each_graph_gives(most_nodes, most_at_once, monkeypatch):
    """For any correspondence: each pair once, and a value with several counterparts with each of them."""
    monkeypatch.setattr(stream, "MOST_NODES", most_nodes)
    monkeypatch.setattr(stream, "computed", refusing(most_at_once))
    draw = np.random.default_rng(3)
    for _ in range(4):
        a, b = chain(draw, int(draw.integers(1, 12))), chain(draw, int(draw.integers(1, 12)))
        x, y = draw.normal(size=(2, ROW)).astype(np.float32)
        of_a, of_b = numbers(a, x), numbers(b, y)
        partners = list(of_a)
        pairs = {v: partners[draw.integers(len(partners))] for v in of_b if not v.is_input and draw.integers(3)}
        side_by_side = stream.Stream(a, b, pairs, {"x": x}, {"x": y}, backend_a="reference", backend_b="refusing")
        found = [pair for step in side_by_side for pair in step]
        assert {pair.b: pair.a for pair in found} == pairs
        assert len(found) == len(pairs)
        for pair in found:
            np.testing.assert_array_equal(pair.x, of_a[pair.a])
            np.testing.assert_array_equal(pair.y, of_b[pair.b])
        assert not side_by_side.known_a
        assert not side_by_side.known_b


def twins(draw, length: int):
    """Return a chain, its copy with other constants, and a map from the results of the copy to those of the chain."""
    a = chain(draw, length)
    b = rewrite.copy(a)
    for value in b.constants:
        value.storage = storage_of(draw.normal(size=ROW).astype(np.float32))
    return a, b, {mine.output: other.output for mine, other in zip(b, a, strict=True)}


def given_first(node, of_a, pairs):
    """Return the result of a node of the second graph on operands of the first."""
    return np.add(*(v.storage.numpy() if v.is_constant else of_a[pairs.get(v, v)] for v in node.operands))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_forced_graph_computes_each_slice_from_the_numbers_of_the_first(dtype, monkeypatch):
    monkeypatch.setattr(stream, "MOST_NODES", 1)
    draw = np.random.default_rng(4)
    for _ in range(4):
        a, b, pairs = twins(draw, 8)
        x = draw.normal(size=ROW).astype(dtype)
        of_a = {**numbers(a, x), b.inputs[0]: x}
        steps = list(stream.Stream(a, b, pairs, {"x": x}, {"x": x}, True, "reference", "reference"))
        assert [pair.b for step in steps for pair in step] == list(pairs)
        for step in steps:
            for pair in step:
                np.testing.assert_array_equal(pair.y, given_first(pair.b.producer, of_a, pairs))


@pytest.mark.parametrize("most_nodes", [1, 4, 256])
def test_a_node_that_does_not_compute_ends_a_forced_stream_after_all_before_it(most_nodes, monkeypatch):
    monkeypatch.setattr(stream, "MOST_NODES", most_nodes)
    draw = np.random.default_rng(5)
    for place in range(6):
        a, b, pairs = twins(draw, 6)
        wrong = list(b)[place]
        x = draw.normal(size=ROW).astype(np.float32)
        with monkeypatch.context() as patch:
            patch.setattr(stream, "computed", refusing(256, [wrong]))
            *steps, last = stream.Stream(a, b, pairs, {"x": x}, {"x": x}, True, "reference", "refusing")
            with pytest.raises(DiagnosticError, match="too many"):
                list(stream.Stream(a, b, pairs, {"x": x}, {"x": x}, False, "reference", "refusing"))
        assert [pair.b for step in steps for pair in step] == list(pairs)[:place]
        assert isinstance(last, stream.Unanswered)
        assert (last.nodes, last.reason.diagnostics[0].code) == ([wrong], "RUN0003")
        of_a = numbers(a, x)
        for value in (v for v in wrong.operands if not v.is_constant):
            np.testing.assert_array_equal(last.given[value], x if value.is_input else of_a[pairs[value]])


def test_a_stream_holds_what_is_read_later_and_what_is_still_to_be_held_against_it(monkeypatch):
    monkeypatch.setattr(stream, "MOST_NODES", 2)
    draw = np.random.default_rng(6)
    for _ in range(4):
        a, b, pairs = twins(draw, 12)
        x = draw.normal(size=ROW).astype(np.float32)
        side_by_side = stream.Stream(a, b, pairs, {"x": x}, {"x": x}, False, "reference", "reference")
        done = 0
        for step in side_by_side:
            behind = {value for each in list(a)[done:] for value in subgraph.reads(each)}
            assert set(side_by_side.known_a) <= behind | {pair.a for pair in step} | set(a.inputs)
            done += len(step)
            ahead = {value for each in list(b)[done - len(step) :] for value in subgraph.reads(each)}
            assert set(side_by_side.known_b) <= ahead | {pair.b for pair in step} | set(b.inputs)
        assert done == len(a)


def test_of_a_slice_nothing_is_asked_but_what_is_read_after_it_or_compared(monkeypatch):
    monkeypatch.setattr(stream, "MOST_NODES", 3)
    asked, plain = [], stream.computed

    def watched(nodes, wanted, known, backend="auto"):
        asked.append((list(nodes), set(wanted)))
        return plain(nodes, wanted, known, backend)

    monkeypatch.setattr(stream, "computed", watched)
    draw = np.random.default_rng(8)
    for _ in range(4):
        a, b, pairs = twins(draw, 12)
        x = draw.normal(size=ROW).astype(np.float32)
        pairs = {value: partner for value, partner in pairs.items() if draw.integers(3) == 0}
        compared = {*pairs, *pairs.values()}
        asked.clear()
        list(stream.Stream(a, b, pairs, {"x": x}, {"x": x}, False, "reference", "reference"))
        stream.values_of(a, {"x": x}, [a.outputs[0]], "reference")
        compared.add(a.outputs[0])
        for place, (nodes, wanted) in enumerate(asked):
            behind = [each for later, _ in asked[place + 1 :] for each in later]
            assert wanted <= compared | {value for each in behind for value in subgraph.reads(each)}
            assert wanted <= {value for each in nodes for value in each.results}


def test_nothing_is_computed_that_nobody_asks_for(monkeypatch):
    graph = chain(np.random.default_rng(7), 9)
    x = np.ones(ROW, np.float32)
    expected = numbers(graph, x)
    assert stream.computed(list(graph), [], {}, "no such backend") == {}
    first, second = (each.output for each in list(graph)[:2])
    found = stream.computed(list(graph)[:2], [second, first, second], {graph.inputs[0]: x}, "reference")
    assert list(found) == [second, first]
    np.testing.assert_array_equal(found[second], expected[second])
    monkeypatch.setattr(stream, "MOST_NODES", 1)
    plain, runs = stream.computed, []
    monkeypatch.setattr(stream, "computed", lambda nodes, *rest: (runs.append(nodes), plain(nodes, *rest))[1])
    found = stream.values_of(graph, {"x": x}, [graph.inputs[0], second], "reference")
    assert set(found) == {graph.inputs[0], second}
    assert len(runs) == 2
    assert stream.values_of(graph, {"x": x}, [graph.inputs[0]], "reference") == {graph.inputs[0]: x}
    assert len(runs) == 2
