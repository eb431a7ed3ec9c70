"""Parts of graphs: what is in them, and that they compute what the whole does there."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.ir import states, subgraph
from graphport.ir.graph import walk
from graphport.ir.lookup import Names
from graphport.ir.text import from_text
from graphport.ir.verify import verify
from tests.draws import times
from tests.ir.samples import chain, names
from tests.models import model, node, perceptron, typed


def named(graph, *wanted):
    values = {value.name: value for inner in walk(graph) for value in inner.values()}
    return [values[name] for name in wanted]


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def looped() -> onnx.ModelProto:
    """y = twice the sum of x, x + 1, …, read by a loop from around it; then its square."""
    body = helper.make_graph(
        [
            node("Add", ["s", "outer"], ["added"]),
            node("Mul", ["added", "two"], ["next"]),
            node("Identity", ["go"], ["still"]),
        ],
        "body",
        [typed("i", [], TensorProto.INT64), typed("go", [], TensorProto.BOOL), typed("s", [2])],
        [typed("still", [], TensorProto.BOOL), typed("next", [2])],
    )
    nodes = [
        node("Neg", ["x"], ["outer"]),
        node("Loop", ["count", "", "x"], ["last"], name="loop", body=body),
        node("Mul", ["last", "last"], ["y"]),
    ]
    constants = {"count": np.int64(3), "two": floats(2, 2)}
    return model(nodes, [("x", [2])], [("y", [2])], constants)


def test_a_part_has_the_nodes_between_and_shares_storages():
    whole = gp.from_onnx(perceptron()).graph
    found = subgraph.cut(named(whole, "scores"), named(whole, "hidden"))
    verify(found.graph)
    assert [each.op for each in found.graph] == ["Relu", "MatMul"]
    assert (names(found.graph.inputs), names(found.graph.outputs)) == (["hidden"], ["scores"])
    assert str(found.graph.inputs[0].fact) == "float32[N, 5]"
    (weight,) = found.graph.constants
    assert weight.storage is named(whole, "v")[0].storage
    assert [each.op for each in whole] == ["Gemm", "Relu", "MatMul", "Softmax"]


def test_nodes_keep_their_origins():
    whole = gp.from_onnx(perceptron()).graph
    found = subgraph.cut(named(whole, "scores"), named(whole, "hidden")).graph
    assert [each.origin for each in found] == [each.origin for each in list(whole)[1:3]]


def test_cut_adds_missing_inputs_in_graph_order():
    nodes = [node("Add", ["c", "b"], ["d"]), node("Add", ["d", "a"], ["e"]), node("Neg", ["e"], ["y"])]
    whole = gp.from_onnx(model(nodes, [("a", [1]), ("b", [1]), ("c", [1])], [("y", [1])])).graph
    assert names(subgraph.cut(named(whole, "y")).graph.inputs) == ["a", "b", "c"]
    assert names(subgraph.cut(named(whole, "y"), named(whole, "d")).graph.inputs) == ["d", "a"]


def test_cut_includes_captured_values_of_bodies():
    whole = gp.from_onnx(looped()).graph
    found = subgraph.cut(named(whole, "y"), named(whole, "outer")).graph
    verify(found)
    assert names(found.inputs) == ["outer", "x"]
    x = floats(1, 2)
    whole_y = gp.run(gp.Model(whole), {"x": x})["y"]
    np.testing.assert_array_equal(gp.run(gp.Model(found), {"x": x, "outer": -x})["y"], whole_y)


def test_a_subgraph_of_a_body_receives_the_operands_of_its_node():
    whole = gp.from_onnx(looped()).graph
    found = subgraph.cut(named(whole, "next")).graph
    verify(found)
    assert (names(found.inputs), [each.op for each in found]) == (["x", "s"], ["Neg", "Add", "Mul"])
    y = gp.run(gp.Model(found), {"s": floats(1, 1), "x": floats(3, 4)})["next"]
    np.testing.assert_array_equal(y, floats(-4, -6))


def test_cut_renames_a_body_next_to_its_own_values():
    whole = gp.from_onnx(looped()).graph
    found = subgraph.cut(named(whole, "next", "y")).graph
    verify(found)
    assert names(found.outputs) == ["next", "y"]


def test_cut_accepts_one_of_several_results_as_input():
    split = node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2)
    whole = gp.from_onnx(model([split, node("Add", ["a", "b"], ["y"])], [("x", [4])], [("y", [2])], opset=18)).graph
    found = subgraph.cut(named(whole, "y"), named(whole, "a")).graph
    verify(found)
    x = np.arange(4, dtype=np.float32)
    y = gp.run(gp.Model(found), {"a": floats(10, 10), "x": x})["y"]
    np.testing.assert_array_equal(y, floats(12, 13))


def test_cut_inputs_drop_known_elements():
    nodes = [node("Shape", ["x"], ["s"]), node("Reshape", ["x", "s"], ["y"])]
    whole = gp.from_onnx(model(nodes, [("x", [2, 3])], [("y", [2, 3])])).graph
    cut = gp.cut(gp.Model(whole), ["s", "x"])
    assert str(cut.graph.inputs[0].fact) == "int64[2]"
    assert str(cut.outputs["y"].fact) != "float32[2, 3]"


def test_border_lists_the_nearest_inputs():
    whole = from_text(
        """graph g(%x, %z) {
            constant %w = float32[](2.0)
            %h = Mul(%x, %w)
            %k = Neg(%h)
            %l = Add(%k, %h)
            %m = Mul(%l, %z)
            return %m, %x
        }"""
    )
    x, z, w, h, k, m = named(whole, "x", "z", "w", "h", "k", "m")
    assert subgraph.border([m], set()) == [z, x]
    assert set(subgraph.border([m], {h})) == {z, h}
    assert set(subgraph.border([m], {h, k})) == {z, h, k}
    assert set(subgraph.border([m], {k})) == {z, k, x}
    assert set(subgraph.border([m], {k, w, z})) == {z, k, x, w}
    assert subgraph.border([m], {m}) == []
    assert subgraph.border([h, k], {h}) == [h]


def test_is_input_dependent_excludes_constant_values():
    whole = from_text(
        """graph g(%x) {
            constant %w = float32[](2.0)
            %a = Neg(%w)
            %b = Add(%a, %w)
            %c = Mul(%b, %x)
            %d = If(%b) {then_branch = graph then() { %e = Neg(%x) return %e }}
            return %c, %d
        }"""
    )
    x, w, b, c, d = named(whole, "x", "w", "b", "c", "d")
    assert [subgraph.is_input_dependent(value) for value in (x, w, b, c, d)] == [True, False, False, True, True]


def test_cut_keeps_a_state_only_with_its_output():
    text = "graph g(%s: float32[1], %x: float32[1]) { %h = Add(%s, %x) %y = Neg(%h) return %y, %h }"
    whole = from_text(text)
    s, _ = whole.inputs
    states.mark(s, states.State("h", "variable"))
    h, y = named(whole, "h", "y")
    assert states.state_of(subgraph.cut([y, h]).graph.inputs[0]) == states.State("h", "variable")
    assert states.state_of(subgraph.cut([y]).graph.inputs[0]) is None
    assert states.state_of(s) is not None


@settings(max_examples=times(40), deadline=None)
@given(data=st.data())
def test_cut_of_a_chain_has_the_nodes_between(data):
    graph, _ = chain(6)
    values = [graph.inputs[0], *(each.output for each in graph)]
    first = data.draw(st.integers(0, 5))
    last = data.draw(st.integers(first + 1, 6))
    found = subgraph.cut([values[last]], [values[first]]).graph
    verify(found)
    assert len(found) == last - first


def test_names_that_do_not_exist_are_reported_with_those_that_are_near():
    with pytest.raises(DiagnosticError) as caught:
        gp.cut(gp.from_onnx(perceptron()), ["hiden"], ["scroes"])
    assert [finding.code for finding in caught.value.diagnostics] == ["EDIT0001", "EDIT0001"]
    assert [finding.help for finding in caught.value.diagnostics] == ["did you mean hidden?", "did you mean scores?"]


def test_split_accepts_comma_separated_names():
    lookup = Names(gp.from_onnx(perceptron()).graph)
    assert lookup.split(["hidden, scores", "y"]) == ["hidden", "scores", "y"]
