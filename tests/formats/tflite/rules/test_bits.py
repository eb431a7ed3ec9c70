"""What LiteRT has no kernel to move is moved by its bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.helper import make_empty_tensor_value_info, make_tensor_value_info

import graphport as gp
from tests.models import model, node, typed, write_onnx

TYPES = ["DOUBLE", "UINT16", "UINT32", "UINT64"]
NODES = [
    pytest.param(node("Concat", ["x", "x", "known"], ["y"], axis=0), id="concat"),
    pytest.param(node("Pad", ["x", "pads"], ["y"]), id="pad"),
    pytest.param(node("Pad", ["x", "pads", "number"], ["y"]), id="pad with a number"),
    pytest.param(node("Pad", ["x", "pads"], ["y"], mode="edge"), id="repeat the border"),
    pytest.param(node("Pad", ["x", "pads"], ["y"], mode="reflect"), id="reflect"),
]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("moved", NODES)
def test_numbers_of_any_type_are_moved(tmp_path, name, moved):
    dtype = getattr(onnx.TensorProto, name)
    own = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    known = {
        "known": np.arange(8).reshape(2, 4).astype(own),
        "pads": np.array([1, 0, 0, 2]),
        "number": np.array(7, own),
    }
    used = {each: array for each, array in known.items() if each in moved.input}
    inputs = [make_tensor_value_info("x", dtype, [3, 4])]
    proto = model([moved], inputs, [make_empty_tensor_value_info("y")], used)
    proof = gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.tflite").proof
    assert proof is not None
    assert proof.passed, proof
    assert any(witness.runtime == "litert" and witness.ran for witness in proof.witnesses), proof.notes


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_what_is_padded_by_what_is_given_later_is_written(tmp_path, mode):
    """No shape is known of it, and nothing has to be."""
    inputs = [typed("x", [1, 2, 4]), typed("pads", [6], onnx.TensorProto.INT64)]
    proto = model([node("Pad", ["x", "pads"], ["y"], mode=mode)], inputs, [typed("y", ["a", "b", "c"])])
    gp.save(gp.from_onnx(proto), tmp_path / "net.tflite")
    again = gp.load(tmp_path / "net.tflite")
    given = dict(zip(again.inputs, [np.ones((1, 2, 4), np.float32), np.array([0, 0, 1, 0, 0, 2])], strict=True))
    assert next(iter(gp.run(again, given).values())).shape == (1, 2, 7)
