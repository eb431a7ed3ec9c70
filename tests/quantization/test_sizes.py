"""Symbolic dims have the sizes of the samples: peak memory does not depend on the symbols of a file."""

from __future__ import annotations

import numpy as np

import graphport as gp
from graphport.quantization import quantize as whole
from graphport.quantization.layerwise import bytes_per_sample
from graphport.quantization.samples import gather
from graphport.quantization.sizes import bound, bytes_by_name, first_run
from tests.models import model, node


def _net(side):
    r = np.random.default_rng(0)
    constants = {
        "w": r.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "v": r.normal(size=(4, 8, 1, 1)).astype(np.float32),
    }
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1] * 4, name="first"),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "v"], ["y"], name="second"),
    ]
    return gp.from_onnx(model(nodes, [("x", ["N", 3, *side])], [("y", None)], constants))


def _pictures(count, side):
    return {"x": np.random.default_rng(1).normal(size=(count, 3, side, side)).astype(np.float32)}


def test_free_extents_are_those_of_the_samples():
    free, known = _net(["H", "W"]).graph, _net([20, 20]).graph
    samples = gather(free, _pictures(2, 20))
    assert bytes_per_sample(bound(free, samples)) == bytes_per_sample(known)
    assert bytes_by_name(bound(free, samples))["a"] == 8 * 20 * 20 * 4
    assert bound(known, gather(known, _pictures(2, 20))) is known
    assert bytes_per_sample(free) < bytes_per_sample(known) / 100


def test_no_more_samples_are_followed_than_fit(monkeypatch):
    counts = []
    followed = whole._followed
    monkeypatch.setattr(whole, "_followed", lambda *given: counts.append(followed(*given)) or counts[-1])
    for side in (["H", "W"], [32, 32]):
        gp.quantize(_net(side), _pictures(24, 32), memory=1 << 20)
    assert counts[0] == counts[1] < 12


def test_first_run_size_is_limited_by_memory():
    net = _net(["H", "W"]).graph
    assert len(first_run(net, _pictures(20, 8))["x"]) == 16
    assert len(first_run(net, _pictures(3, 8))["x"]) == 3
    assert len(first_run(net, _pictures(2, 900))["x"]) == 1
    assert len(first_run(net, _pictures(5, 300))["x"]) == 5
