"""Joining models: the whole computes the second of what the first gives."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.core.diagnostics import DiagnosticError
from graphport.ir.verify import verify
from tests.ir.test_subgraph import looped
from tests.models import model, node, perceptron, write_onnx


def merged(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(cli, ["merge", *map(str, arguments), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def computed(path, **inputs) -> list[Any]:
    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@pytest.fixture
def files(tmp_path):
    """A perceptron, and what weighs its classes with another input of three numbers."""
    weigh = model([node("Mul", ["x", "w"], ["y"])], [("x", ["M", 3]), ("w", [3])], [("y", ["M", 3])])
    return write_onnx(tmp_path / "a.onnx", perceptron()), write_onnx(tmp_path / "b.onnx", weigh)


def test_merged_model_computes_both_models_in_sequence(files, tmp_path):
    document = merged(*files, tmp_path / "c.onnx", "--connect", "a.y=b.x")
    assert (list(document["inputs"]), list(document["outputs"])) == (["x", "w"], ["y"])
    assert document["verify"]["passed"]
    x, w = np.ones((2, 4), np.float32), np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(computed(tmp_path / "c.onnx", x=x, w=w)[0], computed(files[0], x=x)[0] * w, rtol=1e-6)


def test_inner_values_can_be_connected(files):
    a, b = map(gp.load, files)
    found = gp.merge(a, b, {"scores": "x"})
    verify(found.graph)
    assert list(found.outputs) == ["y", "y_1"]


def test_merge_connects_single_output_and_input(files):
    a = gp.load(files[0])
    back = gp.from_onnx(model([node("Neg", ["p"], ["n"])], [("p", ["N", 3])], [("n", ["N", 3])]))
    found = gp.merge(a, back)
    assert (list(found.inputs), list(found.outputs)) == (["x"], ["n"])


def test_bodies_are_copied_with_captured_values():
    loop = gp.from_onnx(looped())
    found = gp.merge(loop, loop, {"y": "x"})
    verify(found.graph)
    x = np.array([1, -1], np.float32)
    once = gp.run(loop, {"x": x})["y"]
    np.testing.assert_array_equal(gp.run(found, {"x": x}).ordered[0], gp.run(loop, {"x": once})["y"])


@pytest.mark.parametrize(
    ("connect", "code"),
    [
        pytest.param({"x": "x"}, "EDIT0013", id="other shapes"),
        pytest.param({"z": "x"}, "EDIT0001", id="no such output"),
        pytest.param({"y": "z"}, "EDIT0001", id="no such input"),
    ],
)
def test_incompatible_connection_is_rejected(files, connect, code):
    a, b = map(gp.load, files)
    with pytest.raises(DiagnosticError) as caught:
        gp.merge(a, b, connect)
    assert [finding.code for finding in caught.value.diagnostics] == [code]


def test_merge_without_a_unique_connection_is_rejected(files):
    a = gp.load(files[0])
    two = gp.from_onnx(model([node("Add", ["p", "q"], ["n"])], [("p", [3]), ("q", [3])], [("n", [3])]))
    with pytest.raises(DiagnosticError, match="EDIT0013"):
        gp.merge(a, two)
