"""A Concat loses its operands of extent 0 on the way to another format."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.models import model, node

X = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)


def rolled(shift: int, *, is_last: bool) -> gp.Model:
    """`torch.roll` along axis 1: the end and the beginning of a tensor, of which one is empty for 0."""
    constants = {"cut": np.array([shift]), "zero": np.array([0]), "end": np.array([2**62]), "axis": np.array([1])}
    nodes = [
        node("Slice", ["x", "cut", "end", "axis"], ["tail"]),
        node("Slice", ["x", "zero", "cut", "axis"], ["head"]),
        node("Concat", ["tail", "head"], ["y" if is_last else "c"], axis=1 if is_last else -3),
    ]
    nodes += [] if is_last else [node("Relu", ["c"], ["y"])]
    return gp.from_onnx(model(nodes, [("x", [1, 2, 4, 3])], [("y", [1, 2, 4, 3])], constants))


@pytest.mark.parametrize("backend", ["litert", "tract", "ncnn", "openvino"])
@pytest.mark.parametrize("is_last", [False, True], ids=["before another operator", "as the result"])
def test_roll_with_empty_slices_matches_numpy(backend, is_last):
    for shift in (0, 1, 2):
        found = gp.run(rolled(shift, is_last=is_last), {"x": X}, backend=backend)["y"]
        np.testing.assert_array_equal(found, np.roll(X, -shift, 1))


@pytest.mark.parametrize(
    "name", ["net.tflite", "net.nnef", "net.ncnn.param", "net.prototxt", "net.xml", "net.pnnx.param"]
)
def test_a_file_has_no_empty_operand(tmp_path, name):
    gp.save(rolled(0, is_last=False), tmp_path / name)
    written = gp.load(tmp_path / name)
    assert not any(node.op == "Concat" for node in written.graph)
    (found,) = gp.run(written, dict.fromkeys(written.inputs, X), backend="reference").values()
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("backend", ["litert", "ncnn", "openvino"])
def test_the_maximum_of_no_elements_is_minus_infinity(backend):
    nodes = [node("ReduceMax", ["e", "axes"], ["m"], keepdims=1), node("Add", ["x", "m"], ["y"])]
    inputs = [("x", [1, 2, 1]), ("e", [1, 2, 0])]
    net = gp.from_onnx(model(nodes, inputs, [("y", [1, 2, 1])], {"axes": np.array([2])}, opset=18))
    found = gp.run(net, {"x": X[:, :, 0, :1], "e": np.zeros((1, 2, 0), np.float32)}, backend=backend)["y"]
    np.testing.assert_array_equal(found, np.full((1, 2, 1), -np.inf))


@pytest.mark.parametrize("backend", ["litert", "openvino"])
def test_a_result_without_elements_is_a_constant(backend):
    """The kernels of OpenVINO (Gather) and LiteRT (Softmax) end the process on a tensor without elements."""
    nodes = [node("Gather", ["table", "i"], ["rows"], axis=0), node("Softmax", ["rows"], ["y"], axis=0)]
    proto = model(nodes, [("table", [3, 0])], [("y", [2, 0])], {"i": np.array([0, 2])})
    found = gp.run(gp.from_onnx(proto), {"table": np.zeros((3, 0), np.float32)}, backend=backend)
    assert {name: x.shape for name, x in found.items()} == {"y": (2, 0)}


def test_ncnn_refuses_an_output_without_elements(tmp_path):
    proto = model([node("Relu", ["x"], ["y"])], [("x", [1, 3, 0])], [("y", [1, 3, 0])], {})
    with pytest.raises(DiagnosticError) as error:
        gp.save(gp.from_onnx(proto), tmp_path / "net.ncnn.param")
    first = error.value.diagnostics[0]
    assert (first.code, first.message) == (
        "NCNN0305",
        "the output y has no elements; ncnn has no empty blobs",
    )


@pytest.mark.parametrize("name", ["net.tflite", "net.xml", "net.pt2"])
def test_dynamic_quantization_of_zeros_has_scale_one(tmp_path, name):
    proto = model([node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])], [("x", [3])], [("scale", [])], {})
    gp.save(gp.from_onnx(proto), tmp_path / name)
    found = gp.run(tmp_path / name, {"x": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(next(iter(found.values())), 1.0)
