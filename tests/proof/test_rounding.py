"""Models that multiply the rounding of large numbers: they are held at smaller ones, where a fault shows."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.comparison.metrics import difference
from graphport.proof.rounding import explained, nudged
from graphport.proof.test_inputs import TestInput
from tests.models import model, node

pytest.importorskip("onnxruntime")

SHAPE = (3, 40)
WEIGHT = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)


def saved(path, order, factor=1.0):
    """The sine of sums that are added up in some order."""
    nodes = [
        node("Gather", ["x", "order"], ["t"], axis=1),
        node("MatMul", ["t", "w"], ["s"]),
        node("Sin", ["s"], ["y"]),
    ]
    weight = (WEIGHT * np.float32(factor))[order]
    constants = {"order": np.array(order), "w": weight}
    gp.save(gp.from_onnx(model(nodes, [("x", list(SHAPE))], [("y", None)], constants)), path)
    return path


def test_large_numbers_that_are_rounded_otherwise_are_no_fault(tmp_path):
    a, b = saved(tmp_path / "a.onnx", range(40)), saved(tmp_path / "b.onnx", range(39, -1, -1))
    proof = gp.verify(a, b)
    assert proof.passed
    assert any("rounded differently" in note for note in proof.notes)
    assert {draw.kind for draw in proof.draws} == {"normal", "edges", "integers"}


@pytest.mark.parametrize("factor", [1 + 1e-4, 1.01, 1.5, -1])
def test_wrong_factor_in_a_reordered_model_fails(tmp_path, factor):
    a, b = saved(tmp_path / "a.onnx", range(40)), saved(tmp_path / "b.onnx", range(39, -1, -1), factor)
    assert not gp.verify(a, b).passed


def test_nudged_moves_floats_by_one_ulp():
    x, places = np.array([0.0, 1.0, -1e3], np.float32), np.array([1, 2])
    moved = nudged(TestInput("edges", 0, {}, {"x": x, "at": places}))
    assert moved is not None
    assert moved.arrays["at"] is places
    steps = np.abs(moved.arrays["x"].view(np.int32).astype(np.int64) - x.view(np.int32))
    assert steps[1:].tolist() == [1, 1]
    assert moved.arrays["x"][0] != 0
    assert nudged(TestInput("edges", 0, {}, {"at": places})) is None


def test_differences_up_to_8_times_the_perturbation_are_explained():
    before = np.array([1.0, 2.0])
    change = before + np.array([0.0, 0.125])
    seen = [difference("y", before, before + gap) for gap in (1.0, 1.0 + 1e-9)]
    assert explained(seen, [before] * 2, [change] * 2) == {0}
    assert explained(seen[:1], [before], [before]) == frozenset()
    assert explained([difference("y", before, before.astype(np.float32))], [before], [change]) == frozenset()
    assert explained(seen[:1], [before], [before + np.inf]) == frozenset()
