"""Data-moving nodes merge if their parameters are constant; not in bodies, with other consumers, or if unknown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from onnx import helper

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ir.verify import verify
from graphport.passes.journal import Journal
from graphport.passes.merge_arithmetic import merge_arithmetic
from graphport.passes.merge_moves import merge_concats, merge_reshapes, merge_slices, merge_transposes
from graphport.passes.push_transposes import push_transposes
from tests.passes.alone import X, done, read
from tests.passes.cases import I64, B, info, model, node, some


def test_reshapes_that_no_constant_can_state_stay_two():
    two = [node("Unsqueeze", "x a", "h"), node("Reshape", "h s", "y")]
    ops, journal = done(merge_reshapes, two, a=[0], s=[6, 4])
    assert ops == ["Reshape"]
    assert [note.text for note in journal.done] == ["reshapes x directly to [6, 4]"]
    for shape, is_one in ((("N", 4), True), (("N", "M"), False)):
        nodes = [node("Unsqueeze", "x a", "h"), node("Squeeze", "h b", "k"), node("Unsqueeze", "k a", "y")]
        graph = read(nodes, (("x", shape),), a=np.array([0]), b=np.array([0]))
        merge_reshapes(graph, Journal())
        assert (graph.last.operands[0].name == "x") is is_one
    empty = read(two, (("x", (0, 3)),), a=np.array([0]), s=np.array([3, 0]))
    merge_reshapes(empty, Journal())
    assert [each.op for each in empty] == ["Unsqueeze", "Reshape"]  # a target of 0 would copy an axis
    unknown = read(two, a=np.array([0]), s=np.array([6, 4]))
    unknown.outputs[0].fact = TensorFact(DType.FLOAT32, None)
    merge_reshapes(unknown, Journal())
    assert unknown.last.operands[0].name == "h"
    for nodes in ([node("Relu", "x", "h"), two[1]], [two[0], node("Relu", "h", "k"), node("Reshape", "k s", "y")]):
        assert len(done(merge_reshapes, nodes, a=[0], s=[6, 4])[0]) == len(nodes)


def test_reshape_with_another_consumer_is_still_merged():
    two = [node("Unsqueeze", "x a", "h"), node("Reshape", "h s", "y"), node("Relu", "h", "z")]
    ops, _ = done(merge_reshapes, two, outputs=("y", "z"), a=[0], s=[6, 4])
    assert ops == ["Unsqueeze", "Reshape", "Relu"]
    graph = read(two, outputs=("y", "z"), a=np.array([0]), s=np.array([6, 4]))
    merge_reshapes(graph, Journal())
    assert graph.outputs[0].producer.operands[0].name == "x"


def in_a_body(first, inner, name="a"):
    """Return a node and an If, in a branch of which `inner` reads the node's result."""
    body = helper.make_graph([inner], "then", [], [info(name, None)])
    other = helper.make_graph([node("Neg", "h", "b")], "else", [], [info("b", None)])
    return [first, helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)]


