"""Layers with few products stay in floating point if that lowers the noise."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import graphport as gp
from graphport.core.storage import ArrayStorage
from graphport.quantization import float_fallback, session
from graphport.quantization.float_fallback import REASON, cheap_layers, fallback_share
from graphport.quantization.insert_qdq import Quantization
from graphport.quantization.observe import Statistics
from graphport.quantization.parameters import activation_qparams
from graphport.quantization.placement import decide_placement, products
from graphport.quantization.settings import Settings
from graphport.quantization.targets import target
from tests.models import model, node
from tests.quantization import nets

ORT = target("onnxruntime")


@pytest.fixture(autouse=True)
def nothing_is_slower_on_integers(monkeypatch):
    """Disable the selection by speed, which precedes that by noise and has separate tests."""
    monkeypatch.setattr(session, "fastest_float_nodes", lambda *_: ())


def _narrow_first():
    """A convolution of one channel, which has a 260th of all products, and two of more."""
    r = np.random.default_rng(0)
    shapes = {"w1": (4, 1, 3, 3), "w2": (32, 4, 3, 3), "w3": (32, 32, 3, 3)}
    constants = {
        name: (r.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32) for name, shape in shapes.items()
    }
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="first"),
        node("Relu", ["a"], ["ar"], name="first_relu"),
        node("Conv", ["ar", "w2"], ["b"], pads=[1, 1, 1, 1], name="second"),
        node("Relu", ["b"], ["br"], name="second_relu"),
        node("Conv", ["br", "w3"], ["y"], pads=[1, 1, 1, 1], name="third"),
    ]
    return gp.from_onnx(model(nodes, [("x", ["N", 1, 8, 8])], [("y", ["N", 32, 8, 8])], constants))


def _samples(count=64, seed=0):
    """Numbers of which a few are far out: eight bits hold them badly."""
    x = np.random.default_rng(seed).standard_t(3, size=(count, 1, 8, 8))
    return {"x": np.clip(x, -12, 12).astype(np.float32)}


def _floating(**changes):
    report = gp.quantize(_narrow_first(), _samples(), equalize=False, **changes).report
    return {layer.name: layer.reasons for layer in report.floating}, report


@pytest.mark.parametrize("preset", ["balanced", "best"])
def test_cheap_layer_with_noisy_input_stays_float(preset):
    found, report = _floating(preset=preset)
    assert "first" in found
    assert any(REASON in reason for reason in found["first"])
    assert report.snr_db > _floating(preset=preset, cheap_layers=False)[1].snr_db + 1
    assert "third" not in found


def test_written_graph_contains_the_float_layer():
    quantized = gp.quantize(_narrow_first(), _samples())
    first = next(item for item in quantized.graph if item.name == "first")
    assert first.operands[0].is_input
    assert first.operands[1].producer is None
    inputs = _samples(64, seed=1)
    expected, given = gp.run(_narrow_first(), inputs), gp.run(quantized, inputs)
    assert nets.snr(expected["y"], given["y"]) == pytest.approx(quantized.report.snr_db, abs=3)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"preset": "fast"}, id="ranges alone"),
        pytest.param({"cheap_layers": False}, id="asked not to"),
        pytest.param({"max_float_layers": 0}, id="none may"),
        pytest.param({"quantize_nodes": ("first", "second")}, id="asked to be quantized"),
        pytest.param({"min_snr": 5.0}, id="a goal that is reached without"),
        pytest.param({"dispatch": "all-in"}, id="everything is asked to be"),
        pytest.param({"target": "nnef"}, id="who reads it may have integers only"),
    ],
)
def test_float_fallback_is_disabled_by_settings(changes):
    assert _floating(**changes)[0] == {}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"preset": "fast"}, 0.0), ({}, 0.05), ({"preset": "best"}, 0.2),
        ({"preset": "fast", "cheap_layers": True}, 0.05), ({"min_snr": 30.0}, 0.0),
        ({"min_snr": 30.0, "cheap_layers": True}, 0.05), ({"target": "nnef", "cheap_layers": True}, 0.05),
    ],
)  # fmt: skip
def test_the_part_of_products(changes, part):
    settings = Settings().updated(**changes)
    assert fallback_share(settings, target(settings.target)) == part


def _quantization(found, noise):
    """Return statistics and qparams whose wide ranges give the requested noise, in the order of the qparams."""
    graph = found.graph
    placement = decide_placement(graph, ORT, set(graph))
    quantization, states = Quantization(placement), {}
    for index, value in enumerate(placement.roots):
        x = np.random.default_rng(index).uniform(-1, 1, 2000).astype(np.float32)
        state = Statistics()
        state.add(x[None], samples=1)
        states[value] = state
        quantization.all_qparams[value] = activation_qparams(
            -noise[index % 3], noise[index % 3], ORT.activation, is_symmetric=False
        )
    return quantization, states


@pytest.mark.parametrize("noise", [(9.0, 1.0, 1.0), (1.0, 9.0, 1.0), (1.0, 1.0, 1.0), (2.0, 9.0, 4.0)])
@pytest.mark.parametrize("part", [0.002, 0.01, 0.12, 0.2])
def test_those_are_chosen_that_cost_the_most_for_each_product(noise, part):
    """No feasible set is better by more than the cost of its most expensive layer, the bound of greedy selection."""
    found = _narrow_first()
    quantization, states = _quantization(found, noise)
    placement, graph = quantization.placement, found.graph
    counts = {item: products(layer) for item, layer in placement.layers.items()}

    def placed(*nodes):
        return decide_placement(graph, ORT, set(graph), nodes)

    def gain(nodes):
        left = placed(*nodes).points
        return sum(_noise(quantization, states, value) for value in placement.points if value not in left)

    chosen = cheap_layers(quantization, states, part, placed)
    most = part * sum(counts.values())
    assert sum(counts[item] for item in chosen) <= most
    fitting = [
        nodes
        for size in range(len(counts) + 1)
        for nodes in combinations(counts, size)
        if sum(counts[item] for item in nodes) <= most
    ]
    assert gain(chosen) >= max(map(gain, fitting)) - max(gain([item]) for item in counts)
    assert all(gain([item]) > 0 for item in chosen)
    ranks = [gain([item]) / counts[item] for item in chosen]
    assert ranks == sorted(ranks, reverse=True)
    left_out = [item for item in counts if item not in chosen and gain([item]) > 0]
    assert all(sum(counts[other] for other in [*chosen, item]) > most for item in left_out)


@pytest.mark.parametrize(("wide", "order"), [(4.0, ["small", "large"]), (2.0, ["large", "small"])])
def test_float_fallback_compares_noise_per_product(wide, order):
    """Eight times the products are worth it for more than eight times the noise only."""
    r = np.random.default_rng(0)
    shapes = {"w1": (2, 1, 3, 3), "w2": (8, 2, 3, 3), "w3": (64, 8, 3, 3), "w4": (64, 2, 3, 3)}
    nodes = [
        node("Conv", ["x1", "w1"], ["a"], pads=[1] * 4, name="small"),
        node("Conv", ["x2", "w2"], ["b"], pads=[1] * 4, name="large"),
        node("Conv", ["b", "w3"], ["c"], pads=[1] * 4, name="third"),
        node("Conv", ["a", "w4"], ["d"], pads=[1] * 4, name="fourth"),
        node("Add", ["c", "d"], ["y"]),
    ]
    weights = {name: r.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    inputs = [("x1", ["N", 1, 8, 8]), ("x2", ["N", 2, 8, 8])]
    found = gp.from_onnx(model(nodes, inputs, [("y", ["N", 64, 8, 8])], weights))
    quantization, states = _quantization(found, (1.0, 1.0, 1.0))
    for value, bound in zip(found.graph.inputs, (wide, 9.0), strict=True):
        quantization.all_qparams[value] = activation_qparams(-bound, bound, ORT.activation, is_symmetric=False)

    def placed(*floating):
        return decide_placement(found.graph, ORT, set(found.graph), floating)

    assert [item.name for item in cheap_layers(quantization, states, 0.1, placed)] == order


def _noise(quantization, states, value):
    qparams, histogram = quantization.all_qparams[value], states[value].histogram
    used = np.flatnonzero(histogram.counts)
    error = np.sum(histogram.counts[used] * (qparams.nearest(histogram.centers[used]) - histogram.centers[used]) ** 2)
    return error / states[value].squares


def test_shared_qparams_survive_the_fallback_of_the_first_value():
    """Concat on integers of ncnn, OpenVINO and others: the value that decided for all may be that of a real layer."""
    r = np.random.default_rng(0)
    constants = {"w1": r.normal(size=(2, 1, 1, 1)).astype(np.float32), "w2": r.normal(size=(16, 1, 3, 3)).astype(np.float32),
                 "w3": r.normal(size=(16, 18, 3, 3)).astype(np.float32) / 9}  # fmt: skip
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="first"),
        node("Conv", ["x", "w2"], ["b"], pads=[1, 1, 1, 1], name="second"),
        node("Concat", ["a", "b"], ["c"], axis=1),
        node("Conv", ["c", "w3"], ["y"], pads=[1, 1, 1, 1], name="third"),
    ]
    found = gp.from_onnx(model(nodes, [("x", ["N", 1, 8, 8])], [("y", ["N", 16, 8, 8])], constants))
    for name in ("onnxruntime", "openvino", "tensorrt"):
        quantized = gp.quantize(found, _samples(), name, cheap_layers=True, preset="best")
        third = next(item for item in quantized.graph if item.name == "third")
        assert third.operands[0].producer.op in ("QuantizeLinear", "DequantizeLinear")
        assert nets.snr(gp.run(found, _samples(8, 3))["y"], gp.run(quantized, _samples(8, 3))["y"]) > 20


def test_no_more_layers_are_placed_anew_than_stated(monkeypatch):
    quantization, states = _quantization(_narrow_first(), (9.0, 1.0, 1.0))
    tried = []

    def placed(item):
        tried.append(item)
        return quantization.placement

    cheap_layers(quantization, states, 1.0, placed)
    assert len(tried) == len(quantization.placement.layers) == 3
    tried.clear()
    monkeypatch.setattr(float_fallback, "_MAX_TRIED_LAYERS", 1)
    cheap_layers(quantization, states, 1.0, placed)
    assert [item.name for item in tried] == ["first"]


def test_float_fallback_without_gain_is_reverted(monkeypatch):
    def worse(self, best):
        found = float_fallback.with_float_layers(self, best, ["a"], REASON)
        all_qparams = {
            value: activation_qparams(-300.0, 300.0, ORT.activation, is_symmetric=False)
            for value in found.quantization.all_qparams
        }
        found.quantization.all_qparams = all_qparams
        return found

    monkeypatch.setattr(session.QuantizationSession, "cheaper", worse)
    report = gp.quantize(_narrow_first(), _samples(), equalize=False).report
    assert report.snr_db >= next(step.snr_db for step in report.steps if step.name == "calibrate")
    assert "first" not in {layer.name for layer in report.floating}


@pytest.mark.parametrize(("factor", "runs_of_all"), [(50.0, 1), (1.0, 2)])
def test_worse_equalization_is_not_calibrated_on_all_samples(factor, runs_of_all, monkeypatch):
    observed = []
    observe = session.QuantizationSession.observe

    def heard(self, graph, statistics=None, runs=None):
        observed.append(runs is None)
        return observe(self, graph, statistics, runs)

    def scaled(graph, states, strength):
        first = next(item for item in graph if item.name == "first")
        first.inputs[1].storage = ArrayStorage(first.inputs[1].storage.numpy() * np.float32(factor))
        return True

    monkeypatch.setattr(session.QuantizationSession, "observe", heard)
    monkeypatch.setattr(session, "equalize", scaled)
    gp.quantize(_narrow_first(), _samples(256), cheap_layers=False)
    assert observed.count(True) == runs_of_all
    assert observed.count(False) == 2
