"""Quantized models beside OpenVINO: a sum in the middle of two steps may round to either, and nothing else passes."""

from __future__ import annotations

import numpy as np

import graphport as gp
from graphport.passes.substitution import add_constant
from tests.quantization import nets


def _written(tmp_path, words, change):
    """A quantized net as ONNX, and as IR with the scales of activations in some words changed."""
    found = nets.residual()
    made = gp.quantize(found, nets.samples(found, 32), "openvino", preset="fast")
    gp.save(made, tmp_path / "a.onnx")
    again = gp.load(tmp_path / "a.onnx")
    for each in [each for each in again.graph if each.op in words and not each.operands[0].is_constant]:
        scale = np.asarray(each.operands[1].storage.numpy() * np.float32(change))
        each.set_input(1, add_constant(again.graph, scale, "other_scale"))
    gp.save(again, tmp_path / "b.xml")
    return tmp_path / "a.onnx", tmp_path / "b.xml"


def test_values_that_round_to_another_step_pass(tmp_path):
    a, b = _written(tmp_path, ("QuantizeLinear", "DequantizeLinear"), 1 + 3e-4)
    proof = gp.verify(a, b, nets.samples(nets.residual(), 64, seed=5))
    assert proof.passed
    # It would not, were each number held against its like.
    assert proof.outputs[0].worst.snr_db < 90
    assert "adds floats in another order" in " ".join(proof.notes)


def test_a_scale_that_is_a_little_wrong_does_not_pass(tmp_path):
    a, b = _written(tmp_path, ("DequantizeLinear",), 1.03)
    assert not gp.verify(a, b, nets.samples(nets.residual(), 64, seed=5)).passed
