"""The examples of the documents of Reshape-1 and Range-4, their XML completed: constant and at run time."""

import numpy as np
import pytest

import graphport as gp
from tests.every import every
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir

BACKENDS = ["onnxruntime", "reference"]
RESHAPES = [
    pytest.param((2, 5, 5, 0), (0, 4), "false", (0, 4), id="example 1: an empty tensor"),
    pytest.param(
        (2, 5, 5, 24), (0, -1, 4), "true", (2, 150, 4), id="example 2: first kept, second computed, third fixed"
    ),
    pytest.param(
        (2, 2, 3), (0, 0, 1, -1), "true", (2, 2, 1, 3), id="example 3: two kept, third fixed, fourth computed"
    ),
    pytest.param((3, 1, 1), (-1, 0), "true", (3, 1), id="example 4: first computed, second kept"),
    pytest.param((3, 1, 1), (0, -1), "true", (3, 1), id="example 5: first kept, second computed"),
]
RANGES = [
    pytest.param((2, 23, 3), "i32", [2, 5, 8, 11, 14, 17, 20], id="example 1: a positive step"),
    pytest.param((23, 2, 3), "i32", [], id="example 2 as it is printed: nothing lies that way"),
    pytest.param((23, 2, -3), "i32", [23, 20, 17, 14, 11, 8, 5], id="example 2 as it is meant: a negative step"),
    pytest.param((1, 2.5, 0.5), "f32", [1.0, 1.5, 2.0], id="example 3: floating point"),
]


@every("backend", BACKENDS)
@every("is_constant", [True, False], ids=["constant", "run time"])
@every(("shape", "pattern", "special_zero", "expected"), RESHAPES)
def test_reshape(shape, pattern, special_zero, expected, is_constant, backend, tmp_path):
    asked = constant("shape", pattern, "int64") if is_constant else parameter("shape", str(len(pattern)), "i64")
    layers = [
        parameter("data", ",".join(map(str, shape))),
        asked,
        Layer("y", "opset1.Reshape", {"special_zero": special_zero}, ["data", "shape"]),
    ]
    model = gp.load(write_ir(tmp_path, layers, ["y"]))
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    inputs = {"data": data} if is_constant else {"data": data, "shape": np.array(pattern, np.int64)}
    found = gp.run(model, inputs, backend=backend)["y"]
    np.testing.assert_array_equal(found, data.reshape(expected))
    if is_constant:
        assert model.outputs["y"].fact.shape == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "run time"])
@pytest.mark.parametrize(("numbers", "output_type", "expected"), RANGES)
def test_range(numbers, output_type, expected, is_constant, backend, tmp_path):
    dtype = {"i32": "int32", "f32": "float32"}[output_type]
    roles = ("start", "stop", "step")
    made = [
        constant(role, number, dtype) if is_constant else parameter(role, "", output_type)
        for role, number in zip(roles, numbers, strict=True)
    ]
    model = gp.load(write_ir(tmp_path, [*made, Layer("y", "opset4.Range", {"output_type": output_type}, roles)], ["y"]))
    inputs = {} if is_constant else {role: np.array(n, dtype) for role, n in zip(roles, numbers, strict=True)}
    found = gp.run(model, inputs, backend=backend)["y"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array(expected, dtype))
    if is_constant:
        assert model.outputs["y"].fact.shape == (len(expected),)
