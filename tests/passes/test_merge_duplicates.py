"""Duplicate computations are merged; similar but different ones are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage, storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.passes import merge_duplicates as module
from graphport.passes.journal import Journal
from graphport.passes.merge_duplicates import merge_duplicates
from tests.passes.alone import applied
from tests.passes.cases import I64, F, info, model, node, some

X = [info("x", [2, 3])]


def merged(nodes, *, outputs=("y",), inputs=X, opset: Any = 18, **constants):
    results = [info(name, None, I64 if name == "n" else F) for name in outputs]
    feeds = {each.name: some(*[dim.dim_value for dim in each.type.tensor_type.shape.dim]) for each in inputs}
    proto = model(nodes, inputs, results, constants, opset=opset)
    return applied(proto, merge_duplicates, feeds)


def told(journal):
    return [str(note) for note in journal.done]


def twice(op, operands="x", second="x", one=None, two=None):
    """A node and another one, and the sum of both."""
    return [
        node(op, operands, "a", **(one or {})),
        node(op, second, "b", **(one if two is None else two) or {}),
        node("Add", "a b", "y"),
    ]


def test_duplicate_node_is_replaced_by_the_first():
    ops, journal = merged(twice("Relu"))
    assert ops == ["Relu", "Add"]
    assert told(journal) == ["Relu b: Relu a computes an equal result"]


def test_consumers_of_merged_nodes_are_merged():
    nodes = [node("Relu", "x", "a"), node("Relu", "x", "b"), node("Neg", "a", "c"), node("Neg", "b", "d")]
    ops, journal = merged([*nodes, node("Mul", "c d", "y")])
    assert (ops, len(journal.done)) == (["Relu", "Neg", "Mul"], 2)


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(twice("Elu", one={"alpha": 0.5}, two={"alpha": 0.25}), id="another attribute"),
        pytest.param(twice("Elu", one={"alpha": 0.5}, two={}), id="no attribute"),
        pytest.param(twice("Sub", "x c", "c x"), id="another order"),
        pytest.param(twice("Sub", "x c", "x d"), id="another operand"),
        pytest.param(
            [node("Relu", "x", "a"), node("Neg", "x", "b"), node("Add", "a b", "y")],
            id="another operator",
        ),
    ],
)
def test_different_nodes_are_not_merged(nodes):
    ops, journal = merged(nodes, c=some(3), d=some(3) + 1)
    assert len(ops) == 3
    assert not journal.done


def test_two_names_that_the_graph_returns_stay_both():
    nodes = [node("Relu", "x", "y"), node("Relu", "x", "z")]
    ops, journal = merged(nodes, outputs=("y", "z"))
    assert (ops, journal.done) == (["Relu", "Relu"], [])


@pytest.mark.parametrize("returned", ["a", "b"])
def test_merged_node_keeps_a_graph_output_name(returned):
    ops, _ = merged([*twice("Relu")], outputs=(returned, "y"))
    assert ops == ["Relu", "Add"]


def test_node_with_an_omitted_result_does_not_replace_a_complete_node():
    long, short = node("TopK", "x k", "v i"), node("TopK", "x k", "_ j")
    for nodes, count in (([short, long], 2), ([long, short], 1)):
        ops, _ = merged([*nodes, node("Add", "i j", "n"), node("Relu", "v", "y")], outputs=("y", "n"), k=np.array([2]))
        assert ops.count("TopK") == count


def test_nodes_with_several_results_are_merged():
    nodes = [
        node("Split", "x", "a b", axis=1, num_outputs=2),
        node("Split", "x", "c d", axis=1, num_outputs=2),
        node("Sub", "a c", "e"),
        node("Sub", "d b", "f"),
        node("Concat", "e f", "y", axis=1),
    ]
    ops, _ = merged(nodes, inputs=[info("x", [2, 4])])
    assert ops == ["Split", "Sub", "Sub", "Concat"]


def test_training_dropout_is_not_merged():
    mode = {"r": np.float32(0.5), "t": np.array(False)}
    assert merged(twice("Dropout", "x", "x"))[0].count("Dropout") == 1
    assert merged(twice("Dropout", "x r t", "x r t"), **mode)[0].count("Dropout") == 2
    clip = {"l": np.float32(0), "h": np.float32(1)}
    assert merged(twice("Clip", "x l h", "x l h"), **clip)[0].count("Clip") == 1


def test_random_numbers_are_drawn_twice():
    proto = model(twice("RandomNormalLike"), X, [info("y", None)])
    graph = gp.from_onnx(proto).graph
    merge_duplicates(graph, Journal())
    assert [each.op for each in graph] == ["RandomNormalLike", "RandomNormalLike", "Add"]


def test_duplicates_inside_bodies_are_merged():
    def branch(name):
        inner = [node("Relu", "x", f"{name}1"), node("Relu", "x", f"{name}2"), node("Add", f"{name}1 {name}2", name)]
        return helper.make_graph(inner, name, [], [info(name, None)])

    def choice(result):
        bodies: dict[str, Any] = {"then_branch": branch(f"t{result}"), "else_branch": branch(f"e{result}")}
        return helper.make_node("If", ["c"], [result], **bodies)

    proto = model([choice("p"), choice("q"), node("Add", "p q", "y")], [*X, info("c", [], 9)], [info("y", None)])
    ops, journal = applied(proto, merge_duplicates, {"x": some(2, 3), "c": np.array(True)})
    assert ops == ["If", "If", "Add"]
    assert len(journal.done) == 4


def by_hand(*rows, dialect="", inputs=1):
    """Return a graph of nodes (op type, attributes) on `x`, with all results as outputs through Identity."""
    graph = Graph()
    given = [graph.add_input(f"x{n}", TensorFact(DType.FLOAT32, (2,))) for n in range(inputs)]
    for index, (op_type, attributes) in enumerate(rows):
        made = Node(op_type, given, [Value(f"a{index}")], attributes, dialect=dialect)
        graph.append(made)
        graph.append(Node("Identity", made.results, [Value(f"y{index}")]))
    graph.set_outputs([each.output for each in graph if each.op == "Identity"])
    return graph


def left_of(graph):
    merge_duplicates(graph, Journal())
    verify(graph)
    return [each.op for each in graph if each.op != "Identity"]


def test_numbers_that_are_equal_and_of_another_type_are_not_the_same():
    assert len(left_of(by_hand(("Elu", {"alpha": 1}), ("Elu", {"alpha": 1.0})))) == 2
    assert len(left_of(by_hand(("Elu", {"alpha": 1.0}), ("Elu", {"alpha": 1.0})))) == 1


def test_tensors_in_attributes_are_the_same_by_their_numbers_type_and_shape():
    def made(numbers, dtype=DType.FLOAT32):
        return "ConstantOfShape", {"value": storage_of(numbers, dtype)}

    assert len(left_of(by_hand(made([1.0]), made([1.0])))) == 1
    for other in (made([2.0]), made([1.0], DType.FLOAT64), made([[1.0]])):
        assert len(left_of(by_hand(made([1.0]), other))) == 2
    zeros = made([0.0]), made([0], DType.INT32)
    assert len(left_of(by_hand(*zeros))) == 2


def test_operators_that_is_unknown_stay():
    assert left_of(by_hand(("Relu", {}), ("Relu", {}), dialect="custom")) == ["custom.Relu", "custom.Relu"]
    assert left_of(by_hand(("Unheard", {}), ("Unheard", {}))) == ["Unheard", "Unheard"]


# Constants


def constants_of(*storages, literal=(), noted=(), output=None):
    """Return the number of remaining constants of those that a Sum reads."""
    graph = Graph()
    values = [graph.add_constant(f"c{n}", TensorFact.of(each), each) for n, each in enumerate(storages)]
    for index, value in enumerate(values):
        value.is_literal = index in literal
        if index in noted:
            value.notes["kept"] = "as it is"
    graph.append(Node("Sum", values, [Value("y")]))
    graph.set_outputs([graph.first_node.output, *([] if output is None else [values[output]])])
    journal = Journal()
    merge_duplicates(graph, journal)
    verify(graph)
    assert [str(note) for note in journal.done] == [
        f"c{n}: is equal to {value.name}" for n, value in enumerate(graph.first_node.operands) if value.name != f"c{n}"
    ]
    return [value.name for value in graph.first_node.operands]


ONE, SAME, OTHER = (storage_of(numbers, DType.FLOAT32) for numbers in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0]))


def test_equal_constants_are_merged():
    assert constants_of(ONE, SAME, OTHER, SAME) == ["c0", "c0", "c2", "c0"]


def test_constants_that_are_not_quite_the_same_stay():
    integers = storage_of(np.array([1.0, 2.0], np.float32).view(np.int32), DType.INT32)
    column = storage_of([[1.0], [2.0]], DType.FLOAT32)
    for other in (OTHER, integers, column):
        assert constants_of(ONE, other) == ["c0", "c1"]
    zeros = (storage_of([0.0], DType.FLOAT32), storage_of([-0.0], DType.FLOAT32))
    assert constants_of(*zeros) == ["c0", "c1"]
    words = (storage_of(["a"], DType.STRING), storage_of(["a"], DType.STRING))
    assert constants_of(*words) == ["c0", "c1"]


def test_constants_with_literals_notes_or_outputs_are_not_merged():
    assert constants_of(ONE, SAME, literal=[1]) == ["c0", "c1"]
    assert constants_of(ONE, SAME, literal=[0, 1]) == ["c0", "c0"]
    assert constants_of(ONE, SAME, noted=[0]) == constants_of(ONE, SAME, noted=[1]) == ["c0", "c1"]
    assert constants_of(ONE, SAME, SAME, output=1) == ["c0", "c1", "c0"]
    assert constants_of(ONE, SAME, output=0) == ["c0", "c0"]


def test_large_constants_are_compared_beyond_their_key():
    large = np.arange(module.MAX_KEY_BYTES, dtype=np.float32)
    other = large.copy()
    other[-1] += 1
    storages = (ArrayStorage(each) for each in (large, large.copy(), other, other.copy()))
    assert constants_of(*storages) == ["c0", "c0", "c2", "c2"]


def test_numbers_that_are_not_at_hand_are_not_compared():
    graph = Graph()
    values = [graph.add_constant(f"c{n}", TensorFact(DType.FLOAT32, (2,)), None) for n in range(2)]
    graph.append(Node("Sum", values, [Value("y")]))
    graph.set_outputs([graph.first_node.output])
    merge_duplicates(graph, Journal())
    assert graph.first_node.operands == values
