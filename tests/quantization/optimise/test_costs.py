"""What a run costs: how often models are run to find out."""

from __future__ import annotations

import pytest

from graphport.ir.graph import Graph
from graphport.quantization.optimise import costs


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
    _, parts = costs.parts_of([first, second], {})
    assert parts[0] == 1
    for session in (first, second):
        assert runs.count(session) == 2 + 3 * costs._RUNS  # twice before that is measured


def test_a_clock_that_shows_nothing_of_small_models_tells_no_difference(monkeypatch):
    monkeypatch.setattr(costs.time, "process_time", lambda: 5.0)
    monkeypatch.setattr(costs, "_RUNS", 2)

    class Quick:
        def run(self, inputs, *, every_value=False):
            return {}

    assert costs.parts_of([Quick(), Quick()], {})[1] == [1, 1]


@pytest.mark.parametrize(("all_exact", "expected"), [(1.1, 1), (1.4, 0)])
def test_products_are_exact_where_that_costs_little(monkeypatch, all_exact, expected):
    """One product: exact it takes so many times the time of the rounded one for a token, and 0.98 for many."""
    parts = iter([[all_exact, 1.0, 1.0, all_exact], [0.98, 1.0, 1.0, 0.98]])
    monkeypatch.setattr(costs, "parts_of", lambda _sessions, _inputs: (1.0, next(parts)))
    monkeypatch.setattr(costs, "preparer", lambda _target: lambda graph: graph)
    monkeypatch.setattr(costs, "products_of", lambda _graph: ["y"])
    monkeypatch.setattr(costs, "exact_products", lambda graph, _names: graph)
    monkeypatch.setattr(costs, "with_rotations", lambda graph: graph)
    assert len(costs.exact_layers(Graph("none"), [{}, {}])) == expected
