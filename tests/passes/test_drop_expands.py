"""What broadcasts reads what was made larger for it as it was, where its own result is as large without that."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

import graphport as gp
from graphport.core.facts import TensorFact
from graphport.passes.drop_expands import drop_expands
from graphport.passes.journal import Journal
from tests.passes.alone import applied
from tests.passes.cases import I64, info, model, node, some

SHAPES = {
    "x": [2, 3, 4],
    "one": [1],
    "row": [4],
    "column": [3, 1],
    "scalar": [],
    "plane": [4, 5],
    "thin": [4, 1],
    "low": [3],
}


def dropped(nodes, *, sizes=None, exact=True, opset=18):
    names = {name for each in nodes for name in each.input} & SHAPES.keys()
    constants = {name: np.array(size, np.int64) for name, size in (sizes or {}).items()}
    inputs = [info(name, SHAPES[name]) for name in sorted(names)]
    proto = model(nodes, inputs, [info("y", None)], constants, opset=opset)
    feeds = {name: some(*SHAPES[name]) for name in names}
    return applied(proto, drop_expands, feeds, exact=exact)


@pytest.mark.parametrize(
    ("source", "size", "is_dropped"),
    [
        pytest.param("row", [2, 3, 4], True, id="a row"),
        pytest.param("row", [3, 4], True, id="a row for a plane"),
        pytest.param("column", [3, 4], True, id="a column"),
        pytest.param("one", [2, 3, 4], True, id="one number"),
        pytest.param("scalar", [2, 3, 4], True, id="a number without axes"),
        pytest.param("row", [5, 1, 1, 4], False, id="a larger result"),
        pytest.param("row", [1, 1, 1, 4], False, id="a result of more axes"),
    ],
)
def test_expand_before_sub_is_dropped_if_sub_broadcasts(source, size, is_dropped):
    for operands in ("x e", "e x"):
        nodes = [node("Expand", f"{source} s", "e"), node("Sub", operands, "y")]
        ops, journal = dropped(nodes, sizes={"s": size})
        assert ops == (["Sub"] if is_dropped else ["Expand", "Sub"])
        assert [note.text for note in journal.done] == (["reads e without the Expand before it"] if is_dropped else [])


def test_one_of_two_expands_is_kept_for_the_result_shape():
    nodes = [node("Expand", "row s", "e"), node("Expand", "one s", "f"), node("Add", "e f", "y")]
    ops, _ = dropped(nodes, sizes={"s": [2, 3, 4]})
    assert ops == ["Expand", "Add"]


def test_dropped_expands_of_one_node_share_one_note():
    nodes = [node("Expand", "row s", "e"), node("Expand", "one s", "f"), node("Sum", "e x f", "y")]
    ops, journal = dropped(nodes, sizes={"s": [2, 3, 4]})
    assert ops == ["Sum"]
    assert [note.text for note in journal.done] == ["reads e and f without the Expand before it"]


@pytest.mark.parametrize("op", ["Relu", "Softmax", "Transpose"])
def test_operands_that_do_not_broadcast_are_unchanged(op):
    nodes = [node("Expand", "row s", "e"), node(op, "e", "y")]
    assert dropped(nodes, sizes={"s": [3, 4]})[0] == ["Expand", op]


@pytest.mark.parametrize(
    ("source", "size", "is_dropped"),
    [
        pytest.param("plane", [2, 4, 5], True, id="its batch"),
        pytest.param("plane", [1, 4, 5], True, id="a batch of one"),
        pytest.param("plane", [7, 1, 4, 5], False, id="a larger batch"),
        pytest.param("thin", [4, 5], False, id="the axis that it keeps"),
        pytest.param("thin", [2, 4, 5], False, id="both"),
        pytest.param("row", [4, 4], False, id="a vector"),
    ],
)
def test_expand_before_matmul_is_dropped_if_matmul_broadcasts(source, size, is_dropped):
    nodes = [node("Expand", f"{source} s", "e"), node("MatMul", "x e", "y")]
    ops, _ = dropped(nodes, sizes={"s": size}, exact=False)
    assert ops == (["MatMul"] if is_dropped else ["Expand", "MatMul"])


def test_expand_is_kept_before_matmul_with_a_vector():
    nodes = [node("Expand", "plane s", "e"), node("MatMul", "low e", "y")]
    SHAPES["low"] = [4]
    assert dropped(nodes, sizes={"s": [2, 4, 5]}, exact=False)[0] == ["Expand", "MatMul"]


@pytest.mark.parametrize(("size", "is_dropped"), [([3, 4], True), ([], True), ([1], True), ([5, 1, 1, 4], False)])
def test_constantofshape_becomes_a_scalar_operand(size, is_dropped):
    for number in (None, 2.5):
        value = {} if number is None else {"value": numpy_helper.from_array(np.array([number], np.float32))}
        nodes = [node("ConstantOfShape", "s", "e", **value), node("Add", "x e", "y")]
        ops, _ = dropped(nodes, sizes={"s": size})
        assert ops == (["Add"] if is_dropped else ["ConstantOfShape", "Add"])


def graph_of(nodes, inputs, constants=None):
    return gp.from_onnx(model(nodes, inputs, [info("y", None)], constants or {}, opset=18)).graph


def test_scalar_from_constantofshape_keeps_the_rank():
    for size, rank in (([3, 4], 1), ([], 0)):
        nodes = [node("ConstantOfShape", "s", "e"), node("Add", "x e", "y")]
        graph = graph_of(nodes, [info("x", [2, 3, 4])], {"s": np.array(size, np.int64)})
        drop_expands(graph, Journal())
        assert graph.last_node.operands[1].storage.shape == (1,) * rank
    graph = graph_of(nodes, [info("x", [2, 1, 4]), info("s", [2], I64)])
    drop_expands(graph, Journal())
    assert graph.last_node.operands[1].producer.op == "ConstantOfShape"  # it may be larger than x


@pytest.mark.parametrize("which", ["x", "e", "y", "row"])
def test_expand_is_kept_if_a_shape_is_unknown(which):
    nodes = [node("Expand", "row s", "e"), node("Add", "x e", "y")]
    graph = graph_of(nodes, [info("x", [2, 3, 4]), info("row", [4])], {"s": np.array([3, 4])})
    (value,) = [each for each in graph.values() if each.name == which]
    value.fact = TensorFact(value.fact.dtype, None)
    drop_expands(graph, Journal())
    assert graph.last_node.operands[1].producer is graph.first_node


def test_expand_along_equal_symbolic_dims_is_dropped():
    nodes = [node("Shape", "z", "s"), node("Expand", "row s", "e"), node("Add", "x e", "y")]
    for length, is_dropped in (("N", True), ("M", False)):
        graph = graph_of(nodes, [info("x", ["N", 4]), info("z", [length, 4]), info("row", [4])])
        drop_expands(graph, Journal())
        assert (graph.last_node.operands[1].name == "row") is is_dropped


def test_expand_is_kept_before_operators_of_other_dialects():
    nodes = [node("Expand", "row s", "e"), node("Add", "x e", "y")]
    graph = graph_of(nodes, [info("x", [2, 3, 4]), info("row", [4])], {"s": np.array([3, 4])})
    graph.last_node.restate("Add", "custom", {})
    drop_expands(graph, Journal())
    assert graph.last_node.operands[1].name == "e"
