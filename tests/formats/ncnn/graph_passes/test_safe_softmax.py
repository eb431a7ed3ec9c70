"""A softmax that is 0 in rows that a mask removes, in ncnn."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.models import model, node

ROWS = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]], np.float32)
S = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def attention(form, *, axis=-1):
    """A masked softmax as PyTorch exports `scaled_dot_product_attention`, in an older and a newer version."""
    constants = {"half": np.float32(0.5), "low": np.float32(-np.inf), "zero": np.float32(0), "last": np.array([axis])}
    nodes = [
        node("Greater", ["m", "half"], ["rows"]),
        node("Where", ["rows", "zero", "low"], ["w"]),
        node("Add", ["s", "w"], ["a"]),
        node("Softmax", ["a"], ["p"], axis=axis),
    ]
    if form == "IsNaN":
        nodes.append(node("IsNaN", ["p"], ["e"]))
    else:
        nodes += [node("ReduceMax", ["a", "last"], ["t"], keepdims=1), node("Equal", ["t", "low"], ["e"])]
    nodes.append(node("Where", ["e", "zero", "p"], ["y"]))
    return gp.from_onnx(model(nodes, [("s", [3, 4]), ("m", [3, 4])], [("y", [3, 4])], constants, opset=18))


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("form", ["Equal", "IsNaN"])
def test_rows_without_a_score_are_zero(form, axis):
    rows = ROWS if axis else np.roll(ROWS[:, :3], 1, 0) @ np.eye(3, 4, dtype=np.float32)
    found = gp.run(attention(form, axis=axis), {"s": S, "m": rows}, backend="ncnn")["y"]
    powers = np.exp(S) * rows
    np.testing.assert_allclose(found, powers / np.maximum(powers.sum(axis, keepdims=True), 1e-30), atol=1e-6)


def test_other_choices_stay_as_they_are():
    constants = {"zero": np.float32(0)}
    nodes = [
        node("Softmax", ["s"], ["p"]),
        node("Less", ["s", "zero"], ["e"]),
        node("Where", ["e", "zero", "p"], ["y"]),
    ]
    loaded = gp.from_onnx(model(nodes, [("s", [3, 4])], [("y", [3, 4])], constants, opset=18))
    powers = np.exp(S)
    expected = np.where(S < 0, 0, powers / powers.sum(-1, keepdims=True))
    np.testing.assert_allclose(gp.run(loaded, {"s": S}, backend="ncnn")["y"], expected, atol=1e-6)
