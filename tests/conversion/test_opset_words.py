"""ONNX operators that its native runtime does not support are exported differently."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import graphport as gp
from tests.passes.cases import info, model, node, some


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "dilations"), [((3, 3), (2, 2)), ((2, 3), (3, 1)), ((3, 3), (1, 1))])
def test_padding_next_to_dilation_is_stated(auto_pad, kernel, dilations, tmp_path):
    conv = node("Conv", "x w", "y", auto_pad=auto_pad, dilations=dilations)
    proto = model([conv], [info("x", ["N", 3, "H", "W"])], [info("y", None)], {"w": some(4, 3, *kernel)})
    read = gp.from_onnx(proto)
    (found,) = read.graph
    assert ("auto_pad" in found.attributes) is (set(dilations) == {1})
    x = some(2, 3, 7, 6)
    before = gp.run(read, {"x": x}, backend="reference")["y"]
    assert before.shape == (2, 4, 7, 6)
    gp.save(read, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], before, rtol=1e-4, atol=1e-5)


def test_padding_that_a_dynamic_dim_decides_stays():
    conv = node("Conv", "x w", "y", auto_pad="SAME_UPPER", dilations=[2, 2], strides=[2, 2])
    proto = model([conv], [info("x", [1, 3, "H", 8])], [info("y", None)], {"w": some(4, 3, 3, 3)})
    (found,) = gp.from_onnx(proto).graph
    assert found.attributes["auto_pad"] == "SAME_UPPER"
