"""Rotary embeddings, fused into ONNX Runtime's operator."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.rotary_embeddings import with_rotations
from tests.models import model, node


def _turned(*, swapped=False, last="Add", lengths=(5, 5)):
    """Return y = x with rotary embeddings; operands of sums and products in any order."""
    r = np.random.default_rng(0)
    angles = r.normal(size=(lengths[1], 3))
    constants = {"c": np.cos(angles).astype(np.float32), "s": np.sin(angles).astype(np.float32)}
    pairs = [("a", "c"), ("b", "s"), ("b", "c"), ("a", "s")]
    products = [node("Mul", [q, p] if swapped else [p, q], [p + q]) for p, q in pairs]
    nodes = [
        node("Split", ["x"], ["a", "b"], axis=-1, num_outputs=2), *products,
        node("Sub", ["ac", "bs"], ["low"]), node(last, ["as", "bc"] if swapped else ["bc", "as"], ["high"]),
        node("Concat", ["low", "high"], ["y"], axis=-1),
    ]  # fmt: skip
    shape = ["N", 2, lengths[0], 6]
    return gp.from_onnx(model(nodes, [("x", shape)], [("y", shape)], constants, opset=18))


@pytest.mark.parametrize("swapped", [False, True])
def test_float16_rotation_becomes_one_rotaryembedding(swapped):
    found = _turned(swapped=swapped)
    twin = with_rotations(found.graph)
    assert [each.op for each in twin] == ["com.microsoft.RotaryEmbedding"]
    assert len(found.graph) == 8
    x = {"x": np.random.default_rng(1).normal(size=(3, 2, 5, 6)).astype(np.float32)}
    made = gp.from_onnx(gp.to_onnx(gp.Model(twin)))
    np.testing.assert_allclose(gp.run(made, x)["y"], gp.run(found, x)["y"], atol=1e-6)
    np.testing.assert_allclose(gp.run(made, x, backend="reference")["y"], gp.run(found, x)["y"], atol=1e-6)


@pytest.mark.parametrize("other", [{"last": "Sub"}, {"lengths": (5, 1)}])
def test_other_rotations_are_kept(other):
    graph = _turned(**other).graph
    assert with_rotations(graph) is graph
