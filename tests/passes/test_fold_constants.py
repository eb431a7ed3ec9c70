"""Nodes with only constant operands are folded, unless that undoes a compressed storage or exceeds the size limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.passes import fold_constants as module
from graphport.passes.driver import NODE_BYTES
from graphport.passes.fold_constants import fold_constants
from graphport.passes.journal import Journal
from tests.laws import computed
from tests.passes.alone import reasons
from tests.passes.cases import info, model, node, some


def folded(nodes, room: Any = 0, inputs: Any = (), dtype: Any = 1, opset: Any = 18, **constants):
    proto = model(nodes, inputs, [info("y", None, dtype)], constants, opset=opset)
    graph, journal = gp.from_onnx(proto).graph, Journal(room=room)
    fold_constants(graph, journal)
    verify(graph)
    return graph, journal


def ops(graph):
    return [each.op for each in graph]


def test_folded_constants_keep_their_name():
    w = some(3, 4)
    graph, journal = folded([node("Transpose", "w", "v"), node("Neg", "v", "y")], w=w)
    assert ops(graph) == []
    assert graph.outputs[0].name == "y"
    np.testing.assert_array_equal(graph.outputs[0].storage.numpy(), -w.T)
    assert [str(note) for note in journal.done] == [
        "Transpose v: folded to a constant",
        "Neg y: folded to a constant",
    ]


def test_all_results_of_a_node_are_folded():
    nodes = [node("Split", "w", "a b", axis=0, num_outputs=2), node("Sub", "a b", "y")]
    graph, _ = folded(nodes, w=some(4, 3))
    assert ops(graph) == []
    np.testing.assert_array_equal(graph.outputs[0].storage.numpy(), some(4, 3)[:2] - some(4, 3)[2:])


def test_computed_values_are_not_folded():
    graph, journal = folded([node("Add", "x c", "y")], inputs=[info("x", [3])], c=some(3))
    assert (ops(graph), journal.done, journal.left) == (["Add"], [], [])


@pytest.mark.parametrize("op", ["Relu", "Unheard"])
def test_operators_of_others_are_not_folded(op):
    graph = Graph()
    storage = storage_of([-1.0], DType.FLOAT32)
    value = graph.add_constant("c", TensorFact.of(storage), storage)
    graph.append(Node(op, [value], [Value("y")], dialect="" if op == "Unheard" else "custom"))
    graph.set_outputs([graph.first_node.output])
    fold_constants(graph, Journal(room=1 << 20))
    assert len(graph) == 1


def test_constants_without_data_are_not_folded():
    graph = Graph()
    value = graph.add_constant("c", TensorFact(DType.FLOAT32, (2,)), None)
    graph.append(Node("Relu", [value], [Value("y")]))
    graph.set_outputs([graph.first_node.output])
    journal = Journal(room=1 << 20)
    fold_constants(graph, journal)
    assert (ops(graph), journal.left) == (["Relu"], [])


def test_how_weights_are_stored_stays():
    quantized = {"q": np.arange(100, dtype=np.int8), "s": np.float32(0.5)}
    graph, journal = folded([node("DequantizeLinear", "q s", "y")], room=1 << 20, **quantized)
    assert ops(graph) == ["DequantizeLinear"]
    assert reasons(journal) == ["it dequantizes a stored weight"]
    graph, journal = folded([node("QuantizeLinear", "w s", "y")], dtype=2, w=some(100), s=np.float32(0.5))
    assert ops(graph) == ["QuantizeLinear"]


@pytest.mark.parametrize(
    ("count", "dtype", "to", "is_folded"),
    [
        pytest.param(65, np.int8, 1, False, id="8 bits to 32"),
        pytest.param(64, np.int8, 1, True, id="few"),
        pytest.param(65, np.int8, 2, True, id="8 bits to 8"),
        pytest.param(65, np.int16, 1, True, id="16 bits to 32"),
        pytest.param(65, np.int32, 11, True, id="32 bits to 64"),
        pytest.param(65, np.float16, 1, True, id="reals"),
    ],
)
def test_folding_does_not_widen_int8_weights(count, dtype, to, is_folded):
    graph, journal = folded([node("Cast", "q", "y", to=to)], room=1 << 20, dtype=to, q=np.ones(count, dtype))
    assert ops(graph) == ([] if is_folded else ["Cast"])
    assert reasons(journal) == ([] if is_folded else ["q has 8 bits per element, its result has more"])


def test_random_numbers_are_drawn_in_every_run():
    graph, journal = folded([node("RandomNormalLike", "w", "y")], room=1 << 20, w=some(3))
    assert (ops(graph), reasons(journal)) == (["RandomNormalLike"], ["its results may be random"])
    dropping = {"w": some(3), "r": np.float32(0.5), "t": np.array(False)}
    graph, journal = folded([node("Dropout", "w r t", "y")], room=1 << 20, **dropping)
    assert (ops(graph), reasons(journal)) == (["Dropout"], ["its results may be random"])
    for operands, is_folded in (("w", True), ("w r", True), ("w '' t", False)):
        graph, journal = folded([node("Dropout", operands.replace("''", "_"), "y")], room=1 << 20, **dropping)
        assert ops(graph) == ([] if is_folded else ["Dropout"]), operands


def test_constants_inside_bodies_are_folded():
    inner = helper.make_graph([node("Neg", "w", "a")], "then", [], [info("a", None)])
    other = helper.make_graph([node("Abs", "w", "b")], "else", [], [info("b", None)])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)
    graph, journal = folded([choice], room=1 << 20, c=np.array(True), w=some(3))
    assert ops(graph) == ["If"]
    assert [len(body) for body in graph.first_node.bodies()] == [0, 0]
    assert len(journal.done) == 2


def test_nodes_without_operands_are_not_folded():
    graph, _ = folded([node("Constant", "", "y", value_float=1.0)], room=1 << 20)
    assert ops(graph) == ["Constant"]


# Room


def growing(*readers, extent=1000):
    """A row that is made as large as `extent`, with as many readers of the row as there are `readers`."""
    nodes = [node("Expand", "w s", "e"), node("Add", "x e", "a")]
    nodes += [node(op, "x w", f"r{n}") for n, op in enumerate(readers)]
    nodes.append(node("Sum", " ".join(["a", *(f"r{n}" for n in range(len(readers)))]), "y"))
    return nodes, {"w": some(1), "s": np.array([extent])}


def test_folding_that_grows_weights_uses_the_size_limit():
    nodes, constants = growing()
    growth = 4 * 1000 - 4 - 8 - NODE_BYTES  # the result, minus both operands and the node
    for room, is_folded in ((growth, True), (growth - 1, False), (-5, False)):
        graph, journal = folded(nodes, room, inputs=[info("x", [1])], **constants)
        assert ("Expand" in ops(graph)) is not is_folded
        assert journal.room == (0 if is_folded else room)
        assert journal.wanted == ([] if is_folded else [growth])
        if not is_folded:
            assert reasons(journal) == [f"its result of 4000 bytes would enlarge the weights by {growth}"]


def test_folding_that_shrinks_weights_frees_bytes():
    graph, journal = folded(
        [node("ReduceSum", "w", "h", keepdims=0), node("Add", "x h", "y")], 0, inputs=[info("x", [])], w=some(50)
    )
    assert ops(graph) == ["Add"]
    assert journal.room == 4 * 50 + NODE_BYTES - 4


def test_growth_counts_an_operand_with_another_consumer_as_kept():
    nodes, constants = growing("Add")
    growth = 4 * 1000 - 8 - NODE_BYTES
    for room, is_folded in ((growth, True), (growth - 1, False)):
        graph, journal = folded(nodes, room, inputs=[info("x", [1])], **constants)
        assert ("Expand" in ops(graph)) is not is_folded
        assert journal.room == (0 if is_folded else room)


def test_growth_counts_a_returned_operand_as_kept():
    proto = model(
        [node("Neg", "w", "h"), node("Add", "x h", "y")], [info("x", [500])], [info("y", None)], {"w": some(500)}
    )
    for is_returned in (False, True):
        graph, journal = gp.from_onnx(proto).graph, Journal()
        if is_returned:
            graph.add_output(graph.first_node.operands[0])
        fold_constants(graph, journal)
        assert ("Neg" in ops(graph)) is is_returned
        assert journal.wanted == ([2000 - NODE_BYTES] if is_returned else [])


def test_growth_frees_a_shared_operand_after_all_folds():
    nodes = [node("Neg", "w", "a"), node("Abs", "w", "b"), node("Mul", "a b", "c"), node("Add", "x c", "y")]
    growth = 2000 - 1000 - NODE_BYTES  # half of `w` is freed with the first fold, all of it with both
    for room, expected in ((growth, ["Add"]), (growth - 1, ["Neg", "Abs", "Mul", "Add"])):
        graph, _ = folded(nodes, room, inputs=[info("x", [500])], w=some(500))
        assert ops(graph) == expected
    stays = [nodes[0], node("QuantizeLinear", "w s", "q"), node("DequantizeLinear", "q s", "b"), *nodes[2:]]
    for room, expected in ((2000 - NODE_BYTES, 4), (2000 - NODE_BYTES - 1, 5)):
        graph, _ = folded(stays, room, inputs=[info("x", [500])], w=some(500), s=np.float32(1))
        assert len(graph) == expected


def test_results_of_any_size_are_not_computed(monkeypatch):
    nodes, constants = growing()
    for most, is_folded in ((4000, True), (3999, False)):
        monkeypatch.setattr(module, "MAX_RESULT_BYTES", most)
        graph, journal = folded(nodes, 1 << 20, inputs=[info("x", [1])], **constants)
        assert ("Expand" in ops(graph)) is not is_folded
        assert reasons(journal) == ([] if is_folded else ["its result would take 4000 bytes"])


@pytest.mark.parametrize("fact", [UNKNOWN, TensorFact(None, (2,)), TensorFact(DType.INT64, None)], ids=str)
def test_results_of_unknown_size_are_computed_of_little(fact, monkeypatch):
    for most, is_folded in ((24, True), (23, False)):
        monkeypatch.setattr(module, "MAX_OPERAND_BYTES", most)
        graph = Graph()
        storage = storage_of([0.0, 1.0, 0.0, 2.0, 0.0, 3.0], DType.FLOAT32)
        value = graph.add_constant("c", TensorFact.of(storage), storage)
        graph.append(Node("NonZero", [value], [Value("y", fact)]))
        graph.set_outputs([graph.first_node.output])
        journal = Journal(room=1 << 20)
        fold_constants(graph, journal)
        assert len(graph) == (0 if is_folded else 1)
        assert reasons(journal) == ([] if is_folded else ["the size of its result is unknown"])
        if is_folded:
            assert graph.outputs[0].storage.numpy().tolist() == [[1, 3, 5]]


def test_uncomputable_nodes_and_non_tensors_are_unchanged():
    graph = Graph()
    storage = storage_of([[1.0, 2.0, 3.0]], DType.FLOAT32)
    value = graph.add_constant("c", TensorFact.of(storage), storage)
    target = storage_of([2, 2], DType.INT64)
    shape = graph.add_constant("s", TensorFact.of(target), target)
    graph.append(Node("Reshape", [value, shape], [Value("y", TensorFact(DType.FLOAT32, (2, 2)))]))
    graph.append(Node("SequenceConstruct", [value, value], [Value("z")]))
    graph.set_outputs([each.output for each in graph])
    journal = Journal(room=1 << 20)
    fold_constants(graph, journal)
    assert ops(graph) == ["Reshape", "SequenceConstruct"]
    assert reasons(journal)[0].startswith("it cannot be computed: ")
    assert reasons(journal)[1] == "its result is not a tensor"


def test_folded_transpose_is_stored_in_logical_order():
    nodes = [node("Transpose", "w", "v", perm=[2, 0, 1]), node("Add", "x v", "y")]
    graph, _ = folded(nodes, inputs=[info("x", [4, 2, 3])], w=some(2, 3, 4))
    x = some(4, 2, 3)
    np.testing.assert_array_equal(computed(graph, {"x": x})[0], x + some(2, 3, 4).transpose(2, 0, 1))
