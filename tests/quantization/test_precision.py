"""The fewest layers in floating point with which a goal is met, against trying every set of layers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.engine import Noise
from tests.draws import spread
from tests.models import model, node
from tests.quantization import nets

NAMES = ("one", "two", "three", "four")


def _chain(seed):
    """Four convolutions with Relu between; weights with outliers, so that some round much worse than others."""
    r = np.random.default_rng(seed)
    widths, constants, nodes = (3, 8, 8, 8, 4), {}, []
    for index, name in enumerate(NAMES):
        w = r.standard_t(1 + index % 2 * 6, size=(widths[index + 1], widths[index], 3, 3))
        constants[f"w{index}"] = (w / np.sqrt(np.mean(w**2) * w[0].size)).astype(np.float32)
        made = f"h{index}" if index < 3 else "y"
        nodes.append(
            node("Conv", [nodes[-1].output[0] if nodes else "x", f"w{index}"], [made], pads=[1] * 4, name=name)
        )
        if index < 3:
            nodes.append(node("Relu", [made], [f"r{index}"], name=f"relu{index}"))
    return gp.from_onnx(model(nodes, [("x", ["N", 3, 8, 8])], [("y", ["N", 4, 8, 8])], constants))


@pytest.mark.parametrize("seed", spread(range(3)))
def test_no_smaller_set_of_layers_reaches_the_goal(seed):
    found = _chain(seed)
    inputs = nets.samples(found, 16, seed)
    settings = {"preset": "fast", "cheap_layers": False}
    reached = {(): gp.quantize(found, inputs, **settings).report.snr_db}
    for size in (1, 2, 3):
        for names in combinations(NAMES, size):
            reached[names] = gp.quantize(found, inputs, float_nodes=names, **settings).report.snr_db
    best = [max(snr for names, snr in reached.items() if len(names) == size) for size in range(4)]
    for size in (1, 2, 3):
        goal = best[size] - 0.01
        fewest = min(len(names) for names, snr in reached.items() if snr >= goal)
        report = gp.quantize(found, inputs, min_snr=goal, **settings).report
        assert report.snr_db >= goal
        assert len(report.floating) == fewest


def test_layer_input_noise_excludes_float_layers(monkeypatch):
    monkeypatch.setattr(Noise, "margin", property(lambda _: 0.0))
    found = _chain(1)
    inputs = nets.samples(found, 32, 1)
    before = gp.quantize(found, inputs, cheap_layers=False).report.explain("two")
    after = gp.quantize(found, inputs, min_snr=33, cheap_layers=False).report.explain("two")
    assert after.own_db == pytest.approx(before.own_db)
    assert after.means == before.means
    assert after.accumulated_db > before.accumulated_db + 3


def test_snr_goal_includes_the_margin_for_other_samples(monkeypatch):
    """Few samples are held back: where they show the goal by chance alone, more layers stay real."""
    found = _chain(1)
    inputs = nets.samples(found, 32, 1)
    loose = gp.quantize(found, inputs, preset="fast", cheap_layers=False).report
    monkeypatch.setattr(Noise, "margin", property(lambda _: 3.0))
    goal = loose.snr_db - 1
    report = gp.quantize(found, inputs, preset="fast", min_snr=goal).report
    assert report.snr_db >= goal + 3
    assert len(report.floating) > len(loose.floating)
    # Where no set of layers has that margin, it is told, and what is written is the nearest.
    monkeypatch.setattr(Noise, "margin", property(lambda _: 300.0))
    report = gp.quantize(found, inputs, preset="fast", min_snr=goal).report
    assert len(report.floating) == len(NAMES) - 1
    assert not report.passed
    assert f"the goal of {goal:g} dB is uncertain" in report.findings[-1].message


def test_fewer_float_layers_are_kept_if_more_increase_the_margin(monkeypatch):
    """All but one layer real have the most signal, and may have 200 dB less on other samples: fewer meet the goal."""
    found = _chain(0)
    inputs = nets.samples(found, 16, 0)
    most = gp.quantize(found, inputs, preset="fast", min_snr=140).report
    assert len(most.floating) == len(NAMES) - 1
    monkeypatch.setattr(Noise, "margin", property(lambda noise: 200.0 * (noise.snr > most.snr_db - 1e-3)))
    alone = gp.quantize(found, inputs, preset="fast").report.snr_db
    report = gp.quantize(found, inputs, preset="fast", min_snr=alone + 0.5).report
    assert report.goal_met
    assert len(report.floating) < len(NAMES) - 1
