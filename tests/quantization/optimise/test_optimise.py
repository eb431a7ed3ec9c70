"""The front of plans: measured, ordered, and the written model is the selected point."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.ir import rewrite
from graphport.quantization import session as quantization_session
from graphport.quantization.engine import session
from graphport.quantization.optimise import optimise, presets
from graphport.quantization.optimise.costs import Times, times_of
from tests.quantization import nets
from tests.quantization.test_float_fallback import _narrow_first, _samples


def _snr(found, made, count=400):
    x = nets.samples(found, count, seed=9)
    return nets.snr_of_variance(gp.run(found, x)["y"], session(made.graph).run(x)["y"])


@pytest.mark.parametrize("name", ["residual", "products"])
def test_front_points_do_not_dominate_each_other(name):
    found = getattr(nets, name)()
    made = gp.quantize(found, nets.samples(found, 96), front=True)
    front = made.report.front
    assert 2 <= len(front) <= 9
    assert [point.point for point in front] == list(range(1, len(front) + 1))
    times = [point.latency for point in front if point.latency is not None]
    assert len(times) == len(front)
    assert [point.snr_db for point in front] == sorted(point.snr_db for point in front)
    assert not any(a.snr_db > b.snr_db and a.latency < b.latency and a.bytes < b.bytes for a in front for b in front)
    assert made.report.chosen in front
    assert made.report.snr_db == pytest.approx(made.report.chosen.snr_db)
    # Rare samples beyond the calibrated range cause most of the noise of `products`.
    assert _snr(found, made) == pytest.approx(made.report.snr_db, abs=8)
    layers = sum(layer.is_quantized for layer in made.report.layers)
    assert sum(n for name, n in made.report.chosen.layers.items() if name != "float32") == layers > 0


def _timed(monkeypatch, times):
    """Let every candidate take a fixed time: the first of `times` is that of the source."""

    class Beside:
        milliseconds = 2.0

        def relative_time(self, graph):
            return times(graph)

    monkeypatch.setattr(optimise, "_relative_timer", lambda session, base: Beside())
    # Plans from kernel times measured on a busy machine would differ from run to run.
    monkeypatch.setattr(optimise, "times_of", lambda *_: None)


@pytest.mark.parametrize("name", ["depthwise", "denoiser"])
@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_no_preset_is_nearer_and_faster_than_the_knee(monkeypatch, name, preset):
    """With costs for each rounding, and for each float product after the first layer."""

    def time(graph):
        rounded = sum(node.op == "DequantizeLinear" and node.operands[0].is_constant for node in graph)
        real = sum(node.op == "Conv" for node in graph) - rounded
        return 0.3 + 0.01 * sum(node.op == "QuantizeLinear" for node in graph) + 0.05 * max(real - 1, 0)

    found = getattr(nets, name)(seed=1)
    x = nets.samples(found, 96)
    _timed(monkeypatch, time)
    alone, made = gp.quantize(found, x, preset=preset), gp.quantize(found, x, preset=preset, front=True)
    is_nearer = made.report.snr_db >= alone.report.snr_db - 0.05
    assert is_nearer or time(made.graph) < time(alone.graph)


def test_preset_selects_the_equalization_for_its_plan(monkeypatch):
    """Although the common plan has another balance and ranges that are too small here."""
    found = nets.denoiser()
    x = nets.samples(found, 64)
    alone = gp.quantize(found, x, equalize=False).report.snr_db
    seen = []

    def of_preset(session, base, asked):
        twin = rewrite.copy(session.unbalanced.graph)
        small = [({name: 0.3 * x for name, x in inputs.items()}, count) for inputs, count in session.followed]
        states = session.observe(twin, None, small)
        values = [value for node in twin for value in (*node.operands, *node.results) if value.name in states]
        ruined = replace(base, graph=twin, states={value: states[value.name] for value in values})
        (plan,) = presets.of_preset(session, ruined, asked)
        seen.append((plan.has_own, session.snr(plan.adjusted())))
        return [plan]

    monkeypatch.setattr(optimise, "of_preset", of_preset)
    _timed(monkeypatch, _share)
    gp.quantize(found, x, front=True)
    assert seen == [(True, pytest.approx(alone))]


@pytest.mark.parametrize("quick", [(), ("b",)])
def test_preset_plans_equal_a_separate_quantization(monkeypatch, quick):
    for module in (quantization_session, presets):
        monkeypatch.setattr(module, "fastest_float_nodes", lambda *_: quick)
    found, x = _narrow_first(), _samples()
    alone = gp.quantize(found, x).report
    seen = []

    def of_preset(session, base, asked):
        made = presets.of_preset(session, base, asked)
        adjusted = made[0].adjusted()
        seen.extend([session.snr(adjusted), {*adjusted.floating}, *({*each.candidate.floating} for each in made)])
        return made

    monkeypatch.setattr(optimise, "of_preset", of_preset)
    _timed(monkeypatch, _share)
    gp.quantize(found, x, front=True)
    plans = [{"a", *quick}, {*quick}] if quick else [{"a"}]
    assert seen == [pytest.approx(alone.snr_db), plans[0], *plans]
    assert len(alone.floating) == len(plans[0])


def test_fastest_preset_plan_has_separate_rounding(monkeypatch):
    for module in (quantization_session, presets):
        monkeypatch.setattr(module, "fastest_float_nodes", lambda *_: ("b",))
    found, x = _narrow_first(), _samples()
    alone = gp.quantize(found, x).report
    real = {layer.name for layer in alone.floating}

    def time(graph):
        convolutions = [node for node in graph if node.op == "Conv"]
        return 0.3 if {node.name for node in convolutions if node.operands[1].is_constant} == real else 0.9

    _timed(monkeypatch, time)
    assert gp.quantize(found, x, front=True).report.chosen.snr_db >= alone.snr_db - 1e-6


def _share(graph):
    rounded = sum(node.op == "DequantizeLinear" and node.operands[0].is_constant for node in graph)
    return 1.0 - 0.1 * rounded


def test_goals_are_met_or_the_nearest_point_is_reported(monkeypatch):
    _timed(monkeypatch, _share)
    found = nets.residual()
    samples = nets.samples(found, 64)
    near = gp.quantize(found, samples, min_snr=20, max_latency=5.0).report
    assert near.passed
    assert near.snr_db >= 20
    fast = gp.quantize(found, samples, max_latency="0.6x").report
    assert fast.passed
    assert fast.chosen.latency <= 0.6
    small = gp.quantize(found, samples, max_bytes=fast.chosen.bytes).report
    assert small.chosen.bytes <= fast.chosen.bytes
    missed = gp.quantize(found, samples, min_snr=200, max_latency="0.1ms").report
    assert not missed.passed
    assert missed.goal_met is False
    (finding,) = [finding for finding in missed.findings if finding.code == "QUANT0022"]
    assert f"{missed.chosen.snr_db:.2f} dB" in finding.message


def test_of_two_times_a_goal_counts_the_longer(monkeypatch):
    seen = set()

    def time(graph):
        known = tuple((node.op, node.name) for node in graph)
        part = _share(graph) / (2 if known in seen else 1)
        seen.add(known)
        return part

    _timed(monkeypatch, time)
    found = nets.products()
    chosen = gp.quantize(found, nets.samples(found, 64), max_latency=1.0, preset="fast").report.chosen
    rounded = sum(count for name, count in chosen.layers.items() if name != "float32")
    assert chosen.latency == pytest.approx(1.0 - 0.1 * rounded)


def test_every_front_point_is_reproducible(monkeypatch):
    _timed(monkeypatch, _share)
    found = nets.residual()
    samples = nets.samples(found, 64)
    front = gp.quantize(found, samples, front=True).report.front
    for point in (front[0], front[-1]):
        made = gp.quantize(found, samples, point=point.point)
        assert made.report.snr_db == pytest.approx(point.snr_db)
        assert len(gp.to_onnx(made).SerializeToString()) == pytest.approx(point.bytes, rel=0.01)
    with pytest.raises(gp.DiagnosticError, match="QUANT0025"):
        gp.quantize(found, samples, point=len(front) + 1)


def test_front_is_independent_of_the_selected_point(monkeypatch):
    """The default selection is a point of the front, although many points are omitted from it."""
    _timed(monkeypatch, _share)
    seen = []
    front = optimise.front
    monkeypatch.setattr(optimise, "front", lambda points, wanted: seen.append(wanted) or front(points, wanted=wanted))
    found = nets.residual()
    samples = nets.samples(found, 64)
    chosen = gp.quantize(found, samples, front=True).report.chosen
    gp.quantize(found, samples, point=2)
    assert [each.snr_db for each in seen] == [chosen.snr_db] * 2


def test_points_without_rounding_noise_are_reported(monkeypatch):
    """Though channels of a preset are balanced otherwise, so that its nodes are others."""
    _timed(monkeypatch, _share)
    r = np.random.default_rng(0)
    constants = {f"w{k}": (r.standard_normal((64, 64)) / 8 * (k != 1)).astype(np.float32) for k in range(3)}
    nodes = [nets.node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"], name=f"product{k}") for k in range(3)]
    found = gp.from_onnx(nets.model(nodes, [("x0", ["N", 64])], [("x3", ["N", 64])], constants))

    def of_preset(session, base, asked):
        graph = rewrite.copy(base.graph)
        other = session.candidate(graph, session.observe(graph))
        return [presets.PresetPlan(session, other, replace(other, follower=base.follower), has_own=True)] * 2

    monkeypatch.setattr(optimise, "of_preset", of_preset)
    x = {"x0": r.standard_normal((32, 64)).astype(np.float32)}
    front = gp.quantize(found, x, front=True).report.front
    for point in front:
        assert gp.quantize(found, x, point=point.point).report.chosen.snr_db == point.snr_db


def test_user_metric_is_a_goal(monkeypatch):
    _timed(monkeypatch, _share)
    found = nets.residual()
    x = nets.samples(found, 32, seed=4)
    expected = gp.run(found, x)["y"]

    def metric(run):
        return float(-np.abs(run(x)["y"] - expected).max())

    loose = gp.quantize(found, nets.samples(found, 64), metric=metric, min_metric=-10).report
    tight = gp.quantize(found, nets.samples(found, 64), metric=metric, min_metric=-1e-9).report
    assert loose.passed
    assert not tight.passed
    assert tight.chosen.metric == max(point.metric for point in tight.front if point.metric is not None)


def test_user_metric_is_evaluated_once_per_plan():
    found = nets.residual()
    x = nets.samples(found, 32, seed=4)
    seen = []

    def metric(run):
        seen.append(run(x)["y"].tobytes())
        return 0.0

    gp.quantize(found, nets.samples(found, 64), max_bytes=2500, metric=metric)
    # Plans with fewer bits follow in rounds; the first one is the base of all.
    assert len(seen) > 2
    assert seen.count(seen[0]) == 1


def test_a_latency_without_a_runtime_to_time_is_refused():
    found = nets.residual()
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0024.*nnef"):
        gp.quantize(found, nets.samples(found), "nnef", max_latency=0.5)


def test_slow_kernels_for_integers_are_omitted(monkeypatch):
    """Of two layers of equal noise that one is real whose kernel for integers takes longer."""
    found = nets.residual()

    def times_of(graph, inputs, names):
        is_real = not any(node.op == "QuantizeLinear" for node in graph)
        del inputs, names
        rounded = {"first": 10.0, "second": 50.0, "head": 10.0}
        return Times(dict.fromkeys(rounded, 30.0) if is_real else rounded)

    monkeypatch.setattr(optimise, "times_of", times_of)
    tried = []
    made_of = optimise.with_less_noise
    monkeypatch.setattr(optimise, "with_less_noise", lambda *given: tried.append(given[2]) or made_of(*given))
    gp.quantize(found, nets.samples(found), front=True)
    assert any("c" in names and "a" not in names for names in tried)


def test_the_command_prints_the_front(tmp_path):
    found = nets.residual()
    gp.save(found, tmp_path / "net.onnx")
    np.savez(tmp_path / "samples.npz", **nets.samples(found, 48))

    def run(*options):
        words = ["quantize", tmp_path / "net.onnx", tmp_path / "out.onnx", "--calibration", tmp_path / "samples.npz"]
        return CliRunner().invoke(cli, [str(op_type) for op_type in [*words, "--no-latency", *options]])

    document = json.loads(run("--json", "--max-latency", "100x").stdout)
    assert document["goal_met"] is True
    assert document["chosen"] in document["front"]
    assert set(document["front"][0]) >= {"snr_db", "latency", "bytes", "layers"}
    result = run("--max-latency", "0.001x")
    assert result.exit_code == 1
    assert "Pareto front, * is written" in result.stdout
    assert "QUANT0022" in result.stderr
    assert run("--metric", "nowhere:none", "--min-metric", "1").exit_code == 1
    assert "no metric is defined" in run("--min-metric", "1").stderr


def test_fused_kernel_times_are_assigned_to_layers():
    found = gp.prepare(nets.residual(), verify=False)[0].graph
    names = [node.name for node in found]
    times = times_of(found, nets.samples(nets.residual(), 4), names)
    assert times is not None
    assert {"first", "second", "head"} <= set(times.nodes)
    assert "first_relu" not in times.nodes


def _table(tmp_path, change=lambda document: None):
    path = tmp_path / "table.json"
    result = CliRunner().invoke(cli, ["latency", _saved(tmp_path), "-o", str(path), "--input", "x=4x3x8x8"])
    assert result.exit_code == 0, result.output
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def _saved(tmp_path):
    path = tmp_path / "net.onnx"
    gp.save(nets.residual(), path)
    return str(path)


def _slow_on_integers(name):
    def change(document):
        for row in document["nodes"]:
            row["float32_us"] = 100.0
            row["int8_us"] = 1000.0 if row["node"] == name else 10.0
        document["whole_us"] = 100.0 * len(document["nodes"])

    return change


@pytest.mark.parametrize("name", ["first", "second"])
def test_latency_table_selects_the_float_layers(tmp_path, name):
    table = _table(tmp_path, _slow_on_integers(name))
    found = nets.residual()
    made = gp.quantize(found, nets.samples(found, 64), latency_table=str(table), max_latency=0.9)
    floating = {layer.name for layer in made.report.floating}
    assert {"first", "second"} & floating == {name}
    assert made.report.chosen.latency <= 0.9
    fastest = min(made.report.front, key=lambda point: point.latency)
    assert fastest.latency_ms == pytest.approx(fastest.latency * json.loads(table.read_text())["whole_us"] / 1000)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda document: document.update(schema="other"), id="another schema"),
        pytest.param(lambda document: document.pop("nodes"), id="no nodes"),
        pytest.param(lambda document: document.update(target="openvino"), id="another target"),
    ],
)
def test_an_invalid_table_is_refused(tmp_path, change):
    found, table = nets.residual(), _table(tmp_path, change)
    with pytest.raises(gp.DiagnosticError, match="QUANT0028"):
        gp.quantize(found, nets.samples(found, 64), latency_table=str(table), front=True)


def test_a_table_is_read_before_samples_are(tmp_path, monkeypatch):
    monkeypatch.setattr("graphport.quantization.quantize.gather", lambda *_: pytest.fail("samples are read"))
    (tmp_path / "none.json").write_text("{}")
    with pytest.raises(gp.DiagnosticError, match="QUANT0028"):
        gp.quantize(nets.residual(), [], latency_table=str(tmp_path / "none.json"), max_latency=0.9)


def test_layers_that_a_table_does_not_know_are_reported(tmp_path):
    found, table = nets.residual(), _table(tmp_path, lambda document: document.update(nodes=[]))
    report = gp.quantize(found, nets.samples(found, 64), latency_table=str(table), front=True).report
    assert "QUANT0029" in [finding.code for finding in report.findings]


def test_a_point_that_is_slower_than_the_source_is_reported(monkeypatch):
    found = nets.residual()
    samples = nets.samples(found, 32)
    for time, is_told in ((1.2, True), (0.9, False)):
        _timed(monkeypatch, lambda _, time=time: time)
        codes = [finding.code for finding in gp.quantize(found, samples, preset="fast", front=True).report.findings]
        assert ("QUANT0023" in codes) is is_told
