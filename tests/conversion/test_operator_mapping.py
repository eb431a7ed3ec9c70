"""The mapping of operators: to one op type, several, or none."""

from __future__ import annotations

import numpy as np

import graphport as gp
from graphport.conversion.export import export_graph
from graphport.conversion.operator_mapping import OperatorMapping, map_operators
from tests.models import model, node


def canonical(*nodes, **constants):
    return gp.from_onnx(model(list(nodes), [("x", (2, 3))], [("y", None)], constants)).graph


def test_an_op_type_for_each_is_reported_with_their_number():
    graph = canonical(node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["b"]), node("Tanh", ["b"], ["y"]))
    assert map_operators(graph, export_graph(graph, "openvino")[0]) == [
        OperatorMapping("Relu", 2, ("opset1.ReLU",)),
        OperatorMapping("Tanh", 1, ("opset1.Tanh",)),
    ]


def test_several_op_types_are_reported_in_the_order_in_which_they_run():
    graph = canonical(node("Celu", ["x"], ["y"], alpha=2.0))
    (found,) = map_operators(graph, export_graph(graph, "nnef")[0])
    assert found.operator == "Celu"
    assert len(found.words) > 1
    assert found.words[-1] == "mul"


def test_removed_nodes_have_no_op_type():
    graph = canonical(node("Neg", ["w"], ["v"]), node("Add", ["x", "v"], ["y"]), w=np.ones(3, np.float32))
    stated = gp.simplify(gp.Model(graph, "onnx"))[0].graph
    assert OperatorMapping("Neg", 1, ()) in map_operators(graph, stated)
    assert OperatorMapping("Add", 1, ("Add",)) in map_operators(graph, stated)


def test_a_conversion_reports_its_op_types(tmp_path):
    gp.save(gp.Model(canonical(node("Relu", ["x"], ["y"])), "onnx"), tmp_path / "net.onnx")
    report = gp.convert(tmp_path / "net.onnx", tmp_path / "net.xml")
    assert report.operator_mapping == [OperatorMapping("Relu", 1, ("opset1.ReLU",))]
    assert gp.convert(tmp_path / "net.xml", tmp_path / "same.xml").operator_mapping == []
