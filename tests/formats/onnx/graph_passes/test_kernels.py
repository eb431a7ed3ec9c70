"""Integers that ONNX Runtime has no kernel for are written so that it computes them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_empty_tensor_value_info, make_tensor_value_info, np_dtype_to_tensor_dtype

import graphport as gp
from tests.models import model, node, write_onnx

RNG = np.random.default_rng(5)
TABLE = json.loads(files("graphport.formats.onnx.graph_passes").joinpath("kernels.json").read_text("utf-8"))
IS_TABLE_OF_RUNTIME = TABLE["onnxruntime"].split(".")[:2] == onnxruntime.__version__.split(".")[:2]
"""Whether the table of kernels is of the installed version; later versions have more kernels."""
CASES = [
    pytest.param("Where", ["c", "x", "y"], {}, ["int16", "uint16", "bool"], id="where"),
    pytest.param("Max", ["x", "y", "x"], {}, ["int16", "uint16"], id="max"),
    pytest.param("Min", ["x", "y"], {}, ["int16", "uint16"], id="min"),
    pytest.param("Clip", ["x", "low"], {}, ["int16", "uint16"], id="clip"),
    pytest.param("Pad", ["x", "pads", "low"], {}, ["int16", "uint16"], id="pad"),
    pytest.param("ArgMax", ["x"], {"axis": 1}, ["int16", "uint16", "uint32"], id="argmax"),
    pytest.param("NonZero", ["x"], {}, ["int8", "int16", "uint16", "uint32"], id="nonzero"),
    pytest.param("Trilu", ["x"], {}, ["int8", "uint8", "int16", "uint32"], id="trilu"),
    pytest.param("BitShift", ["x", "x"], {"direction": "LEFT"}, ["uint16"], id="shift"),
    pytest.param("Relu", ["x"], {}, ["int16"], id="relu"),
]


def numbers(name: str) -> Any:
    dtype = np.dtype(name)
    if dtype.kind == "b":
        return RNG.random((3, 4)) < 0.5
    info = np.iinfo(dtype)
    drawn = RNG.integers(info.min, info.max, (3, 4), dtype, endpoint=True)
    drawn[0, :3] = info.min, info.max, 0
    return drawn


def ran(path: Any, given: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"]).run(None, given)[0]


@pytest.mark.parametrize(("op", "operands", "attributes", "names"), CASES)
def test_operators_without_kernel_are_computed_by_equivalents(tmp_path, op, operands, attributes, names):
    for name in names:
        given = {"x": numbers(name), "y": numbers(name), "c": RNG.random((3, 4)) < 0.5}
        given = {each: array for each, array in given.items() if each in operands}
        known = {"low": np.array(1, name), "pads": np.array([1, 0, 2, 1])}
        inputs = [make_tensor_value_info(k, np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in given.items()]
        proto = model(
            [node(op, operands, ["z"], **attributes)],
            inputs,
            [make_empty_tensor_value_info("z")],
            {each: array for each, array in known.items() if each in operands},
            opset=20,
        )
        path = write_onnx(tmp_path / f"{name}.onnx", proto)
        if IS_TABLE_OF_RUNTIME:
            with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented):
                ran(path, given)
        read = gp.load(path)
        expected = gp.run(read, given, backend="reference")["z"]
        gp.save(read, tmp_path / f"{name}.written.onnx")
        found = ran(tmp_path / f"{name}.written.onnx", given)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected), (name, found, expected)


def test_operators_with_a_kernel_are_unchanged(tmp_path):
    for name in ("int8", "int32", "int64", "uint32", "float32"):
        dtype = np_dtype_to_tensor_dtype(np.dtype(name))
        inputs = [make_tensor_value_info("c", onnx.TensorProto.BOOL, [3]), make_tensor_value_info("x", dtype, [3])]
        proto = model([node("Where", ["c", "x", "x"], ["y"])], inputs, [make_empty_tensor_value_info("y")])
        gp.save(gp.load(write_onnx(tmp_path / "net.onnx", proto)), tmp_path / "written.onnx")
        assert [each.op_type for each in onnx.load(tmp_path / "written.onnx").graph.node] == ["Where"]


def test_dtypes_without_a_wider_one_are_unchanged(tmp_path):
    # Of as many bits with a sign the largest number would be -1.
    inputs = [make_tensor_value_info("x", onnx.TensorProto.UINT64, [3])]
    proto = model([node("ArgMax", ["x"], ["y"])], inputs, [make_empty_tensor_value_info("y")])
    gp.save(gp.load(write_onnx(tmp_path / "net.onnx", proto)), tmp_path / "written.onnx")
    assert [each.op_type for each in onnx.load(tmp_path / "written.onnx").graph.node] == ["ArgMax"]


def test_reals_stay_reals(tmp_path):
    for dtype in (onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE):
        inputs = [make_tensor_value_info("x", dtype, [3])]
        proto = model([node("Relu", ["x"], ["y"])], inputs, [make_empty_tensor_value_info("y")])
        gp.save(gp.load(write_onnx(tmp_path / "net.onnx", proto)), tmp_path / "written.onnx")
        assert [each.op_type for each in onnx.load(tmp_path / "written.onnx").graph.node] == ["Relu"]


def test_the_table_is_that_of_the_runtime_that_proofs_ask():
    version = tuple(map(int, TABLE["onnxruntime"].split(".")[:2]))
    assert version <= tuple(map(int, onnxruntime.__version__.split(".")[:2])), (
        "write it anew with tools/onnxruntime_kernels.py"
    )
