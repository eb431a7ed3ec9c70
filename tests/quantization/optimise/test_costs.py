"""What a run costs: how often models are run to find out."""

from __future__ import annotations

import weakref

import openvino
import pytest

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.ir.graph import Graph
from graphport.quantization.optimise import costs
from tests.quantization import nets


def test_small_models_are_timed_by_a_number_of_runs(monkeypatch):
    monkeypatch.setattr(costs, "_SECONDS", 1.0)
    monkeypatch.setattr(costs, "_TURNS", 3)
    monkeypatch.setattr(costs, "_LEAST_TURNS", 3)
    runs = []

    class Quick:
        def run(self, inputs, *, every_value=False):
            runs.append(self)
            return {}

    first, second = Quick(), Quick()
    _, parts = costs.relative_times([first, second], {})
    assert parts[0] == 1
    for session in (first, second):
        assert runs.count(session) == 2 + 3 * costs._RUNS  # twice before that is measured


def test_zero_measured_time_gives_equal_relative_times(monkeypatch):
    monkeypatch.setattr(costs.time, "process_time", lambda: 5.0)
    monkeypatch.setattr(costs, "_RUNS", 2)

    class Quick:
        def run(self, inputs, *, every_value=False):
            return {}

    assert costs.relative_times([Quick(), Quick()], {})[1] == [1, 1]


def _times(real, rounded):
    names = [f"n{number}" for number in range(len(real))]
    return costs.Times(dict(zip(names, real, strict=True)), 1e-4), costs.Times(
        dict(zip(names, rounded, strict=True)), 2e-4
    )


def test_estimated_times_are_used_if_they_fit_the_measurement():
    expected = _times([10.0, 20.0, 30.0, 40.0], [5.0, 10.0, 15.0, 20.0])
    # A machine of half the speed, with something else to do while the last node ran; nothing is known of the first one.
    measured = _times([22.0, 39.0, 61.0, 81.0], [9.0, 21.0, 29.0, 90.0])
    del measured[1].nodes["n0"]
    real, rounded = costs.steadied(measured, expected)
    assert real.nodes == expected[0].nodes
    assert rounded.nodes == {"n1": 10.0, "n2": 15.0, "n3": 20.0}
    assert (real.rate, rounded.rate) == (1e-4, 2e-4)


def test_measured_times_are_used_if_estimates_do_not_fit():
    expected = _times([10.0, 20.0, 30.0], [5.0, 10.0, 15.0])
    measured = _times([10.0, 20.0, 30.0], [9.0, 18.0, 27.0])
    assert costs.steadied(measured, expected) is measured
    assert costs.steadied(measured, (costs.Times(), costs.Times())) is measured


def test_only_one_candidate_session_is_alive_at_a_time():
    held = weakref.WeakSet()

    class Made:
        def __init__(self, graph):
            held.add(self)
            most.append(len(held))

        def run(self, inputs, *, every_value=False):
            if "joined" in inputs:
                raise DiagnosticError(Diagnostic("RUN0005", "it takes one sample only"))
            return {}

    most = []
    beside = costs.RelativeTimer(Made, Graph("source"), [{"joined": 1}, {"one": 1}])
    assert all(beside.relative_time(Graph("other")) > 0 for _ in range(3))
    assert most == [1, 2, 2, 2]
    assert beside.milliseconds > 0


@pytest.mark.parametrize(("all_exact", "expected"), [(1.1, 1), (1.4, 0)])
def test_exact_products_are_selected_below_a_time_limit(monkeypatch, all_exact, expected):
    """One product: exact it takes so many times the time of the rounded one for a token, and 0.98 for many."""
    parts = iter([[all_exact, 1.0, 1.0, all_exact], [0.98, 1.0, 1.0, 0.98]])
    monkeypatch.setattr(costs, "relative_times", lambda _sessions, _inputs: (1.0, next(parts)))
    monkeypatch.setattr(costs, "preparer", lambda _target: lambda graph: graph)
    monkeypatch.setattr(costs, "products_of", lambda _graph: ["y"])
    monkeypatch.setattr(costs, "exact_products", lambda graph, _names: graph)
    monkeypatch.setattr(costs, "with_rotations", lambda graph: graph)
    assert len(costs.exact_layers(Graph("none"), [{}, {}])) == expected


def test_openvino_is_timed_with_its_default_settings():
    core = openvino.Core()
    made = costs.preparer("openvino")(nets.residual().graph)
    for name in ("INFERENCE_PRECISION_HINT", "DYNAMIC_QUANTIZATION_GROUP_SIZE"):
        assert made._compiled.get_property(name) == core.get_property("CPU", name)
