"""NonZero and Unique of OpenVINO, in types that ONNX Runtime does not take."""

import numpy as np

import graphport as gp
from tests.at_once import at_once
from tests.formats.openvino.documents import NAMES, Layer, parameter, write_ir
from tests.ops.openvino_oracle import check_word


@at_once("dtype", ["int8", "uint8", "float16", "bool"])
def test_places_of_what_is_not_zero(dtype):
    check_word("opset3.NonZero", [np.array([[0, 1, 0], [1, 0, 1]], dtype)])


def test_the_place_of_a_number_is_that_in_a_vector():
    check_word("opset3.NonZero", [np.array(3, np.float32)])


@at_once("dtype", ["int32", "uint8", "int64", "float32"])
def test_each_number_once(dtype):
    check_word("opset10.Unique", [np.array([3, 1, 3, 2, 1], dtype)], outputs=4)


@at_once(("op_type", "dtype", "outputs"), [("opset3.NonZero", "int8", 1), ("opset10.Unique", "int32", 4)])
def test_onnx_runtime_computes_it(op_type, dtype, outputs, tmp_path):
    names = [f"y:{port}" for port in range(outputs)]
    layers = [parameter("x", "5", NAMES[dtype]), Layer("y", op_type, {}, ["x"], outputs)]
    model = gp.load(write_ir(tmp_path, layers, names if outputs > 1 else ["y"]))
    x = {"x": np.array([3, 0, 3, 2, 0], dtype)}
    found, expected = (gp.run(model, x, backend=backend) for backend in ("onnxruntime", "reference"))
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
