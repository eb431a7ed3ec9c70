"""Recurrent states: recognized by names and shapes, calibrated over steps, and kept in float if errors grow."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.states import pair_states
from tests.models import model, node

WIDTH, INPUTS, OUTPUTS, COUNT = 64, 32, 8, 40


def recurrent(gain: float, names: tuple[str, str] = ("h", "hn")) -> gp.Model:
    """hn = tanh(x w + gain h u), y = hn v, with eigenvalues of u up to about 1: errors grow from a gain of 1 on."""
    r = np.random.default_rng(2)
    before, after = names
    constants = {
        "w": r.normal(size=(INPUTS, WIDTH)) / 8,
        "u": gain * r.normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH),
        "v": r.normal(size=(WIDTH, OUTPUTS)) / 5,
    }
    constants = {name: x.astype(np.float32) for name, x in constants.items()}
    nodes = [
        node("MatMul", ["x", "w"], ["a"], name="in"),
        node("MatMul", [before, "u"], ["b"], name="step"),
        node("Add", ["a", "b"], ["c"]),
        node("Tanh", ["c"], [after]),
        node("MatMul", [after, "v"], ["y"], name="read"),
    ]
    inputs = [("x", ["N", INPUTS]), (before, ["N", WIDTH])]
    return gp.from_onnx(model(nodes, inputs, [("y", ["N", OUTPUTS]), (after, ["N", WIDTH])], constants))


def samples(state: str = "h") -> dict[str, np.ndarray]:
    x = np.random.default_rng(5).normal(size=(COUNT, INPUTS)).astype(np.float32)
    return {"x": x, state: np.zeros((COUNT, WIDTH), np.float32)}


def rolled_out(source: gp.Model, made: gp.Model, steps: int = 20) -> float:
    """SNR in dB of y if each model reads the states that it has computed."""
    signal = noise = 0.0
    states = [np.zeros((1, WIDTH), np.float32)] * 2
    for x in samples()["x"][:steps]:
        first, second = (gp.run(each, {"x": x[None], "h": h}) for each, h in zip((source, made), states, strict=True))
        signal += float(np.sum(first["y"] ** 2))
        noise += float(np.sum((first["y"] - second["y"]) ** 2))
        states = [first["hn"], second["hn"]]
    return 10 * np.log10(signal / noise)


@pytest.mark.parametrize(
    "names",
    [("h", "hn"), ("h_in", "h_out"), ("hidden", "hidden_out"), ("past.0.state", "present.0.state"), ("state", "z")],
)
def test_states_are_paired_by_name_or_by_the_only_shape(names: tuple[str, str]) -> None:
    pairs = pair_states(recurrent(0.5, names).graph, [names[0]])
    assert {before.name: after.name for before, after in pairs.items()} == {names[0]: names[1]}


def test_outputs_of_another_shape_or_with_rivals_are_no_states() -> None:
    nodes = [node("Add", ["a", "b"], ["p"]), node("Mul", ["a", "b"], ["q"])]
    shapes = [("a", [2, 3]), ("b", [2, 3])]
    assert pair_states(gp.from_onnx(model(nodes, shapes, [("p", [2, 3]), ("q", [2, 3])])).graph) == {}


def test_an_image_of_the_same_size_is_no_state() -> None:
    graph = gp.from_onnx(
        model([node("Relu", ["x"], ["x_out"])], [("x", [1, 3, 8, 8])], [("x_out", [1, 3, 8, 8])])
    ).graph
    assert pair_states(graph, ["x"]) == {}
    assert pair_states(recurrent(0.5, ("state", "z")).graph) == {}, "not without zeros in the samples"


def test_zero_states_are_calibrated_with_rolled_out_states() -> None:
    found = gp.quantize(recurrent(0.5), samples(), preset="fast")
    assert "QUANT0032" in {finding.code for finding in found.report.findings}
    assert 25 < rolled_out(recurrent(0.5), found) < 100


def test_recorded_states_are_used_unchanged() -> None:
    recorded = samples() | {"h": np.random.default_rng(1).normal(size=(COUNT, WIDTH)).astype(np.float32)}
    found = gp.quantize(recurrent(0.5), recorded, preset="fast")
    assert "QUANT0032" not in {finding.code for finding in found.report.findings}


def test_layers_before_an_unstable_state_stay_float() -> None:
    source = recurrent(2.5)
    found = gp.quantize(source, samples(), preset="fast")
    assert "QUANT0034" in {finding.code for finding in found.report.findings}
    assert rolled_out(source, found) > 25
    reasons = {layer.name: layer.reasons for layer in found.report.floating}
    assert all("state whose errors accumulate" in reasons[name][0] for name in ("in", "step"))


@pytest.mark.parametrize("gain", [0.5, 0.9, 1.2])
def test_the_reported_figure_is_that_of_iterations_with_the_states_fed_back(gain: float) -> None:
    source = recurrent(gain)
    found = gp.quantize(source, samples(), preset="fast")
    assert found.report.iterations
    assert found.report.snr_db == pytest.approx(rolled_out(source, found), abs=6)
