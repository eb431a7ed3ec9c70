"""Which kernels ONNX Runtime makes of additions ahead of Gelu and LayerNormalization."""

from __future__ import annotations

import numpy as np

import graphport as gp
from graphport.backends.onnxruntime import kernel_times
from graphport.quantization.unfused import unfused
from tests.models import model, node


def _block():
    r = np.random.default_rng(0)
    constants = {
        "w": r.normal(size=(8, 16)).astype(np.float32), "b": r.normal(size=16).astype(np.float32),
        "v": r.normal(size=(16, 8)).astype(np.float32), "g": r.normal(size=8).astype(np.float32),
        "o": r.normal(size=8).astype(np.float32),
    }  # fmt: skip
    nodes = [
        node("MatMul", ["x", "w"], ["m"], name="wide"), node("Add", ["m", "b"], ["a"], name="bias"),
        node("Gelu", ["a"], ["e"], name="bent"), node("MatMul", ["e", "v"], ["f"], name="narrow"),
        node("Add", ["x", "f"], ["s"], name="beside"), node("LayerNormalization", ["s", "g", "o"], ["y"], name="norm"),
    ]  # fmt: skip
    shape = ["N", 5, 8]
    return gp.from_onnx(model(nodes, [("x", shape)], [("y", shape)], constants, opset=20))


def _samples(count=64):
    return {"x": np.random.default_rng(1).normal(size=(count, 5, 8)).astype(np.float32)}


def test_what_is_quantized_has_the_quick_kernels():
    made = gp.quantize(_block(), _samples(), preset="fast")
    written = gp.from_onnx(gp.to_onnx(made))
    found = {kernel.operator for kernel in kernel_times(written.graph, _samples(2), runs=1)}
    assert {"Gelu", "LayerNormalization", "Sum"} <= found
    assert not found & {"BiasGelu", "SkipLayerNormalization"}
    np.testing.assert_allclose(gp.run(written, _samples(4))["y"], gp.run(made, _samples(4))["y"], atol=1e-5)


def test_only_additions_that_would_be_taken_in_are_changed():
    graph = _block().graph
    twin = unfused(graph)
    assert [each.op for each in twin] == ["MatMul", "Add", "Gelu", "MatMul", "Sum", "LayerNormalization"]
    assert [each.name for each in twin] == [each.name for each in graph]
    assert unfused(twin) is twin
    graph.add_output(next(each for each in graph if each.name == "beside").output)
    assert [each.op for each in unfused(graph)][4] == "Add"


def test_other_targets_read_what_is_written_as_it_was():
    made = gp.quantize(_block(), _samples(), "openvino", preset="fast")
    assert "Sum" not in {each.op_type for each in gp.to_onnx(made).graph.node}
