"""Operators without an NNEF equivalent, as fragments without body."""

from __future__ import annotations

from pathlib import Path

import nnef
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError


def model(nodes, inputs, outputs, constants=None) -> onnx.ModelProto:
    given, returned = (
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in each] for each in (inputs, outputs)
    )
    stored = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "main", given, returned, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture
def source(tmp_path) -> Path:
    """A long recurrent layer that is not unrolled, one unused result, and a maximum of many operands."""
    random = np.random.default_rng(0)
    constants = {
        "w": 0.25 * random.normal(size=(1, 12, 2)).astype(np.float32),
        "r": 0.25 * random.normal(size=(1, 12, 3)).astype(np.float32),
        "s": np.ones((1, 2, 3), np.float32),
        "k": np.array([2], np.int64),
    }
    activations = ["Relu", "Tanh", "Tanh"]
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "", "", "s"], ["", "h"], hidden_size=3, activations=activations),
        helper.make_node("Add", ["h", "s"], ["sum"]),
        helper.make_node("TopK", ["x", "k"], ["values", "indices"], axis=0),
    ]
    sides = (
        [("x", TensorProto.FLOAT, [513, 2, 2])],
        [("sum", TensorProto.FLOAT, None), ("values", TensorProto.FLOAT, None), ("indices", TensorProto.INT64, None)],
    )
    onnx.save(model(nodes, *sides, constants), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_without_leave_nothing_is_written_and_all_is_reported(tmp_path, source):
    report = gp.convert(source, tmp_path / "out", flavour="khronos")
    assert report.unsupported == {"LSTM": 1, "TopK": 1}
    assert not (tmp_path / "out").exists()


def test_with_leave_operators_are_declared_and_come_back(tmp_path, source):
    report = gp.convert(source, tmp_path / "out", allow_fragments=True)
    assert report.unsupported == {}
    assert report.verification is not None
    assert report.verification.passed
    text = (tmp_path / "out" / "graph.nnef").read_text()
    assert "extension KHR_enable_fragment_definitions;" in text
    assert "fragment onnx_TopK( x: tensor<scalar>, k: tensor<integer>, axis: integer )" in text
    again = gp.load(tmp_path / "out")
    assert [node.op for node in again.graph] == ["LSTM", "Add", "TopK"]
    assert {str(fact) for fact in again.shapes().values()} >= {"float32[1, 2, 3]", "int64[2, 2, 2]"}


def test_other_readers_accept_the_declarations(tmp_path, source):
    gp.convert(source, tmp_path / "out", allow_fragments=True, verify=False)
    names = [operation.name for operation in nnef.load_graph(str(tmp_path / "out")).operations]
    assert [name for name in names if name.startswith("onnx_")] == ["onnx_LSTM", "onnx_TopK"]


def test_nodes_that_are_given_other_operands_have_a_fragment_of_their_own(tmp_path):
    nodes = [
        helper.make_node("CumSum", ["x", "k"], ["a"]),
        helper.make_node("CumSum", ["a", "k"], ["b"], reverse=1),
        helper.make_node("CumSum", ["b", "k"], ["c"]),
        helper.make_node("Einsum", ["c", "x"], ["y"], equation="ij,ij->j"),
    ]
    sides = [("x", TensorProto.INT64, [2, 3])], [("y", TensorProto.INT64, [3])]
    onnx.save(model(nodes, *sides, {"k": np.array(1, np.int64)}), tmp_path / "net.onnx")
    report = gp.convert(tmp_path / "net.onnx", tmp_path / "out", allow_fragments=True)
    assert report.passed
    text = (tmp_path / "out" / "graph.nnef").read_text()
    assert [line.split("(")[0] for line in text.splitlines() if line.startswith("fragment")] == [
        "fragment onnx_CumSum",
        "fragment onnx_CumSum_v2",
        "fragment onnx_Einsum",
    ]
    assert [node.op for node in gp.load(tmp_path / "out").graph] == ["CumSum", "CumSum", "CumSum", "Einsum"]


def test_what_no_fragment_can_be_given_is_reported(tmp_path):
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["z"])], "b", [], [helper.make_tensor_value_info("z", 1, [2])]
    )
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    sides = [("c", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])]
    onnx.save(model(nodes, *sides), tmp_path / "net.onnx")
    with pytest.raises(DiagnosticError) as caught:
        gp.convert(tmp_path / "net.onnx", tmp_path / "out", allow_fragments=True)
    assert [finding.code for finding in caught.value.diagnostics] == ["NNEF0766"]
    assert not (tmp_path / "out").exists()


def test_a_fragment_of_another_maker_stays_what_it_is(tmp_path):
    (tmp_path / "graph.nnef").write_text(
        "version 1.0;\nextension KHR_enable_fragment_definitions;\n"
        "fragment onnx_LSTM( strange: tensor<scalar> ) -> ( y: tensor<scalar> );\n"
        "fragment onnx_None( x: tensor<scalar> ) -> ( y: tensor<scalar> );\n"
        "graph g( x ) -> ( y )\n{\n    x = external(shape = [2]);\n    h = onnx_None(x);\n    y = onnx_LSTM(h);\n}\n"
    )
    assert [node.op for node in gp.load(tmp_path).graph] == ["nnef.onnx_None", "nnef.onnx_LSTM"]
