"""Choosing a backend, and what stands in the way."""

from __future__ import annotations

import numpy as np
import pytest

from graphport import backends
from graphport.backends import BACKENDS, prepare
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx import from_proto
from graphport.ir.graph import Graph, Node, Value
from tests.models import model, node, perceptron

X = np.ones((1, 4), np.float32)


def graph_of(proto):
    return legalize(from_proto(proto))[0]


def told(call, *arguments, **options):
    with pytest.raises(DiagnosticError) as caught:
        call(*arguments, **options)
    (finding,) = caught.value.diagnostics
    return finding


@pytest.mark.parametrize("name", ["auto", *BACKENDS])
def test_every_backend_runs(name):
    found = prepare(graph_of(perceptron()), name).run({"x": X})
    assert list(found) == ["y"]
    assert found["y"].dtype == np.float32
    np.testing.assert_allclose(found["y"].sum(), 1, rtol=1e-6)


def test_an_unknown_backend_is_told_with_those_that_are_known():
    finding = told(prepare, graph_of(perceptron()), "abacus")
    assert finding.code == "RUN0001"
    assert finding.help == f"backends: auto, {', '.join(BACKENDS)}"


def test_a_backend_that_is_not_installed_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setitem(BACKENDS, "far", backends.Backend("no_such_package", "nowhere", "far"))
    finding = told(prepare, graph_of(perceptron()), "far")
    assert (finding.code, finding.help) == ("RUN0002", "pip install graphport[far]")


def test_auto_takes_the_first_that_is_installed(monkeypatch):
    monkeypatch.setattr(backends, "is_installed", lambda name: name == "reference")
    assert type(prepare(graph_of(perceptron()))).__name__ == "PagesSession"


def test_auto_goes_on_where_a_backend_does_not_load_the_model():
    # ONNX Runtime has no Relu of bfloat16.
    proto = model([node("Relu", ["x"], ["y"])], [("x", [2])], [("y", [2])])
    for item in (*proto.graph.input, *proto.graph.output):
        item.type.tensor_type.elem_type = 16  # bfloat16
    graph = graph_of(proto)
    assert told(prepare, graph, "onnxruntime").code == "RUN0003"
    x = np.array([-1, 1], DType.BFLOAT16.numpy)
    np.testing.assert_array_equal(prepare(graph).run({"x": x})["y"], np.array([0, 1], DType.BFLOAT16.numpy))


@pytest.mark.parametrize("name", ["auto", *BACKENDS])
def test_an_operator_that_nobody_runs_is_told(name):
    proto = model([node("Foo", ["x"], ["y"], domain="com.x")], [("x", [2])], [("y", [2])], domains={"com.x": 1})
    finding = told(prepare, graph_of(proto), name)
    assert finding.code == "RUN0003"
    assert "Foo" in finding.message


def test_missing_weights_are_told_by_name():
    graph = Graph()
    fact = TensorFact(DType.FLOAT32, (2,))
    weights = [graph.add_constant(f"w{i}", fact) for i in range(7)]
    graph.set_outputs([graph.append(Node("Sum", weights, [Value("y")])).output])
    finding = told(prepare, graph)
    assert finding.code == "RUN0004"
    assert "w0, w1, w2, w3, w4 and 2 more" in finding.message


def test_weights_that_nobody_reads_are_not_missed():
    graph = graph_of(perceptron())
    graph.add_constant("unread", TensorFact(DType.FLOAT32, (2,)))
    assert list(prepare(graph).run({"x": X})) == ["y"]
