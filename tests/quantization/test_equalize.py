"""Equalization keeps the function, and makes channels alike."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.ir import rewrite
from graphport.quantization.equalize import are_channels_unlike, channel_axes, divide, equalize, regions, scales
from graphport.quantization.layer import layer_of
from graphport.quantization.observe import Statistics
from graphport.quantization.session import QuantizationSession
from tests.models import model, node
from tests.quantization import nets


def _seen(found, inputs):
    values = [value for value in found.graph.values() if value.producer is not None]
    axes = channel_axes(found.graph, values)
    states = {}
    for name, x in gp.run(found, inputs, every_value=True).items():
        value = next(value for value in values if value.name == name)
        states[name] = Statistics(axes[value])
        states[name].add(x, samples=len(x))
    return states


def _equalized(found, strength, count=24):
    inputs = nets.samples(found, count)
    twin = gp.Model(rewrite.copy(found.graph))
    number = equalize(twin.graph, _seen(found, inputs), strength)
    return twin, number, inputs


NETS = {
    "residual": nets.residual,
    "relu6 and depthwise": lambda: nets.depthwise(imbalance=3),
    "relu and depthwise": lambda: nets.depthwise(imbalance=3, activation="Relu"),
    "products": nets.products,
}


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", list(NETS))
def test_the_function_stays(name, strength):
    found = NETS[name]()
    twin, number, inputs = _equalized(found, strength)
    assert number > 0
    expected, given = gp.run(found, inputs)["y"], gp.run(twin, inputs)["y"]
    assert np.abs(expected - given).max() <= 2e-5 * np.abs(expected).max()


def test_equalization_balances_channel_ranges():
    found = nets.depthwise(imbalance=5, activation="Relu")
    twin, _, inputs = _equalized(found, 1.0)

    def unlike(which):
        magnitudes = np.abs(gp.run(which, inputs, every_value=True)["dr"]).max(axis=(0, 2, 3))
        return magnitudes.max() / np.median(magnitudes)

    assert unlike(found) > 8
    assert unlike(twin) < 1.1


def test_equalization_below_a_clip_only_enlarges_channels():
    found = nets.depthwise(imbalance=3)
    twin, _, inputs = _equalized(found, 1.0)
    before = gp.run(found, inputs, every_value=True)["dr"].max(axis=(0, 2, 3))
    after = gp.run(twin, inputs, every_value=True)["dr"].max(axis=(0, 2, 3))
    assert np.all(after >= before * (1 - 1e-5))
    assert after.max() <= 6.0001


def test_values_of_a_sum_are_divided_together():
    found = nets.residual()
    region = next(region for region in regions(found.graph) if any(value.name == "s" for value in region.values))
    assert {"ar", "c", "s", "sr", "m"} <= {value.name for value in region.values}
    assert {maker.name for maker in region.makers} == {"first", "second"}
    assert {layer.name for layer in region.readers} == {"second", "head"}


@pytest.mark.parametrize("extra", [
    pytest.param([node("Sigmoid", ["r"], ["z"])], id="somebody reads it through a curve"),
    pytest.param([node("Identity", ["r"], ["z"])], id="it is an output"),
    pytest.param([node("Transpose", ["r"], ["z"], perm=[0, 2, 3, 1])], id="its axes change"),
])  # fmt: skip
def test_values_with_other_consumers_are_not_equalized(extra):
    r = np.random.default_rng(0)
    constants = {"w": r.normal(size=(4, 4, 1, 1)).astype(np.float32)}
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("Conv", ["r", "w"], ["y"]), *extra]
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 3, 3])], [("y", None), ("z", None)], constants))
    assert regions(found.graph) == []


@pytest.mark.parametrize("op_type", ["Sigmoid", "HardSwish", "Tanh", "Exp"])
def test_a_curve_in_between_ends_a_region(op_type):
    r = np.random.default_rng(0)
    constants = {"w": r.normal(size=(4, 4, 1, 1)).astype(np.float32)}
    nodes = [node("Conv", ["x", "w"], ["a"]), node(op_type, ["a"], ["r"]), node("Conv", ["r", "w"], ["y"])]
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 3, 3])], [("y", None)], constants))
    assert regions(found.graph) == []


def test_equalization_copies_a_shared_weight():
    r = np.random.default_rng(3)
    constants = {"w": (r.normal(size=(4, 4, 1, 1)) * 2.0 ** r.uniform(-3, 3, (4, 1, 1, 1))).astype(np.float32)}
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("Conv", ["r", "w"], ["y"])]
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 3, 3])], [("y", ["N", 4, 3, 3])], constants))
    twin, number, inputs = _equalized(found, 0.5)
    assert number == 1
    assert np.allclose(gp.run(found, inputs)["y"], gp.run(twin, inputs)["y"], rtol=1e-4, atol=1e-5)


def test_grouped_convolutions_are_scaled_channel_by_channel():
    r = np.random.default_rng(0)
    constants = {
        "w": r.normal(size=(6, 4, 1, 1)).astype(np.float32),
        "g": r.normal(size=(4, 3, 3, 3)).astype(np.float32),
    }
    nodes = [node("Conv", ["x", "w"], ["a"]), node("LeakyRelu", ["a"], ["r"]), node("Conv", ["r", "g"], ["y"], group=2)]
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 5, 5])], [("y", None)], constants))
    (region,) = regions(found.graph)
    inputs = nets.samples(found)
    expected = gp.run(found, inputs)["y"]
    divide(found.graph, region, np.asarray([0.5, 2, 4, 8, 1, 0.25], np.float32))
    assert np.allclose(gp.run(found, inputs)["y"], expected, rtol=1e-4, atol=1e-5)


def test_equalization_scales_prelu_slopes_and_added_constants():
    r = np.random.default_rng(0)
    constants = {
        "w": r.normal(size=(4, 4, 1, 1)).astype(np.float32), "s": r.normal(size=(4, 1, 1)).astype(np.float32),
        "c": r.normal(size=(1, 4, 1, 1)).astype(np.float32),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w"], ["a"]), node("PRelu", ["a", "s"], ["p"]), node("Add", ["p", "c"], ["r"]),
        node("Conv", ["r", "w"], ["y"]),
    ]  # fmt: skip
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 3, 3])], [("y", None)], constants))
    (region,) = regions(found.graph)
    inputs = nets.samples(found)
    expected = gp.run(found, inputs)["y"]
    divide(found.graph, region, np.asarray([0.5, 2, 4, 8], np.float32))
    assert np.allclose(gp.run(found, inputs)["y"], expected, rtol=1e-4, atol=1e-5)


def test_unobserved_channels_are_not_equalized():
    found = nets.depthwise(activation="Relu")
    inputs = nets.samples(found)
    states = _seen(found, inputs)
    for state in states.values():
        if state.axis == 1 and state.lows.size == 16:
            state.lows[3] = state.highs[3] = 0
    (first, *_) = regions(found.graph)
    s = scales(first, {value: states[value.name] for value in first.values}, 1.0)
    assert s[3] == 1.0


@pytest.mark.parametrize("strength", [0.0, 0.3, 0.5, 1.0])
def test_scales_after_a_normalization_are_those_of_the_formula(strength):
    """SmoothQuant: `a / p ** (1 - strength)`, with the part `p` that a channel has in a row of weights times `a`."""
    found = nets.products()
    states = _seen(found, nets.samples(found, 24))
    by_value = {value: states[value.name] for value in found.graph.values() if value.name in states}
    region = next(one for one in regions(found.graph) if any(value.name == "n" for value in one.values))
    given = scales(region, by_value, strength)
    seen = np.abs(gp.run(found, nets.samples(found, 24), every_value=True)["n"]).max(axis=(0, 1)).astype(np.float64)
    a = seen / seen.max()
    rows = np.concatenate(
        [np.abs(layer.float_weight().T if layer.out_axis else layer.float_weight()) for layer in region.readers]
    )
    part = (rows * a / (rows * a).max(axis=1, keepdims=True)).max(axis=0)
    expected = a / part ** (1 - strength)
    assert np.allclose(given / given[0], expected / expected[0], rtol=1e-4)


@pytest.mark.parametrize(("imbalance", "are_unlike"), [(0, False), (0.3, False), (4, True), (6, True)])
def test_unequal_channels_are_detected_from_weights(imbalance, are_unlike):
    found = nets.depthwise(imbalance=imbalance, activation="Relu")
    assert are_channels_unlike(layer for node in found.graph if (layer := layer_of(node))) is are_unlike


@pytest.mark.parametrize(("imbalance", "passes"), [(0, 1), (6, 1)])
def test_calibration_observes_all_samples_once(imbalance, passes, monkeypatch):
    """Also where channels are balanced: few samples decide whether, and a third of them how."""
    found = nets.depthwise(imbalance=imbalance, activation="Relu")
    observe, whole = QuantizationSession.observe, []

    def heard(self, graph, statistics=None, runs=None):
        whole.append(runs is None)
        return observe(self, graph, statistics, runs)

    monkeypatch.setattr(QuantizationSession, "observe", heard)
    data = nets.samples(found, 96)
    made = gp.quantize(found, data, preset="fast")
    assert sum(whole) == passes
    assert len(whole) == (passes if not imbalance else 4)
    plain = gp.quantize(found, data, preset="fast", equalize=False)
    assert not imbalance or made.report.snr_db > plain.report.snr_db + 6