@pytest.mark.parametrize(
    ("work", "first", "inner", "constants"),
    [
        (merge_reshapes, node("Unsqueeze", "x k", "h"), node("Reshape", "h s", "a"), {"k": [0], "s": [1, 2, 3, 4]}),
        (
            merge_transposes,
            node("Transpose", "x", "h", perm=[1, 0, 2]),
            node("Transpose", "h", "a", perm=[1, 0, 2]),
            {},
        ),
        (merge_slices, node("Slice", "x k s", "h"), node("Slice", "h k s t", "a"), {"k": [0], "s": [1], "t": [1]}),
        (merge_concats, node("Concat", "x x", "h", axis=0), node("Concat", "h h", "a", axis=0), {}),
        (push_transposes, node("Transpose", "x", "h", perm=[1, 0, 2]), node("Transpose", "h", "a", perm=[1, 0, 2]), {}),
        (merge_arithmetic, node("Mul", "x k", "h"), node("Mul", "h s", "a"), {"k": np.float32(2), "s": np.float32(3)}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_nodes_outside_a_body_are_not_merged_with_nodes_inside(work, first, inner, constants):
    nodes = in_a_body(first, inner)
    given = {name: np.asarray(each) for name, each in constants.items()}
    inputs = [info("x", X), info("c", [], B)]
    graph, journal = gp.from_onnx(model(nodes, inputs, [info("y", None)], given, opset=18)).graph, Journal()
    before = str(graph)
    work(graph, journal)
    assert (str(graph), journal.done) == (before, [])


def test_orders_that_are_not_written_stay_two():
    for one, two in (({}, {"perm": [1, 0, 2]}), ({"perm": [1, 0, 2]}, {})):
        ops, _ = done(merge_transposes, [node("Transpose", "x", "h", **one), node("Transpose", "h", "y", **two)])
        assert ops == ["Transpose", "Transpose"]
    ops, journal = done(
        merge_transposes,
        [node("Transpose", "x", "h", perm=[1, 2, 0]), node("Transpose", "h", "y", perm=[1, 2, 0])],
    )
    assert ops == ["Transpose"]
    assert [note.text for note in journal.done] == ["permutes h directly by [2, 0, 1]"]


def test_cuts_that_are_not_written_stay_two():
    def cut(value, result, prefix, form="abst"):
        return node("Slice", f"{value} {' '.join(prefix + letter for letter in form)}", result)

    def numbers(prefix, axis, form="abst"):
        rows = {"a": [1], "b": [3], "s": [axis], "t": [1]}
        return {prefix + letter: rows[letter] for letter in form}

    two = [cut("x", "h", "p"), cut("h", "y", "q")]
    assert done(merge_slices, two, **numbers("p", 1), **numbers("q", 2))[0] == ["Slice"]
    assert done(merge_slices, two, outputs=("y", "h"), **numbers("p", 1), **numbers("q", 2))[0] == ["Slice"] * 2
    assert done(merge_slices, two, **numbers("p", 2), **numbers("q", -1))[0] == ["Slice"] * 2
    short = [cut("x", "h", "p", "ab"), cut("h", "y", "q")]
    assert done(merge_slices, short, **numbers("p", 0, "ab"), **numbers("q", 1))[0] == ["Slice"]
    assert done(merge_slices, short, **numbers("p", 0, "ab"), **numbers("q", 0))[0] == ["Slice"] * 2
    for computed in ("pa", "pb", "ps", "pt", "qa", "qb", "qs", "qt"):
        constants = numbers("p", 1) | numbers("q", 2)
        inputs = [info("x", X), info(computed, [1], I64)]
        given = {name: np.array(each) for name, each in constants.items() if name != computed}
        graph = gp.from_onnx(model(two, inputs, [info("y", None)], given, opset=18)).graph
        merge_slices(graph, Journal())
        assert graph.last_node.operands[0].name == "h"
    graph = read(two, **{name: np.array(each) for name, each in (numbers("p", 1) | numbers("q", 2)).items()})
    graph.inputs[0].fact = UNKNOWN
    merge_slices(graph, Journal())
    assert graph.last.operands[0].name == "h"


def test_concats_along_one_axis_are_merged():
    inner = node("Concat", "x x", "h", axis=1)
    for axis, is_one in ((1, True), (-2, True), (0, False), (2, False)):
        for operands in ("h z", "z h"):
            shape = (2, 6, 4)
            ops, journal = done(
                merge_concats, [inner, node("Concat", operands, "y", axis=axis)], (("x", X), ("z", shape))
            )
            assert ops == (["Concat"] if is_one else ["Concat", "Concat"])
            assert [note.text for note in journal.done] == (
                ["concatenates the operands of 1 preceding nodes"] if is_one else []
            )
    outer = node("Concat", "h h", "y", axis=1)
    assert done(merge_concats, [inner, outer])[0] == ["Concat", "Concat"]
    assert done(merge_concats, [inner, node("Concat", "h z", "y", axis=1)], (("x", X), ("z", X)), outputs=("y", "h"))[
        0
    ] == ["Concat", "Concat"]
    graph = read([inner, node("Concat", "h x", "y", axis=1)])
    for value in graph.values():
        value.fact = UNKNOWN
    merge_concats(graph, Journal())
    assert [len(each.operands) for each in graph][-1] == 3  # an equal index selects the same axis


def test_concat_without_concat_operand_is_kept():
    assert done(merge_concats, [node("Relu", "x", "h"), node("Concat", "h x", "y", axis=1)])[0] == ["Relu", "Concat"]


TURNED = node("Transpose", "x", "h", perm=[2, 0, 1])
BACK = node("Transpose", "k", "y", perm=[1, 2, 0])


@pytest.mark.parametrize(
    ("between", "constants", "moves"),
    [
        (node("Relu", "h", "k"), {}, True),
        (node("Mul", "h a", "k"), {"a": some(3)}, True),
        (node("Sub", "a h", "k"), {"a": some(2, 1)}, True),
        (node("Add", "h a", "k"), {"a": np.float32(2)}, True),
        (node("Add", "h a", "k"), {"a": some(4, 2, 3)}, True),
        (node("PRelu", "h a", "k"), {"a": some(3)}, True),
        (node("Add", "h a", "k"), {"a": some(1, 4, 2, 3)}, False),
        (node("Add", "h a", "k"), {"a": some(5, 1, 1, 1)}, False),
        (node("Softmax", "h", "k", axis=0), {}, False),
        (node("CumSum", "h a", "k"), {"a": np.array(1)}, False),
        (node("Clip", "h a b", "k"), {"a": np.float32(0), "b": np.float32(1)}, False),
        (node("Clip", "h _ b", "k"), {"b": np.float32(1)}, False),
        (node("Add", "h h", "k"), {}, False),
        (node("ReduceSum", "h a", "k"), {"a": np.array([1])}, False),
    ],
    ids=lambda each: each.op_type if hasattr(each, "op_type") else "",
)
def test_transpose_moves_past_elementwise_operators(between, constants, moves):
    nodes = (
        [TURNED, between, BACK]
        if between.op_type != "Add" or len(constants.get("a", np.zeros(1)).shape) < 4
        else [TURNED, between, node("Relu", "k", "y")]
    )
    ops, journal = done(push_transposes, nodes, **constants)
    assert ops == ([between.op_type, "Transpose"] if moves else [each.op_type for each in nodes])
    assert [note.text for note in journal.done] == (["cancels with the Transpose before 1 operators"] if moves else [])


def test_transpose_moves_past_at_most_16_operators():
    for count in (1, 16, 17):
        names = ["h", *[f"k{n}" for n in range(count - 1)], "k"]
        middle = [node("Neg", a, b) for a, b in pairwise(names)]
        ops, _ = done(push_transposes, [TURNED, *middle, BACK])
        assert ops.count("Transpose") == (1 if count <= 16 else 2)


def test_transpose_does_not_move_past_unsupported_consumers():
    relu, none = node("Relu", "h", "k"), []
    for outputs in (("y", "h"), ("y", "k")):
        assert done(push_transposes, [TURNED, relu, BACK], outputs=outputs)[1].done == none
    other = [TURNED, relu, node("Neg", "k", "z"), BACK]
    assert done(push_transposes, other, outputs=("y", "z"))[1].done == none
    for one, two in (({}, {"perm": [1, 2, 0]}), ({"perm": [1, 2, 0]}, {})):
        nodes = [node("Transpose", "x", "h", **one), relu, node("Transpose", "k", "y", **two)]
        assert done(push_transposes, nodes)[1].done == none
    assert done(push_transposes, [relu, BACK], (("h", X),))[1].done == none
    graph = read([TURNED, relu, BACK])
    graph.first.output.fact = UNKNOWN
    push_transposes(graph, Journal())
    assert graph.last.attributes["perm"] == (1, 2, 0)


def test_moved_operator_gets_a_new_name_and_shape():
    graph = read([TURNED, node("Mul", "h a", "k"), BACK], a=some(3))
    push_transposes(graph, Journal())
    verify(graph)
    product = graph.last.operands[0].producer
    assert (product.op, product.output.fact.shape) == ("Mul", X)
    assert product.output.name != "k"
    assert product.operands[1].fact.shape == (1, 3, 1)


def test_empty_operands_are_not_concatenated():
    def joined(axis, *operands):
        nodes = [
            node("Slice", "x none none first", "a"),
            node("Slice", "x none none second", "b"),
            node("Concat", " ".join(operands), "y", axis=axis),
        ]
        constants = {"none": np.array([0]), "first": np.array([0]), "second": np.array([1])}
        return done(merge_concats, nodes, **constants)[0]

    assert joined(0, "x", "a", "x") == ["Concat"]
    assert joined(1, "x", "b") == ["Concat"]
    assert joined(-2, "b", "x", "b") == ["Concat"]
    # An operand that is empty along another axis still counts, and one of several empty operands must stay.
    assert joined(1, "a", "a") == ["Slice", "Concat"]
    assert joined(0, "a", "a") == ["Slice", "Concat"]
