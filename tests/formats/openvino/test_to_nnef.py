"""From IR to NNEF: what the reference computes of the original, it and tract compute of the folder that is written."""

import nnef
import numpy as np
import pytest

import graphport as gp
from tests.formats.openvino.documents import Constant, Layer, constant, parameter, write_ir

RANDOM = np.random.default_rng(0)
WINDOW = {"strides": "1,1", "pads_begin": "1,1", "pads_end": "1,1", "dilations": "1,1"}
POOL = {
    "kernel": "2,2",
    "strides": "2,2",
    "pads_begin": "0,0",
    "pads_end": "0,0",
    "dilations": "1,1",
    "rounding_type": "floor",
}


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def pictures(folder, shape="1,3,8,8"):
    """A convolution with bias, a pool, and a product behind it."""
    layers = [
        parameter("x", shape),
        Constant("w", numbers(4, 3, 3, 3)),
        Constant("b", numbers(1, 4, 1, 1)),
        Layer("c", "opset1.Convolution", WINDOW, ["x", "w"]),
        Layer("s", "opset1.Add", {}, ["c", "b"]),
        Layer("r", "opset1.ReLU", {}, ["s"]),
        Layer("p", "opset8.MaxPool", POOL | {"axis": "0", "index_element_type": "i64"}, ["r"], outputs=2),
        constant("flat", [1, 64], "int64"),
        Layer("f", "opset1.Reshape", {"special_zero": "false"}, ["p:0", "flat"]),
        Constant("v", numbers(64, 5)),
        Layer("m", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "false"}, ["f", "v"]),
        Layer("y", "opset8.SoftMax", {"axis": "1"}, ["m"]),
    ]
    return write_ir(folder, layers, ["y"])


@pytest.mark.parametrize("backend", ["onnxruntime", "reference", "tract"])
def test_the_folder_computes_what_the_ir_computes(backend, tmp_path):
    path = pictures(tmp_path)
    report = gp.convert(path, tmp_path / "model", format="nnef")
    assert report.passed
    x = numbers(1, 3, 8, 8)
    expected = gp.run(gp.load(path), {"x": x}, backend="reference")["y"]
    found = gp.run(gp.load(tmp_path / "model"), {"x": x}, backend=backend)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_intervals_are_bound_on_the_way(tmp_path):
    path = pictures(tmp_path, "1..4,3,8,?")
    report = gp.convert(path, tmp_path / "model", format="nnef", shapes={"x": (1, 3, 8, 8)})
    assert report.passed
    assert gp.load(tmp_path / "model").inputs["x"].fact.shape == (1, 3, 8, 8)


def test_what_nnef_has_no_op_types_for_is_reported_and_nothing_is_written(tmp_path):
    layers = [parameter("x", "2,3"), Layer("y", "opset3.NonZero", {"output_type": "i64"}, ["x"])]
    report = gp.convert(write_ir(tmp_path, layers, ["y"]), tmp_path / "model", format="nnef", flavour="khronos")
    assert report.unsupported == {"NonZero": 1}
    assert not (tmp_path / "model").exists()


def test_a_model_that_is_called_after_an_operation_is_not_treated_as_it(tmp_path):
    layers = [parameter("x", "2,3"), Layer("y", "opset1.ReLU", {}, ["x"])]
    path = write_ir(tmp_path, layers, ["y"])
    path.write_text(path.read_text().replace('name="test"', 'name="elu"'))
    assert gp.convert(path, tmp_path / "model", format="nnef").passed
    assert "graph elu(" not in (tmp_path / "model" / "graph.nnef").read_text()
    assert nnef.load_graph(str(tmp_path / "model")).name == "elu_1"


def test_integers_that_are_known_are_computed_and_others_go_by_way_of_reals(tmp_path):
    ones = constant("ones", [[1, 2, 3]], "int64")
    layers = [
        *(parameter("x", "1,3"), ones, constant("more", [[2, 2, 2]], "int64")),
        Layer("c", "opset1.Less", {"auto_broadcast": "numpy"}, ["ones", "more"]),
        Constant("zero", np.zeros((1, 1), np.float32)),
        Layer("y", "opset1.Select", {"auto_broadcast": "numpy"}, ["c", "x", "zero"]),
    ]
    path = write_ir(tmp_path, layers, ["y"])
    assert gp.convert(path, tmp_path / "model", format="nnef").passed
    layers[0] = parameter("x", "1,3", "i64")
    layers[5] = Layer("y", "opset1.Less", {"auto_broadcast": "numpy"}, ["ones", "x"])
    report = gp.convert(write_ir(tmp_path, layers, ["y"]), tmp_path / "other", format="nnef")
    assert report.passed
    assert [finding.code for finding in report.findings] == ["NNEF0776"]
