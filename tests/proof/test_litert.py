"""TFLite files are proven by LiteRT, an independent implementation; the backend `litert` runs a graph in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphport as gp

CASES = Path(__file__).parents[1] / "formats" / "tflite" / "cases"


def convolution(path: Path, weights: np.ndarray[Any, Any]) -> Path:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])]
    told = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, n, 6, 5]) for name, n in (("x", 3), ("y", 4))
    ]
    graph = helper.make_graph(nodes, "net", told[:1], told[1:], [onnx.numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def weights() -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).normal(size=(4, 3, 3, 3)).astype(np.float32)


def test_a_file_that_was_written_is_held_against_its_source_by_litert(tmp_path: Path, weights: Any) -> None:
    net = convolution(tmp_path / "net.onnx", weights)
    gp.save(gp.load(net), tmp_path / "net.tflite")
    proof = gp.verify(net, tmp_path / "net.tflite")
    assert proof.passed
    assert proof.is_independent
    assert "litert" in {seen.runtime for seen in proof.witnesses if seen.ran}
    weights[1, 2, 0, 1] += 0.5
    assert not gp.verify(convolution(tmp_path / "other.onnx", weights), tmp_path / "net.tflite").passed


def test_one_step_differences_pass_and_wrong_scales_fail(tmp_path: Path) -> None:
    for name in ("conv_2d_int8", "fully_connected_int8"):
        source = CASES / f"{name}.tflite"
        model = gp.load(source)
        gp.save(model, tmp_path / "net.onnx")
        proof = gp.verify(source, tmp_path / "net.onnx")
        assert proof.passed, f"{name}: {proof}"
        assert any("LiteRT rounds some quantized values" in note for note in proof.notes)
        told = onnx.load(tmp_path / "net.onnx")
        scales = {node.input[1] for node in told.graph.node if node.op_type == "QuantizeLinear"}
        for constant in told.graph.initializer:
            if constant.name in scales:
                constant.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(constant) * 2, constant.name))
        onnx.save(told, tmp_path / "wrong.onnx")
        assert not gp.verify(source, tmp_path / "wrong.onnx").passed


def test_the_backend_computes_a_graph_and_every_value_of_it(tmp_path: Path, weights: Any) -> None:
    model = gp.load(convolution(tmp_path / "net.onnx", weights))
    x = np.random.default_rng(6).normal(size=(1, 3, 6, 5)).astype(np.float32)
    expected = gp.run(model, {"x": x}, backend="reference")
    found = gp.run(model, {"x": x}, backend="litert")
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-5)


def test_litert_backend_requires_a_tflite_file(tmp_path: Path) -> None:
    told = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [5, 5]),
        helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, []),
    ]
    graph = helper.make_graph([helper.make_node("Det", ["x"], ["y"])], "net", told[:1], told[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx"
    )
    with pytest.raises(gp.DiagnosticError, match="LiteRT requires a TFLite file"):
        gp.run(gp.load(tmp_path / "net.onnx"), {"x": np.eye(5, dtype=np.float32)}, backend="litert")


def test_dynamic_range_layers_pass_and_wrong_weights_fail(tmp_path: Path) -> None:
    """A file with integer weights and float activations (dynamic range): its intermediate rounding is unspecified."""
    random = np.random.default_rng(8)
    stored = {name: random.normal(size=size).astype(np.float32) for name, size in (("v", (24, 32)), ("w", (32, 8)))}
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["h"]),
        helper.make_node("Relu", ["h"], ["k"]),
        helper.make_node("MatMul", ["k", "w"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [5, n]) for name, n in (("x", 24), ("y", 8))]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx"
    )
    made = gp.quantize(gp.load(tmp_path / "net.onnx"), target="tflite", dynamic=True, preset="fast")
    gp.save(made, tmp_path / "net.tflite")
    gp.save(gp.load(tmp_path / "net.tflite"), tmp_path / "again.onnx")
    proof = gp.verify(tmp_path / "net.tflite", tmp_path / "again.onnx")
    assert proof.passed, str(proof)
    assert any("LiteRT rounds the floats that FULLY_CONNECTED" in note for note in proof.notes)
    told = onnx.load(tmp_path / "again.onnx")
    for constant in told.graph.initializer:
        if constant.data_type == onnx.TensorProto.INT8:
            codes = onnx.numpy_helper.to_array(constant).copy()
            codes[:2] = -codes[:2]
            constant.CopyFrom(onnx.numpy_helper.from_array(codes, constant.name))
    onnx.save(told, tmp_path / "wrong.onnx")
    assert not gp.verify(tmp_path / "net.tflite", tmp_path / "wrong.onnx").passed


def test_int8_means_match_the_default_litert_kernels(tmp_path: Path) -> None:
    """Its other kernels round a third of the elements to the next integer."""
    random = np.random.default_rng(8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("ReduceMean", ["d", "axes"], ["m"], keepdims=0),
        helper.make_node("QuantizeLinear", ["m", "t", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "t", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.03), "t": np.float32(0.0045), "z": np.int8(3), "axes": np.array([2, 3])}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 8, 6, 6])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 8])],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    proof = gp.verify(tmp_path / "m.onnx", tmp_path / "m.tflite", {"x": random.normal(size=(4, 8, 6, 6)).astype("f4")})
    assert proof.passed
    assert proof.outputs[0].worst.max_abs == 0
