"""Choosing a backend, and what stands in the way."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport import backends
from graphport.backends import BACKENDS, prepare
from graphport.backends.latency import latencies
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx import from_proto
from graphport.ir.graph import Graph, Node, Value
from tests.formats.openvino.documents import Layer, parameter, write_ir
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


def test_unknown_backend_lists_the_backends():
    finding = told(prepare, graph_of(perceptron()), "abacus")
    assert finding.code == "RUN0001"
    assert finding.help == f"backends: auto, {', '.join(BACKENDS)}"


def test_missing_backend_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(BACKENDS, "far", backends.Backend("no_such_package", "nowhere"))
    finding = told(prepare, graph_of(perceptron()), "far")
    assert (finding.code, finding.help) == ("RUN0002", "pip install no_such_package")


def test_a_backend_that_is_too_old_is_reported_with_its_version(monkeypatch):
    monkeypatch.setitem(BACKENDS, "old", backends.Backend("numpy", "nowhere", "99.0"))
    assert not backends.is_installed("old")
    finding = told(prepare, graph_of(perceptron()), "old")
    assert finding.code == "RUN0002"
    assert f"99.0 or newer, numpy {np.__version__} is installed" in finding.message


def test_auto_selects_the_first_installed_backend(monkeypatch):
    monkeypatch.setattr(backends, "is_installed", lambda name: name == "reference")
    assert type(prepare(graph_of(perceptron()))).__name__ == "InterpreterSession"


def test_auto_skips_backends_that_reject_the_model():
    # ONNX Runtime has no Relu of bfloat16.
    proto = model([node("Relu", ["x"], ["y"])], [("x", [2])], [("y", [2])])
    for item in (*proto.graph.input, *proto.graph.output):
        item.type.tensor_type.elem_type = 16  # bfloat16
    graph = graph_of(proto)
    assert told(prepare, graph, "onnxruntime").code == "RUN0003"
    x = np.array([-1, 1], DType.BFLOAT16.numpy)
    np.testing.assert_array_equal(prepare(graph).run({"x": x})["y"], np.array([0, 1], DType.BFLOAT16.numpy))


@pytest.mark.parametrize("name", ["auto", *BACKENDS])
def test_unsupported_operator_is_reported(name):
    proto = model([node("Foo", ["x"], ["y"], domain="com.x")], [("x", [2])], [("y", [2])], domains={"com.x": 1})
    finding = told(prepare, graph_of(proto), name)
    assert finding.code == "RUN0003"
    assert "Foo" in finding.message


def test_missing_weights_are_reported_by_name():
    graph = Graph()
    fact = TensorFact(DType.FLOAT32, (2,))
    weights = [graph.add_constant(f"w{i}", fact) for i in range(7)]
    graph.set_outputs([graph.append(Node("Sum", weights, [Value("y")])).output])
    finding = told(prepare, graph)
    assert finding.code == "RUN0004"
    assert "w0, w1, w2, w3, w4 and 2 more" in finding.message


def test_weights_without_consumer_are_not_missed():
    graph = graph_of(perceptron())
    graph.add_constant("unread", TensorFact(DType.FLOAT32, (2,)))
    assert list(prepare(graph).run({"x": X})) == ["y"]


# Threads


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["auto", "onnxruntime", "fused", "openvino", "ncnn"])
def test_the_number_of_threads_is_reported(name, threads):
    found = prepare(graph_of(perceptron()), name, threads=threads).run({"x": X})
    np.testing.assert_allclose(found["y"], prepare(graph_of(perceptron())).run({"x": X})["y"], rtol=1e-5)


def test_tract_accepts_one_thread():
    assert list(prepare(graph_of(perceptron()), "tract", threads=1).run({"x": X})) == ["y"]


@pytest.mark.parametrize(
    ("name", "threads", "message"),
    [
        ("tract", 2, "backend tract supports only one thread, not 2"),
        ("reference", 1, "backend reference does not support a number of threads"),
        ("onnxruntime", -1, "invalid number of threads: -1"),
    ],
)
def test_threads_that_a_backend_does_not_have_are_reported(name, threads, message):
    finding = told(prepare, graph_of(perceptron()), name, threads=threads)
    assert (finding.code, finding.message) == ("RUN0011", message)


def test_auto_leaves_threads_to_a_backend_that_cannot_be_determined(monkeypatch):
    monkeypatch.setattr(backends, "is_installed", lambda name: name == "reference")
    assert list(prepare(graph_of(perceptron()), threads=2).run({"x": X})) == ["y"]


# The order of preference


def words(*dialects):
    graph = Graph()
    value = graph.add_input("x", TensorFact(DType.FLOAT32, (2,)))
    for dialect in dialects:
        value = graph.append(Node("Word" if dialect else "Relu", [value], [Value("")], dialect=dialect)).output
    graph.set_outputs([value])
    return graph


ALL = frozenset(BACKENDS)


@pytest.mark.parametrize(
    ("dialects", "installed", "expected"),
    [
        pytest.param([""], ALL, ["onnxruntime", "reference"], id="canonical"),
        pytest.param([""], ALL - {"onnxruntime"}, ["reference"], id="canonical, without ONNX Runtime"),
        pytest.param(["", "openvino"], ALL, ["openvino", "onnxruntime", "reference"], id="words of OpenVINO"),
        pytest.param(["openvino"], ALL - {"openvino"}, ["onnxruntime", "reference"], id="words of one that is absent"),
        pytest.param(["ncnn"], ALL, ["ncnn", "onnxruntime", "reference"], id="words of ncnn"),
        pytest.param(["nnef"], ALL, ["tract", "onnxruntime", "reference"], id="words of NNEF"),
        pytest.param(["pnnx"], ALL, ["onnxruntime", "reference"], id="words that no runtime has"),
        pytest.param(["com.microsoft"], ALL, ["onnxruntime", "reference"], id="words of another domain"),
        pytest.param(["ncnn", "openvino"], ALL, ["openvino", "ncnn", "onnxruntime", "reference"], id="words of two"),
    ],
)
def test_auto_prefers_in_a_fixed_order(dialects, installed, expected, monkeypatch):
    monkeypatch.setattr(backends, "is_installed", lambda name: name in installed)
    assert backends.preferred(words(*dialects)) == expected


def test_auto_hands_op_types_of_a_runtime_to_it(tmp_path):
    layers = [
        parameter("x", "1,5,5", "f32"),
        Layer("inverse", "opset14.Inverse", {"adjoint": "false"}, ["x"]),
    ]
    loaded = gp.load(write_ir(tmp_path, layers, ["inverse"]))
    inputs = {"x": 4 * np.eye(5, dtype=np.float32)[None]}
    assert [each.op for each in loaded.graph] == ["openvino.opset14.Inverse"]
    np.testing.assert_allclose(gp.run(loaded, inputs)["inverse"], np.eye(5, dtype=np.float32)[None] / 4, rtol=1e-6)
    with pytest.raises(DiagnosticError, match="RUN0003"):
        gp.run(loaded, inputs, backend="reference")


# Whom a runtime blames


@pytest.mark.parametrize("name", ["onnxruntime", "openvino", "reference"])
def test_the_node_that_a_runtime_blames_is_named_with_its_location(name, tmp_path):
    layers = [
        parameter("x", "?"),
        parameter("s", "2", "i64"),
        Layer("folded", "opset1.Reshape", {"special_zero": "false"}, ["x", "s"]),
    ]
    loaded = gp.load(write_ir(tmp_path, layers, ["folded"]))
    with pytest.raises(DiagnosticError) as caught:
        gp.run(loaded, {"x": np.zeros(5, np.float32), "s": np.array([2, 3])}, backend=name)
    (finding,) = caught.value.diagnostics
    assert finding.code == "RUN0005"
    assert "folded" in finding.message
    assert finding.span.place == 'layer 2 "folded"'


# Time


def test_sessions_are_timed_in_turns():
    turns = []

    class Counted:
        def __init__(self, name):
            self.name = name

        def run(self, inputs, *, every_value=False):
            turns.append(self.name)
            return {}

    slow, quick = latencies([Counted("a"), Counted("b")], {}, seconds=0, least=3)
    assert turns == ["a", "b"] * 4  # once before it is measured
    assert slow.runs == quick.runs == 3
    assert 0 <= slow.least <= slow.median


def test_latency_measurement_stops_after_the_maximum_runs():
    class Quick:
        def run(self, inputs, *, every_value=False):
            return {}

    (found,) = latencies([Quick()], {}, seconds=60, most=7)
    assert found.runs == 7


def test_no_sessions_take_no_time():
    assert latencies([], {}) == []
