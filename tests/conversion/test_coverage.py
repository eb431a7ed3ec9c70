"""The formats that support a graph, determined before writing."""

from __future__ import annotations

import pytest
from onnx import helper

from graphport.conversion.coverage import coverage, missing_operators
from graphport.conversion.legalize import legalize
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.formats import FORMATS
from graphport.formats.onnx import from_proto
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.definitions.convolution import Conv, ConvTranspose
from graphport.ops.definitions.matmul import Gemm, MatMul
from graphport.ops.infer import infer
from tests.models import model, node, perceptron, typed


def test_every_format_defines_every_field_of_the_contract():
    graph, _ = legalize(from_proto(perceptron(1)))
    assert coverage(graph) == {name: {} for name, kind in FORMATS.items() if kind.writes and kind.takes_any_model}


def test_only_onnx_supports_custom_domain_operators():
    proto = model(
        [node("Foo", ["x"], ["y"], domain="com.example")], [("x", [2])], [("y", [2])], domains={"com.example": 1}
    )
    graph, _ = legalize(from_proto(proto))
    assert missing_operators(graph, FORMATS["onnx"]) == {}
    assert missing_operators(graph, FORMATS["nnef"]) == {"com.example.Foo": 1}


def test_onnx_rejects_foreign_dialect_op_types_in_bodies():
    body = Graph("then")
    body.add_output(body.append(Node("strange", [], [Value("b")], dialect="nnef")).output)
    graph = Graph()
    condition = graph.add_input("c")
    graph.append(Node("If", [condition], [Value("y")], {"then_branch": body, "else_branch": body}))
    graph.append(Node("strange", [], [Value("z")], dialect="nnef"))
    assert missing_operators(graph, FORMATS["onnx"])["nnef.strange"] >= 2


def test_a_branch_cannot_be_expressed_in_nnef():
    branch = [helper.make_graph([node("Relu", ["x"], [name])], name, [], [typed(name, [2])]) for name in "ab"]
    proto = model(
        [node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])],
        [("x", [2]), typed("c", [], 9)],
        [("y", [2])],
    )
    graph, _ = legalize(from_proto(proto))
    assert missing_operators(graph, FORMATS["nnef"]) == {"If": 1}


class Sealed(Storage):
    """Weights whose elements must not be read."""

    __slots__ = ()

    def numpy(self):
        raise AssertionError

    def chunks(self, limit=1):
        raise AssertionError


@pytest.mark.parametrize(
    ("op_def", "shape", "weights", "attributes"),
    [
        pytest.param(MatMul, (1, 512), (512, 1024), {}, id="product"),
        pytest.param(Gemm, (1, 512), (1024, 512), {"transB": 1}, id="Gemm"),
        pytest.param(Conv, (1, 64, 8, 8), (512, 64, 3, 3), {}, id="convolution"),
        pytest.param(ConvTranspose, (1, 64, 8, 8), (64, 512, 3, 3), {}, id="transposed convolution"),
    ],
)
def test_whether_a_format_can_state_a_network_is_reported_without_its_weights(op_def, shape, weights, attributes):
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, shape))
    sealed = Sealed(DType.FLOAT32, weights)
    w = graph.add_constant("w", TensorFact(DType.FLOAT32, weights), sealed)
    graph.add_output(graph.append(Node(op_def.name, [x, w], [Value("y")], attributes)).output)
    infer(graph)
    assert coverage(graph) == {name: {} for name, kind in FORMATS.items() if kind.writes and kind.takes_any_model}
