"""What a run costs: how often models are run to find out."""

from __future__ import annotations

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
