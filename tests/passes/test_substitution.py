"""Weights times factors, made in pieces; and the edits of which passes are made."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.spill import spilling
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.ops.products import constant_elements, sole_consumer
from graphport.passes import substitution
from graphport.passes.substitution import (
    Scaled,
    bypass,
    float_elements,
    graph_of,
    is_real_constant,
    rounded,
    set_constant,
    take_over,
)
from tests.every import every


@pytest.mark.parametrize("is_spilled", [False, True], ids=["in memory", "in a file"])
@pytest.mark.parametrize(
    ("shape", "factor"),
    [
        pytest.param((7, 5, 3), (7, 1, 1), id="along the first axis"),
        pytest.param((7, 5, 3), (1, 5, 1), id="along another axis"),
        pytest.param((7, 5, 3), (1, 1, 1), id="one for all"),
        pytest.param((1, 9, 4), (1, 9, 1), id="behind an axis of one entry"),
        pytest.param((1, 1), (1, 1), id="one number"),
        pytest.param((0, 3), (1, 3), id="no numbers"),
    ],
)
def test_blockwise_product_equals_the_whole_product(shape, factor, is_spilled, monkeypatch):
    monkeypatch.setattr(substitution, "_PIECE", 11)
    monkeypatch.setattr("graphport.core.spill.LEAST", 1 if is_spilled else 1 << 30)
    random = np.random.default_rng(0)
    w, k = random.normal(size=shape).astype(np.float32), random.normal(size=factor)
    with spilling():
        found = Scaled(w, k).rounded(DType.FLOAT32)
    assert found is not None
    np.testing.assert_array_equal(found.numpy(), (w.astype(np.float64) * k).astype(np.float32))


@every(
    "shape, sizes",
    [
        ((1,), [1]),
        ((14,), [6, 6, 2]),
        ((2, 2), [4]),
        ((7, 2), [6, 6, 2]),
        ((4, 3), [6, 6]),
        ((3, 4), [4, 4, 4]),
        ((2, 13), [13, 13]),
        ((1, 14), [6, 6, 2]),
        ((1, 1, 1, 9), [6, 3]),
        ((1, 2, 13), [13, 13]),
        ((2, 1, 13), [13, 13]),
        ((2, 0), [0]),
        ((0, 2), []),
    ],
)
def test_block_holds_at_least_one_row_up_to_its_limit(shape, sizes, monkeypatch):
    """Rows of the first axis that has several: axes of one entry before it are no reason to take all at once."""
    monkeypatch.setattr(substitution, "_PIECE", 6)
    w = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for extents in (shape, (1,) * len(shape)):
        factor = np.arange(1.0, np.prod(extents) + 1).reshape(extents)
        pieces = list(Scaled(w, factor)._blocks(DType.FLOAT32))
        assert [each.size for each in pieces] == sizes
        np.testing.assert_array_equal(np.concatenate([*pieces, []]), (w * factor).ravel())


def test_non_finite_product_is_none():
    w = np.array([[1.0, 3e38], [1.0, 1.0]], np.float32)
    assert Scaled(w, np.full((2, 1), 10.0)).rounded(DType.FLOAT32) is None


def test_scaling_a_large_weight_limits_peak_memory():
    w = np.ones((1024, 8192), np.float32)
    tracemalloc.start()
    with spilling():
        found = Scaled(w, np.full((1024, 1), 2.0)).rounded(DType.FLOAT32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert peak < w.nbytes


@pytest.mark.parametrize("most", [3, 4, 1 << 20])
def test_every_piece_is_looked_at_for_numbers_that_are_too_large(most, monkeypatch):
    monkeypatch.setattr(substitution, "_PIECE", most)
    for place in range(8):
        array = np.ones(8)
        found = rounded(array, DType.FLOAT16)
        assert found is not None
        np.testing.assert_array_equal(found.numpy(), array.astype(np.float16))
        array[place] = 1e6
        assert rounded(array, DType.FLOAT16) is None
        assert Scaled(array.reshape(8, 1), np.ones((1, 1))).rounded(DType.FLOAT16) is None


def graph_with(*names) -> tuple[Any, list[Any]]:
    """A graph of constants of one number each, all of which a Sum reads."""
    graph = Graph()
    storages = [storage_of([float(n)], DType.FLOAT32) for n in range(len(names))]
    values = [graph.add_constant(name, TensorFact.of(each), each) for name, each in zip(names, storages, strict=True)]
    graph.append(Node("Sum", values, [Value("y", TensorFact(DType.FLOAT32, (1,)))]))
    graph.set_outputs([graph.first_node.output])
    return graph, values


def test_elements_are_read_from_constants_only():
    graph, (real, whole, unknown) = graph_with("a", "b", "c")
    whole.storage = storage_of([3], DType.INT32)
    unknown.storage = None
    given = graph.add_input("x", real.fact)
    given.storage = real.storage  # what an input is unless it is given
    assert (constant_elements(real), constant_elements(whole), float_elements(real)) == ([0.0], [3], [0.0])
    assert [is_real_constant(each) for each in (real, whole, unknown, given, None)] == [True, *[False] * 4]
    assert all(each is None for each in map(float_elements, (whole, unknown, given, None)))
    assert all(each is None for each in map(constant_elements, (unknown, given, None)))
    assert float_elements(real).dtype == np.float64


def test_node_without_graph_raises_valueerror():
    with pytest.raises(ValueError, match="is in no graph"):
        graph_of(Node("Relu", [], [Value("y")]))


def test_set_constant_reuses_the_name_of_an_unused_constant():
    two = storage_of([2.0], DType.FLOAT32)
    graph, (a, b) = graph_with("a", "b")
    total = graph.first
    set_constant(total, 1, two, "other")
    assert [value.name for value in total.operands] == ["a", "b"]
    assert (b.graph, total.operands[1].storage.numpy()) == (None, [2.0])
    graph.add_output(a)
    set_constant(total, 0, two, "other")
    assert total.operands[0].name not in ("a", "b")
    assert a.graph is graph
    set_constant(total, 2, two, "other")
    assert [value.name for value in total.operands][2:] == ["other"]
    given = graph.add_input("x", a.fact)
    total.set_input(2, given)
    set_constant(total, 2, two, "other")
    assert (total.operands[2].is_constant, given.is_input) == (True, True)
    verify(graph)


def test_sole_consumer_needs_exactly_one_use():
    graph, (a, _) = graph_with("a", "b")
    total = graph.first
    assert sole_consumer(a) is total
    assert sole_consumer(total.output) is None  # it is a graph output
    total.set_input(1, a)
    assert sole_consumer(a) is None  # twice
    total.set_input(1, None)
    other = graph.append(Node("Relu", [a], [Value("z")]))
    assert sole_consumer(a) is None
    graph.remove(other)
    assert sole_consumer(a) is total
    graph.add_output(a)
    assert sole_consumer(a) is None


def test_take_over_transfers_name_consumers_and_notes():
    graph, (a, _) = graph_with("a", "b")
    old = graph.first.output
    old.notes["kept"] = "old"
    for fact in (TensorFact(None, (1,)), TensorFact(DType.FLOAT32, None), TensorFact(DType.FLOAT64, (1,))):
        made = graph.append(Node("Relu", [a], [Value("made", fact)])).output
        made.notes["gone"] = "new"
        take_over(old, made)
        assert (made.name, graph.outputs, dict(made.notes)) == ("y", [made], {"kept": "old"})
        assert made.fact == (fact if fact.dtype is DType.FLOAT64 else old.fact)
        old = made


def test_bypass_removes_a_node_unless_an_io_name_is_lost():
    graph, (a, _) = graph_with("a", "b")
    total = graph.first
    given = graph.add_input("x", a.fact)
    for source, is_worth_it in ((total.output, True), (given, False), (a, True)):
        between = graph.append(Node("Identity", [source], [Value(graph.fresh("z"), a.fact)]))
        graph.set_outputs([between.output])
        assert bypass(between, source) is is_worth_it
        verify(graph)
        assert (between.graph is None) is is_worth_it
    both = graph.append(Node("Identity", [total.output], [Value(graph.fresh("z"), a.fact)]))
    graph.set_outputs([total.output, both.output])
    assert not bypass(both, total.output)
    other = graph.append(Node("Dropout", [given], [Value(graph.fresh("z"), a.fact)]))
    graph.set_outputs([other.output])
    assert bypass(other, given)
    assert [each.op for each in graph][-1] == "Identity"  # which then carries the name
