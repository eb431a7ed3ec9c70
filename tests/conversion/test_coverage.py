"""Which formats can say a graph, before anything is written."""

from __future__ import annotations

from onnx import helper

from graphport.conversion.coverage import coverage, missing_operators
from graphport.conversion.legalize import legalize
from graphport.formats import FORMATS
from graphport.formats.onnx import from_proto
from graphport.ir.graph import Graph, Node, Value
from tests.models import model, node, perceptron, typed


def test_what_every_format_says_has_no_gaps():
    graph, _ = legalize(from_proto(perceptron(1)))
    assert coverage(graph) == {name: {} for name, kind in FORMATS.items() if kind.writes}


def test_operators_of_another_domain_are_said_by_onnx_alone():
    proto = model(
        [node("Foo", ["x"], ["y"], domain="com.example")], [("x", [2])], [("y", [2])], domains={"com.example": 1}
    )
    graph, _ = legalize(from_proto(proto))
    assert missing_operators(graph, FORMATS["onnx"]) == {}
    assert missing_operators(graph, FORMATS["nnef"]) == {"com.example.Foo": 1}


def test_words_of_another_format_are_not_said_by_onnx_in_bodies_either():
    body = Graph("then")
    body.add_output(body.append(Node("strange", [], [Value("b")], dialect="nnef")).output)
    graph = Graph()
    condition = graph.add_input("c")
    graph.append(Node("If", [condition], [Value("y")], {"then_branch": body, "else_branch": body}))
    graph.append(Node("strange", [], [Value("z")], dialect="nnef"))
    assert missing_operators(graph, FORMATS["onnx"])["nnef.strange"] >= 2


def test_a_branch_cannot_be_said_in_nnef():
    branch = [helper.make_graph([node("Relu", ["x"], [name])], name, [], [typed(name, [2])]) for name in "ab"]
    proto = model(
        [node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])],
        [("x", [2]), typed("c", [], 9)],
        [("y", [2])],
    )
    graph, _ = legalize(from_proto(proto))
    assert missing_operators(graph, FORMATS["nnef"]) == {"If": 1}
