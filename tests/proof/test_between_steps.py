"""A value halfway between two integers may round either way; a wrong value may not."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.comparison.metrics import difference
from graphport.passes.substitution import add_constant
from graphport.proof import quantization_ties
from graphport.proof.side import Side
from graphport.proof.test_inputs import TestInput
from tests.models import model, node
from tests.quantization import nets

pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(8, 400)).astype(np.float32)
WEIGHT = RANDOM.normal(size=(400, 32)).astype(np.float32)
ORDERS = range(400), range(399, -1, -1)


def saved(path, order, scale=None, factor=1.0):
    """Sums that are added up in some order, and rounded if there is a scale."""
    nodes = [node("Gather", ["x", "order"], ["t"], axis=1), node("MatMul", ["t", "w"], ["s" if scale else "y"])]
    constants = {"order": np.array(order), "w": (WEIGHT * np.float32(factor))[order]}
    if scale:
        nodes += [node("QuantizeLinear", ["s", "step", "zero"], ["q"])]
        nodes += [node("DequantizeLinear", ["q", "step", "zero"], ["y"])]
        constants |= {"step": np.float32(scale), "zero": np.int8(0)}
    gp.save(gp.from_onnx(model(nodes, [("x", ["N", 400])], [("y", None)], constants)), path)
    return path


@pytest.fixture
def scale(tmp_path):
    """Return a scale with which a sum is close to halfway between two integers, on a side that depends on the order."""
    made = [saved(tmp_path / f"real{number}.onnx", order) for number, order in enumerate(ORDERS)]
    one, two = (gp.run(gp.load(each), {"x": X})["y"] for each in made)
    place = np.unravel_index(np.argmax(np.abs(one - two) * (np.abs(one) > 15)), one.shape)
    return abs(float(one[place]) + float(two[place])) / 2 / 40.5


def test_a_sum_in_the_middle_passes(tmp_path, scale):
    a, b = (saved(tmp_path / f"{number}.onnx", order, scale) for number, order in enumerate(ORDERS))
    proof = gp.verify(a, b, {"x": X})
    assert proof.outputs[0].worst.max_abs == pytest.approx(scale, rel=1e-4)
    assert proof.passed
    assert "halfway between two integers" in " ".join(proof.notes)


@pytest.mark.parametrize("factor", [1 + 1e-3, 1.01, -1])
def test_a_wrong_weight_does_not_pass(tmp_path, scale, factor):
    a = saved(tmp_path / "a.onnx", ORDERS[0], scale)
    b = saved(tmp_path / "b.onnx", ORDERS[1], scale, factor)
    assert not gp.verify(a, b, {"x": X}).passed


def test_a_scale_that_is_a_little_wrong_does_not_pass(tmp_path):
    found = nets.residual()
    made = gp.quantize(found, nets.samples(found, 32), preset="fast")
    gp.save(made, tmp_path / "a.onnx")
    again = gp.load(tmp_path / "a.onnx")
    for each in [each for each in again.graph if not each.operands[0].is_constant]:
        if each.op in ("QuantizeLinear", "DequantizeLinear"):
            moved = np.asarray(each.operands[1].storage.numpy() * np.float32(1 + 3e-4))
            each.set_input(1, add_constant(again.graph, moved, "other_scale"))
    gp.save(again, tmp_path / "b.onnx")
    proof = gp.verify(tmp_path / "a.onnx", tmp_path / "b.onnx", nets.samples(found, 64, seed=5))
    assert proof.outputs[0].worst.snr_db > 40
    assert not proof.passed


def test_rounding_ties_explain_only_elements_at_ties(tmp_path):
    x = np.array([[7.5, 3.2, 100.0]], np.float32)
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    constants = {"s": np.float32(1), "z": np.int8(0)}
    graph = gp.from_onnx(model(nodes, [("x", [1, 3])], [("y", None)], constants)).graph
    side, draw = Side("a", "a", graph), TestInput("given", 0, {}, {"x": x})
    before = np.array([[8.0, 3.0, 100.0]], np.float32)

    def explained(*after):
        return quantization_ties.rounding_ties(side, draw, [difference("y", before, np.array([after], np.float32))])

    assert explained(7, 3, 100) == {0}
    assert explained(8, 3, 103) == frozenset()  # three steps, while one value may differ by one
    assert explained(-8, 3, 100) == frozenset()
    assert explained(8, 3, 100) == frozenset()


def test_rounding_ties_explain_more_if_other_test_inputs_agree():
    x = np.array([[7.5, 3.2, 30.0]], np.float32)
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    constants = {"s": np.float32(1), "z": np.int8(0)}
    graph = gp.from_onnx(model(nodes, [("x", [1, 3])], [("y", None)], constants)).graph
    side, draw = Side("a", "a", graph), TestInput("normal", 0, {}, {"x": x})
    before = np.array([[8.0, 3.0, 30.0]], np.float32)

    def explained(*after, close=frozenset({0})):
        return quantization_ties.rounding_ties(
            side, draw, [difference("y", before, np.array([after], np.float32))], close
        )

    assert explained(7, 3, 30) == {0}
    assert explained(7, 3, 30, close=frozenset()) == frozenset()
    assert explained(8, 3, 33) == frozenset()
    assert explained(6, 1, 30) == frozenset()  # less than 25 dB


def residues(path, scale=1.0, worth=1.0):
    """Write a model of the rounding errors of many elements, with modified scales."""
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "t", "z"], ["r"])]
    nodes += [node("Sub", ["x", "r"], ["y"])]
    constants = {"s": np.float32(0.04 * scale), "t": np.float32(0.04 * worth), "z": np.int8(0)}
    gp.save(gp.from_onnx(model(nodes, [("x", ["N", 20_000])], [("y", None)], constants)), path)
    return path


def test_amplified_rounding_steps_pass_if_another_test_input_agrees(tmp_path):
    a, b = residues(tmp_path / "a.onnx"), residues(tmp_path / "b.onnx", 1 + 2e-6)
    proof = gp.verify(a, b)
    assert proof.passed
    assert 25 < proof.outputs[0].worst.snr_db < 40
    assert "halfway between two integers" in " ".join(proof.notes)


def test_small_difference_on_every_test_input_is_no_tie(tmp_path):
    a, b = residues(tmp_path / "a.onnx"), residues(tmp_path / "b.onnx", 1, 1 + 2e-4)
    proof = gp.verify(a, b)
    assert 25 < proof.outputs[0].worst.snr_db < 40
    assert not proof.passed
