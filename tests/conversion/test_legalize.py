"""Legalization of dialects: names, facts, unconverted nodes and diagnostics."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from graphport.backends import reference
from graphport.conversion.legalize import is_canonical, legalize
from graphport.core.diagnostics import Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats import FORMATS
from graphport.formats.onnx import from_proto, to_proto
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.text import to_text
from graphport.ir.verify import verify
from graphport.ops.builder import Builder
from graphport.ops.declare import IMPORT_RULES, OPSET, Rule, ShapeError, UnsupportedError
from graphport.ops.definitions.activation import Relu
from tests.models import model, node, perceptron, typed, write_nnef

FACT = TensorFact(DType.FLOAT32, (2, 3))


@pytest.fixture
def speak(monkeypatch):
    """Return a function that registers an import rule for an op type of a fictional dialect."""

    def rule(op_type, function):
        monkeypatch.setitem(IMPORT_RULES, ("madeup", op_type), [Rule("madeup", op_type, function)])

    return rule


def one_word(op_type: str, results: int = 1) -> Graph:
    graph = Graph()
    x = graph.add_input("x", FACT)
    said = graph.append(Node(op_type, [x], [Value(f"y{i}") for i in range(results)], dialect="madeup"))
    graph.set_outputs(said.results)
    return graph


def test_legalize_returns_a_canonical_graph_unchanged():
    graph, _ = legalize(from_proto(perceptron()))
    again, findings = legalize(graph)
    assert again is graph
    assert findings == []


def test_the_argument_is_not_changed():
    graph = from_proto(perceptron(opset=9))
    before = to_text(graph)
    legalize(graph)
    assert to_text(graph) == before


def test_old_opset_is_upgraded_to_the_pinned_opset():
    graph, findings = legalize(from_proto(perceptron(opset=9)))
    verify(graph)
    assert findings == []
    assert is_canonical(graph)
    assert graph.opsets == {"": OPSET}


def test_values_of_nnef_keep_name_type_and_shape(tmp_path):
    raw, _ = FORMATS["nnef"].read(write_nnef(tmp_path / "small"))
    graph, findings = legalize(raw)
    verify(graph)
    assert findings == []
    facts = {value.name: str(value.fact) for value in graph.values()}
    assert {name: facts[name] for name in ("x", "w", "b", "h", "y")} == {
        "x": "float32[1, 2, 4, 4]",
        "w": "float32[3, 2, 3, 3]",
        "b": "float32[1, 3]",
        "h": "float32[1, 3, 4, 4]",
        "y": "float32[1, 3, 4, 4]",
    }
    assert [value.name for value in graph.outputs] == ["y"]


def test_an_op_type_without_rule_stays_with_a_warning_at_its_location():
    proto = model(
        [node("Foo", ["x"], ["h"], domain="com.example", name="first"), node("Relu", ["h"], ["y"])],
        [("x", [2, 3])],
        [("y", [2, 3])],
        domains={"com.example": 1},
    )
    graph, findings = legalize(from_proto(proto))
    assert [node.op for node in graph] == ["com.example.Foo", "Relu"]
    assert [(finding.code, finding.severity) for finding in findings] == [("LEG0001", Severity.WARNING)]
    assert "com.example.Foo remains unchanged" in findings[0].message
    assert 'graph.node[0] "first"' in str(findings[0].span)
    assert graph.opsets == {"": OPSET, "com.example": 1}


def test_unknown_onnx_operator_keeps_its_opset_on_export():
    proto = model([node("Madeup", ["x"], ["h"]), node("Relu", ["h"], ["y"])], [("x", [2, 3])], [("y", [2, 3])])
    graph, _ = legalize(from_proto(proto))
    assert graph.opsets["onnx"] == 17
    written = to_proto(graph)
    assert [said.op_type for said in written.graph.node] == ["Madeup", "Relu"]
    assert written.opset_import[0].version == 17


@pytest.mark.parametrize("error", [UnsupportedError("it turns left"), UnsupportedError()], ids=["reason", "none"])
def test_failed_import_rule_leaves_no_nodes(speak, error):
    def turn(b, x):
        b(Relu, x)
        raise error

    speak("turn", turn)
    graph, findings = legalize(one_word("turn"))
    assert [said.op for said in graph] == ["madeup.turn"]
    assert findings[0].code == "LEG0001"
    assert str(error) in findings[0].message


def test_unused_body_of_a_failed_import_rule_has_no_uses(speak):
    def turn(b, x):
        made = b(Relu, x)
        body = Graph("body")
        inside = Builder(b.inference, body)
        body.set_outputs([inside(Relu, x), inside(Relu, made), made])
        message = "it turns left"
        raise UnsupportedError(message)

    speak("turn", turn)
    graph, findings = legalize(one_word("turn"))
    assert [said.op for said in graph] == ["madeup.turn"]
    assert [finding.code for finding in findings] == ["LEG0001"]
    assert [use.user.op for use in graph.inputs[0].uses] == ["madeup.turn"]


def test_a_lowering_that_finds_the_node_wrong_is_an_error(speak):
    def turn(b, x):
        raise ShapeError("x lies on its side", "set it up")

    speak("turn", turn)
    _, findings = legalize(one_word("turn"))
    assert [(finding.code, finding.message, finding.help) for finding in findings] == [
        ("SHAPE0001", "madeup.turn: x lies on its side", "set it up")
    ]


def test_import_rule_may_return_one_value_as_two_results(speak):
    def double(b, x):
        y = b(Relu, x)
        return y, y

    speak("double", double)
    graph, _ = legalize(one_word("double", results=2))
    verify(graph)
    assert [value.name for value in graph.outputs] == ["y0", "y1"]
    x = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    found = reference.prepare(graph).run({"x": x})
    np.testing.assert_array_equal(found["y0"], found["y1"])


def test_import_rule_may_return_its_operand(speak):
    speak("same", lambda b, x: x)
    graph, _ = legalize(one_word("same"))
    verify(graph)
    assert [value.name for value in graph.inputs] == ["x"]
    assert [value.name for value in graph.outputs] == ["y0"]


def test_a_declared_shape_that_cannot_be_is_reported():
    proto = model([node("Relu", ["x"], ["y"])], [("x", [2, 3])], [("y", [3, 2])])
    graph, findings = legalize(from_proto(proto))
    assert [finding.code for finding in findings] == ["SHAPE0002"]
    assert "declares its shape as float32[3, 2], it is float32[2, 3]" in findings[0].message
    assert str(graph.outputs[0].fact) == "float32[2, 3]"


def test_legalize_converts_bodies_with_captured_values():
    branch = [helper.make_graph([node("Softmax", ["x"], [name])], name, [], [typed(name, [2, 3])]) for name in "ab"]
    proto = model(
        [node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])],
        [("x", [2, 3]), typed("c", [], TensorProto.BOOL)],
        [("y", [2, 3])],
        opset=11,
    )
    graph, findings = legalize(from_proto(proto))
    verify(graph)
    assert findings == []
    assert is_canonical(graph)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = reference.prepare(graph).run({"x": x, "c": np.array(True)})["y"]
    # Softmax-1 flattened x to a matrix at axis 1; for the last axis that is equivalent.
    np.testing.assert_allclose(found.sum(axis=1), [1, 1], rtol=1e-6)


def test_legalizing_twice_keeps_declared_shapes_after_an_opaque_node():
    nodes = [node("Foo", ["x"], ["h"], domain="com.example"), node("Relu", ["h"], ["y"])]
    proto = model(nodes, [("x", [2])], [typed("y", ["R", "K"], TensorProto.FLOAT)], domains={"com.example": 1})
    graph, _ = legalize(from_proto(proto))
    again, _ = legalize(graph)
    assert [str(one.outputs[0].fact) for one in (graph, again)] == ["float32[R, K]"] * 2
