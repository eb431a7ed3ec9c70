"""Which kernels ONNX Runtime makes of additions ahead of Gelu and LayerNormalization."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import graphport as gp
from graphport.formats.onnx.runtime import kernel_times
from graphport.quantization.avoid_fusions import unfused
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


def test_quantized_operators_use_fast_kernels():
    made = gp.quantize(_block(), _samples(), preset="fast")
    written = gp.from_onnx(gp.to_onnx(made))
    found = {kernel.operator for kernel in kernel_times(written.graph, _samples(2), runs=1)}
    assert {"Gelu", "LayerNormalization", "Sum"} <= found
    assert not found & {"BiasGelu", "SkipLayerNormalization"}
    np.testing.assert_allclose(gp.run(written, _samples(4))["y"], gp.run(made, _samples(4))["y"], atol=1e-5)


def test_unfused_changes_only_additions_that_would_be_fused():
    graph = _block().graph
    twin = unfused(graph)
    assert [each.op for each in twin] == ["MatMul", "Add", "Gelu", "MatMul", "Sum", "LayerNormalization"]
    assert [each.name for each in twin] == [each.name for each in graph]
    assert unfused(twin) is twin
    graph.add_output(next(each for each in graph if each.name == "beside").output)
    assert [each.op for each in unfused(graph)][4] == "Add"


def test_other_targets_keep_add():
    made = gp.quantize(_block(), _samples(), "openvino", preset="fast")
    assert "Sum" not in {each.op_type for each in gp.to_onnx(made).graph.node}


def _bent(op, bend, reader):
    """A product with what bends it, that one real node, a real one and a product, or nobody reads."""
    r = np.random.default_rng(2)
    constants = {"w": r.normal(size=(16, 32)).astype(np.float32), "v": r.normal(size=(32, 8)).astype(np.float32)}
    more, limits = [], []
    if op == "Gemm":
        constants["b"], more = r.normal(size=32).astype(np.float32), ["b"]
    if bend == "Clip":
        constants |= {"low": np.float32(0), "high": np.float32(6)}
        limits = ["low", "high"]
    nodes = [node(op, ["x", "w", *more], ["h"], name="wide"), node(bend, ["h", *limits], ["a"], name="bent")]
    outputs = [("a", ["N", 32])]
    if reader != "nobody":
        nodes.append(node("Softmax", ["a"], ["s"], name="real"))
        nodes.append(node(op, ["a" if reader == "both" else "s", "v"], ["y"], name="narrow"))
        outputs = [("s", ["N", 32]), ("y", ["N", 8])] if reader == "both" else [("y", ["N", 8])]
    return gp.from_onnx(model(nodes, [("x", ["N", 16])], outputs, constants))


@pytest.mark.parametrize(
    ("op", "bend", "reader"), [*product(["Gemm", "MatMul"], ["Relu", "Clip"], ["real", "both", "nobody"])]
)
def test_integer_product_with_activation_stays_integer(op, bend, reader):
    data = {"x": np.random.default_rng(1).normal(size=(24, 16)).astype(np.float32)}
    made = gp.quantize(_bent(op, bend, reader), data, preset="fast", cheap_layers=False)
    assert all(layer.is_quantized for layer in made.report.layers)
    written = gp.from_onnx(gp.to_onnx(made))
    found = {kernel.operator for kernel in kernel_times(written.graph, data, runs=1)}
    assert found & {"QGemm", "MatMulIntegerToFloat"}
    assert not found & {"Gemm", "FusedGemm", "MatMul", "DequantizeLinear"}
    for name, expected in gp.run(made, data).items():
        np.testing.assert_allclose(gp.run(written, data)[name], expected, atol=1e-5)


def test_quantized_activation_stays_fused_with_its_product():
    data = {"x": np.random.default_rng(1).normal(size=(24, 16)).astype(np.float32)}
    r = np.random.default_rng(3)
    constants = {"w": r.normal(size=(16, 32)).astype(np.float32), "v": r.normal(size=(32, 8)).astype(np.float32)}
    nodes = [node("Gemm", ["x", "w"], ["h"]), node("Relu", ["h"], ["a"]), node("Gemm", ["a", "v"], ["y"])]
    found = gp.from_onnx(model(nodes, [("x", ["N", 16])], [("y", ["N", 8])], constants))
    made = gp.quantize(found, data, preset="fast", cheap_layers=False)
    assert "Sum" not in {each.op_type for each in gp.to_onnx(made).graph.node}
