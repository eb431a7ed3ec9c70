"""A Concat loses its operands of extent 0 on the way to another format."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
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
