"""Which models compute each sample of a batch independently, and the test inputs that their proofs leave out."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.api.verify import side
from graphport.proof import independent_samples
from graphport.proof.independent_samples import has_independent_samples
from tests.models import write_onnx
from tests.passes.cases import info, model, node, some

CONSTANTS = {
    "w": some(4, 4, 3, 3),
    "m": some(64, 5),
    "s": np.array([0, -1], np.int64),
    "t": np.array([4, -1], np.int64),
    "i": np.array([0], np.int64),
    "one": np.array([1], np.int64),
    "z": some(4, 1),
}


def graph_of(nodes, tmp_path, shape=("N", 4, 4, 4)):
    path = write_onnx(tmp_path / "a.onnx", model(nodes, [info("x", list(shape))], [info("y", None)], CONSTANTS))
    return side("a", gp.load(path)).graph


CONV = [node("Conv", "x w", "h", pads=[1, 1, 1, 1]), node("Relu", "h", "r")]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param([*CONV, node("Flatten", "r", "f"), node("MatMul", "f m", "y")], True, id="convolutions"),
        pytest.param([*CONV, node("Reshape", "r s", "f"), node("Softmax", "f", "y")], True, id="reshape, softmax"),
        pytest.param([node("Softmax", "x", "y", axis=0)], False, id="softmax along the batch"),
        pytest.param([node("ReduceMax", "x", "y", axes=[0])], False, id="reduction along the batch"),
        pytest.param([node("Reshape", "x t", "f"), node("Add", "f z", "y")], False, id="batch in another axis"),
        pytest.param([node("Slice", "x i one i", "y")], False, id="slice of the batch"),
        pytest.param([node("Shape", "x", "n"), node("Cast", "n", "c", to=1), node("ReduceMax", "c", "d"),
                      node("Add", "x d", "y")], False, id="size as a value"),
        pytest.param([node("Transpose", "x", "y", perm=[1, 0, 2, 3])], False, id="transposed batch"),
    ],
)  # fmt: skip
def test_samples_are_independent_if_no_node_combines_them(nodes, expected, tmp_path):
    assert has_independent_samples(graph_of(nodes, tmp_path)) is expected


def test_models_without_a_batch_or_with_other_open_dims_have_none(tmp_path):
    assert not has_independent_samples(graph_of([node("Relu", "x", "y")], tmp_path, (2, 4)))
    assert not has_independent_samples(graph_of([node("Relu", "x", "y")], tmp_path, ("N", "L")))


def test_values_and_sizes_of_heavy_models_are_not_combined(tmp_path, monkeypatch):
    nodes = [*CONV, node("Identity", "r", "y")]
    path = write_onnx(tmp_path / "a.onnx", model(nodes, [info("x", ["N", 4, 4, 4])], [info("y", None)], CONSTANTS))
    gp.convert(path, tmp_path / "a.xml", verify=False)
    usual = gp.verify(path, tmp_path / "a.xml")
    monkeypatch.setattr(independent_samples, "MIN_MACS", 1)
    heavy = gp.verify(path, tmp_path / "a.xml")
    inputs = {run.input for run in heavy.runs}
    assert inputs == {"normal (N=1)", "edges (N=1)", "integers (N=1)", "normal (N=3)"}
    assert inputs < {run.input for run in usual.runs}
    assert heavy.verdict == usual.verdict == "verified"
