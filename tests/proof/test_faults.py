"""Files that crash a runtime are reported by the writer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import graphport as gp
from tests.models import model, node


def _net(perm, dtype, *, is_constant=True):
    shape = [2, 3, 4, 5][: len(perm)]
    inner = shape[perm[-1]]
    nodes = [node("Transpose", ["x"], ["t"], perm=list(perm)), node("MatMul", ["t", "w"], ["y"])]
    weight = np.ones((inner, 6), dtype)
    inputs = [("x", shape)] if is_constant else [("x", shape), ("w", list(weight.shape))]
    made = model(nodes, inputs, [("y", [None] * len(perm))], {"w": weight} if is_constant else {})
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = kind
    return made


def _codes(made, tmp_path):
    onnx.save(made, tmp_path / "net.onnx")
    return [each.code for each in gp.convert(tmp_path / "net.onnx", tmp_path / "again.onnx", verify=False).findings]


@pytest.mark.parametrize("perm", [(1, 0, 2), (1, 2, 0), (1, 2, 0, 3)])
def test_a_file_that_ends_onnx_runtime_is_reported(perm, tmp_path):
    """ONNX Runtime 1.31.1 crashes with a signal on each of these."""
    assert "ONNX0611" in _codes(_net(perm, np.float16), tmp_path)


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 0, 1), (2, 1, 0), (1, 0, 2, 3), (2, 0, 1, 3)])
def test_others_are_not(perm, tmp_path):
    assert "ONNX0611" not in _codes(_net(perm, np.float16), tmp_path)


def test_neither_are_single_precision_and_products_of_two_inputs(tmp_path):
    assert "ONNX0611" not in _codes(_net((1, 0, 2), np.float32), tmp_path)
    assert "ONNX0611" not in _codes(_net((1, 0, 2), np.float16, is_constant=False), tmp_path)


def test_a_cast_leaves_such_nodes_in_single_precision(tmp_path):
    onnx.save(_net((1, 0, 2), np.float32), tmp_path / "net.onnx")
    made = gp.cast(gp.load(tmp_path / "net.onnx"), "float16")
    gp.save(made, tmp_path / "half.onnx")
    assert "ONNX0611" not in _codes(onnx.load(tmp_path / "half.onnx"), tmp_path)


SLICED = """version 1.0;
{}
graph network( x ) -> ( y )
{{
    x = external<scalar>(shape = [7, 3]);
    y = slice(x, axes = [0, 1], begin = [{}, 1], end = [0, 0]);
}}
"""


@pytest.mark.parametrize("begin", [0, 1])
def test_nnef_slice_end_0_means_end_of_axis(tmp_path, begin):
    (tmp_path / "net.nnef").write_text(SLICED.format("", begin))
    proof = gp.convert(tmp_path / "net.nnef", tmp_path / "net.onnx").proof
    assert proof is not None
    assert proof.passed, proof
    assert any(each.runtime == "tract" and each.ran for each in proof.witnesses) is (begin > 0)
    read = gp.load(tmp_path / "net.onnx")
    assert gp.run(read, {"x": np.zeros((7, 3), np.float32)})["y"].shape == (7 - begin, 2)


@pytest.mark.parametrize("begin", [0, 1])
def test_tract_slice_end_0_follows_tract(tmp_path, begin):
    (tmp_path / "net.nnef").write_text(SLICED.format("extension tract_registry tract_core;", begin))
    found = gp.run(gp.load(tmp_path / "net.nnef"), {"x": np.zeros((7, 3), np.float32)})["y"]
    assert found.shape == (0 if begin == 0 else 6, 2)
    proof = gp.verify(tmp_path / "net.nnef", tmp_path / "net.nnef")
    assert not proof.failed
    assert any(each.runtime == "tract" and each.ran for each in proof.witnesses)
