"""Small parts of an output are compared relative to their own magnitude."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.proof.slices import worst_slice
from tests.models import write_onnx
from tests.passes.cases import info, model, node


def head(path, factor=1.0, offset=0.0):
    """A detector: coordinates of 640, and scores of 1 beside them."""
    random = np.random.default_rng(3)
    nodes = [
        node("MatMul", "x boxes", "b"),
        node("MatMul", "x scores", "l"),
        node("Sigmoid", "l", "s"),
        node("Mul", "s factor", "t"),
        node("Add", "b offset", "c"),
        node("Concat", "c t", "y", axis=-1),
    ]
    constants = {
        "boxes": random.normal(size=(16, 4)).astype(np.float32) * 640,
        "scores": random.normal(size=(16, 20)).astype(np.float32),
        "factor": np.float32(factor),
        "offset": np.float32(offset),
    }
    return write_onnx(path, model(nodes, [info("x", [1, 50, 16])], [info("y", None)], constants))


@pytest.mark.parametrize("factor", [0.94, 1.02, 0.997])
def test_parts_of_a_concat_are_compared_separately(tmp_path, factor):
    proof = gp.verify(head(tmp_path / "a.onnx"), head(tmp_path / "b.onnx", factor))
    assert proof.failed
    assert "in part 1 of the Concat (axis 2)" in proof.sentence


def test_equal_heads_pass(tmp_path):
    # The comparison of segments, which has no effort here, finds the offset for coordinates near 0.
    equal = head(tmp_path / "b.onnx", 1 + 1e-6, 1e-5)
    assert gp.verify(head(tmp_path / "a.onnx"), equal, effort=0).passed


@pytest.mark.parametrize(
    ("scale", "difference", "differs"),
    [
        pytest.param(1.0, 1e-2, True, id="a channel that differs"),
        pytest.param(1.0, 1e-4, False, id="a channel within its tolerance"),
        pytest.param(1e-7, 1e-7, False, id="what is left of large values that cancel"),
        pytest.param(1e-3, 1e-4, True, id="a small channel that differs"),
    ],
)
def test_each_channel_has_its_tolerance(scale, difference, differs):
    a = np.random.default_rng(0).uniform(0.5, 1, size=(2, 8, 9)).astype(np.float32)
    a[:, 3] *= scale
    b = a.copy()
    b[:, 3] += difference
    assert (worst_slice(a, b, None, None) is not None) is differs


def test_values_that_are_not_finite_are_compared_with_the_whole_tensor():
    a = np.full((2, 3), np.inf, np.float32)
    assert worst_slice(a, a.copy(), None, None) is None
